"""Python interface of compiled models: `simulate_model`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from mapper.errors import MapperError, UsageError, as_argument_errors, shown

if TYPE_CHECKING:
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork, SimulatedNetwork
    from mapper.inputs.samples import GivenSamples
    from mapper.monitoring.bars import GivenProgress
    from mapper.spiking.artifacts.compiled_model import CompiledModel, SimulatedModel


@overload
def simulate_model(
    compiled: CompiledModel,
    samples: GivenSamples,
    *,
    limit: int | None = None,
    check: bool = False,
    cycles: bool = False,
    hardware: bool = False,
    threads: int | None = None,
    progress: GivenProgress = None,
) -> SimulatedModel: ...


@overload
def simulate_model(
    compiled: CompiledNetwork,
    samples: GivenSamples,
    *,
    limit: int | None = None,
    check: bool = False,
    cycles: bool = False,
    frames: int | None = None,
    clock: float | None = None,
    dump: str | os.PathLike[str] | None = None,
    hardware: bool = False,
    threads: int | None = None,
    progress: GivenProgress = None,
) -> SimulatedNetwork: ...


@overload
def simulate_model(
    compiled: str | os.PathLike[str],
    samples: GivenSamples,
    *,
    limit: int | None = None,
    check: bool = False,
    cycles: bool = False,
    frames: int | None = None,
    clock: float | None = None,
    dump: str | os.PathLike[str] | None = None,
    hardware: bool = False,
    threads: int | None = None,
    progress: GivenProgress = None,
) -> SimulatedModel | SimulatedNetwork: ...


def simulate_model(
    compiled: Any,
    samples: Any,
    *,
    limit: int | None = None,
    check: bool = False,
    threads: int | None = None,
    **timed: Any,
) -> SimulatedModel | SimulatedNetwork:
    """Run a compiled model on samples, as `mapper simulate` does; its folder is not changed.

    Parameters
    ----------
    compiled : the folder of a compiled model, or a result of `compile_model`
    samples : as `calibrate` of `compile_model`
    limit : number of samples to run, from the first; default: all
    check : compare every layer with the integer reference, and the results with the model
    threads : number of threads; the results do not depend on it; default: all
    cycles : also run the first samples cycle by cycle; for spiking models, count the cycles of
        each tick
    frames, clock : for ONNX on several cores, number of frames of that run, and the clock in MHz;
        default: 20 frames, 500 MHz
    dump : for ONNX, folder for all stored maps (N.npy, tensors.json), which are compared with the
        integer reference
    hardware : also run samples in Amaranth, and compare all bytes, spikes and cycles: on at most
        2x2 cores; takes minutes
    progress : called with a stage and the fraction of its work, 0 .. 1; or True or False, see
        `mapper.map_network`

    Raises `UsageError` for invalid arguments, and `MapperError` for invalid samples or folders.
    """
    from mapper.monitoring.resources import all_cores

    _require_timed(timed)
    found = _opened(compiled)
    if hasattr(found, "manifest"):
        for name in ("frames", "clock", "dump"):
            if timed.pop(name, None) is not None:
                raise UsageError(f"{name}: applies to compiled ONNX models only; omit it")
        spiking: CompiledModel = found
        some = all_cores() if threads is None else threads
        return spiking.simulate(samples, limit=limit, check=check, threads=some, **timed)
    network: CompiledNetwork = found
    return network.simulate(samples, limit=limit, check=check, threads=threads, **timed)


def _opened(compiled: Any) -> Any:
    """Return the `CompiledModel` or `CompiledNetwork` of a folder, or such an object itself."""
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork, open_network
    from mapper.compiler.artifacts.manifest import is_compiled
    from mapper.results.output_folder import find_folder
    from mapper.spiking.artifacts.compiled_model import CompiledModel, open_model
    from mapper.spiking.artifacts.folder import is_spiking

    if isinstance(compiled, CompiledModel | CompiledNetwork):
        return compiled
    if not isinstance(compiled, str | os.PathLike):
        raise UsageError(
            f"compiled is {shown(compiled)}; give the folder of a compiled model, or a result of "
            "compile_model"
        )
    with as_argument_errors():
        folder = find_folder(Path(compiled))
        if is_spiking(folder):
            return open_model(folder)
        if not is_compiled(folder):
            raise MapperError(f"{folder}: is not the folder of a compiled model")
        return open_network(folder)


def _require_timed(given: Mapping[str, Any]) -> None:
    """Raise `UsageError` for unknown arguments of `simulate_model`."""
    for name in given:
        if name not in ("cycles", "frames", "clock", "dump", "hardware", "progress"):
            raise UsageError(f"simulate_model has no argument {name!r}")
