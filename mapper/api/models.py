"""Python interface of compiled models: `compile_model` and `simulate_model`.

Nothing is printed, and every error is one of `mapper.errors`. Compiled kernels and packages such as
ONNX are imported by the call, not with this module.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from mapper.errors import MapperError, UsageError, as_argument_errors, name_arguments, shown
from mapper.monitoring.callbacks import OnProgress, ignore

if TYPE_CHECKING:
    from mapper.api.types import ChipLike
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork, SimulatedNetwork
    from mapper.inputs.model_arguments import (
        CommonArguments,
        NirGraph,
        OnnxArguments,
        OnnxModel,
        SpikingArguments,
    )
    from mapper.inputs.samples import GivenSamples
    from mapper.spiking.artifacts.compiled_model import CompiledModel, SimulatedModel

COMMAND = ("mapper.compile_model",)


@overload  # the options determine the kind of a file, unless all are for both kinds
def compile_model(  # type: ignore[overload-overlap]
    model: str | os.PathLike[str],
    chip: ChipLike,
    **options: Unpack[CommonArguments],
) -> CompiledModel | CompiledNetwork: ...


@overload
def compile_model(  # type: ignore[overload-overlap]
    model: NirGraph | str | os.PathLike[str],
    chip: ChipLike,
    **options: Unpack[SpikingArguments],
) -> CompiledModel: ...


@overload
def compile_model(
    model: OnnxModel | bytes | str | os.PathLike[str],
    chip: ChipLike,
    **options: Unpack[OnnxArguments],
) -> CompiledNetwork: ...


def compile_model(model: Any, chip: Any, **options: Any) -> CompiledModel | CompiledNetwork:
    """Compile a trained model for the cores of a chip, as `mapper compile` does.

    Parameters
    ----------
    model : ONNX: the path of a file, an onnx.ModelProto, or its bytes; spiking: the path of a
        .nir file, or a nir.NIRGraph
    chip : "16x16", the name of a preset, the path of a TOML file, or a `Chip`; for ONNX also a
        range such as "4x4..16x16", of which the smallest chip that fits is used
    output : folder to write; default: a temporary folder that lasts as long as the result
    force : replace an existing output
    calibrate : samples that show how large numbers get: the path of a file or folder; an array of
        shape (samples, *shape of the input), for spikes (samples, ticks, *shape); or arrays by the
        names of the file, such as `x` and the labels `y`. For ONNX also the path of a ranges.json
    max_loss : points of accuracy, or percentage of the samples whose class may change
    keep_going : return the best result if none keeps the limits

    All other options of the command have its names, with underscores, and its defaults.

    ONNX models
    -----------
    input_shape : sizes of the open axes of the input, or sizes by input
    npu : name of a preset, replaces the NPU of the cores
    samples : number of calibration samples to use; default: 100
    verify : test samples, as `calibrate`; default: a quarter of `calibrate`
    normalise, layout : how samples become input: "mean=0.5,std=0.25", "nhwc"
    bits : 8, 16, "auto", or with exceptions by layer, "8,conv1=16"
    scheme, per, method, headroom, rounding, zero_point : quantisation
    min_signal : minimum SQNR in dB
    keep : ONNX nodes to keep on the host, names in a list or one text
    cores, objective, effort, time_limit : search over several cores
    first_tile, bias, dual, few_channels, padding, pack, pack_chunk : schedule and memory
    disable, baseline : passes to switch off, and fixed rules in place of a search
    explain, keep_graphs, emit : further files in the folder
    memory : budget, bytes or a text such as "1GiB"
    no_cache : use no results of earlier compilations, and keep none
    progress : called with the name of a stage at its start (0.0) and its end (1.0). An exception
        that it raises ends the compilation and is raised here

    Spiking models
    --------------
    tick_length : duration of a tick in the time unit of the model; default: its `dt`
    reset : after a spike, "zero" (to `v_reset`) or "subtract" (the threshold)
    weight_bits : width or widths to try; default: 8, 10, 12 and 16, as far as the chip has them
    per : what shares a scale of weights, "neuron" or "population"
    min_agreement : minimum mean cosine of the spike trains of a population; default: 0.95
    bin : ticks per bin in which the trains are counted, 1 (default), 5 or 20
    encode, ticks, seed : turn real numbers into spikes, "current", "rate" or "latency", during so
        many ticks; seed of the random spikes of "rate"

    Ctrl-C ends the compilation and leaves no files.

    Returns
    -------
    CompiledNetwork for ONNX models, CompiledModel for spiking models

    Raises
    ------
    CheckFailedError
        If the result misses a limit.
    DoesNotFitError
        If the model does not fit the chip.
    UsageError
        If an argument is invalid.
    MapperError
        Base of all, for all other invalid input. A message is one line.
    """
    from storage.address import path_of

    if isinstance(model, str | os.PathLike):
        model = path_of(model)
        spiking = model.suffix.lower() == ".nir"
    elif isinstance(model, bytes | bytearray | memoryview) or hasattr(model, "SerializeToString"):
        spiking = False
    elif hasattr(model, "nodes") and hasattr(model, "edges"):
        spiking = True
    else:
        raise UsageError(
            f"model is {shown(model)}; give the path of an .onnx or .nir file, an onnx.ModelProto, "
            "its bytes, or a nir.NIRGraph"
        )
    _require_known(options, spiking)
    return (_compile_spiking if spiking else _compile_onnx)(model, chip, options)


@overload
def simulate_model(
    compiled: CompiledModel,
    samples: GivenSamples,
    *,
    limit: int | None = None,
    check: bool = False,
    cycles: bool = False,
    threads: int | None = None,
    progress: OnProgress | None = None,
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
    threads: int | None = None,
    progress: OnProgress | None = None,
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
    threads: int | None = None,
    progress: OnProgress | None = None,
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
    progress : called with a stage and the fraction of its work, 0 .. 1

    Raises `UsageError` for invalid arguments, and `MapperError` for invalid samples or folders.
    """
    from mapper.monitoring.resources import all_cores

    _require_timed(timed)
    found = _opened(compiled)
    if hasattr(found, "manifest"):
        for name in ("frames", "clock"):
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
        if name not in ("cycles", "frames", "clock", "progress"):
            raise UsageError(f"simulate_model has no argument {name!r}")


def _require_known(options: Mapping[str, Any], spiking: bool) -> None:
    """Raise `UsageError` for options that do not apply to a kind of model."""
    from mapper.inputs.model_arguments import OnnxArguments, SpikingArguments

    known: Mapping[str, Any] = OnnxArguments.__annotations__
    others: Mapping[str, Any] = SpikingArguments.__annotations__
    if spiking:
        known, others = others, known
    kinds = "spiking models (.nir)", "ONNX models"
    for name in options:
        if name in known:
            continue
        if name in others:
            raise UsageError(f"{name}: applies to {kinds[spiking]} only; omit it")
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"there is no argument {name!r} for {kinds[not spiking]}{hint}")
    progress = options.get("progress")
    if progress is not None and not callable(progress):
        raise UsageError(
            f"progress is {shown(progress)}; give a function (stage, fraction) -> None"
        )


def _compile_spiking(model: Any, chip: Any, options: dict[str, Any]) -> CompiledModel:
    """Compile a NIR graph, or the file of one."""
    from mapper.inputs.chips import given_chip
    from mapper.spiking.artifacts.compiled_model import compile_folder, sample_source
    from mapper.spiking.options import CompileOptions, spiking_options

    output, calibrate = options.pop("output", None), options.pop("calibrate", None)
    force = options.pop("force", False)
    with as_argument_errors():
        samples = None if calibrate is None else sample_source(calibrate, "calibrate")
        cores, folder = given_chip(chip), None if output is None else Path(output)
        asked = spiking_options(CompileOptions(**options), cores, samples is not None)
        return compile_folder(model, cores, samples, asked, folder, force)


def _compile_onnx(model: Any, chip: Any, options: dict[str, Any]) -> CompiledNetwork:
    """Compile the file of an ONNX model, or a model in memory."""
    output, force = options.pop("output", None), options.get("force", False)
    progress = options.pop("progress", None) or ignore
    folder = None if output is None else Path(output)
    with as_argument_errors(), _budget(options):
        if isinstance(model, Path):
            return _compiled(model, chip, options, (folder, force), progress)
        with tempfile.TemporaryDirectory(prefix="mapper-", ignore_cleanup_errors=True) as name:
            path = Path(name, "model.onnx")
            path.write_bytes(_serialised(model))
            try:
                return _compiled(path, chip, options, (folder, force), progress)
            except MapperError as error:
                raise type(error)(str(error).replace(str(path), "model")) from error


def _compiled(
    path: Path, chip: Any, options: dict[str, Any], where: tuple[Path | None, bool],
    progress: OnProgress,
) -> CompiledNetwork:  # fmt: skip
    """Compile the file of an ONNX model. where : output folder, and whether to replace it"""
    from mapper.compiler.arguments import RequestedFile, request_of_arguments
    from mapper.compiler.artifacts.compiled_network import open_network
    from mapper.compiler.job import compile_requested
    from mapper.compiler.stages import clock_of
    from mapper.inputs.chips import chips_in, given_chip, with_npu
    from mapper.inputs.listener import NotesListener
    from mapper.results.temporary_folder import with_folder

    sizes = chips_in(chip) if isinstance(chip, str) else [chip]
    npu = options.pop("npu", None)
    if not isinstance(npu, str | None):
        raise UsageError(f"npu is {shown(npu)}; give the name of a preset")
    chips = [with_npu(given_chip(one), npu) for one in sizes]
    request = request_of_arguments(RequestedFile(path, chips), options, COMMAND)
    request.require_sound()
    listener, clock = NotesListener(progress), clock_of(progress)
    return with_folder(
        *where,
        lambda folder: compile_requested(
            request, folder, listener, clock, bool(options.get("explain"))
        ),
        lambda folder, _: open_network(folder, tuple(listener.notes)),
    )


def _serialised(model: Any) -> bytes:
    """Return the bytes of a model in memory; raise `MapperError` if it has too many."""
    if isinstance(model, bytes | bytearray | memoryview):
        return bytes(model)
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # protobuf has several classes of errors
        raise MapperError(
            f"model: cannot be serialised: {name_arguments(str(error))}; save it with "
            "onnx.save_model and external data, and give the path"
        ) from error


def _budget(options: dict[str, Any]) -> AbstractContextManager[None]:
    """Return a context with the argument `memory` as the budget, and replace it by bytes."""
    from mapper.monitoring.resources import memory_budget, parse_bytes

    memory = options.get("memory")
    if memory is None:
        return nullcontext()
    try:
        options["memory"] = size = parse_bytes(str(memory))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from error
    return memory_budget(size)
