"""Mapping from Python: `map_network` takes what people have in memory, or a file.

Nothing is printed, and every error is one of `mapper.errors`. Compiled kernels, SciPy and the
like are imported by the call, not before.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from numpy.typing import ArrayLike

from mapper.errors import UsageError, as_mapper_errors
from mapper.runtime.callbacks import ignore

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.inputs.listener import Listener
    from mapper.inputs.source import Source
    from mapper.result import NetworkMapping
    from mapper.session import MapRequest

Progress: TypeAlias = Callable[[str, float], None]


def map_network(
    network: Any,
    chip: Any,
    *,
    preset: str = "default",
    objective: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    constraints: str | os.PathLike[str] | None = None,
    split_neurons: bool = False,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    rates: ArrayLike | str | None = None,
    columns: Mapping[str, str] | None = None,
    weights_are: str | None = None,
    progress: Progress | None = None,
    workdir: str | os.PathLike[str] | None = None,
    workers: Any = None,
    shared: str | os.PathLike[str] | None = None,
    **method: Any,
) -> NetworkMapping:
    """Map a network onto a chip, as `mapper run` does; the same input gives the same mapping.

    Parameters
    ----------
    network : the path of a network file or of any file that `mapper import` reads; an open
        `storage.store.network.NetworkFile`; a square scipy.sparse matrix (entry (i, j) is a synapse
        from i to j); a tuple (source, target) or (source, target, weight) of arrays of shape
        (synapses,); a networkx graph (edge attribute `weight`, else 1); a nir.NIRGraph
    chip : "16x16", the name of a preset, the path of a TOML file, or a `Chip`
    preset : "fast", "default", "strong" or "classic"
    objective : "unicast", "cut" or "multicast"; None leaves it to the preset
    seed : the same seed gives the same mapping for any number of threads
    threads : None takes all cores of the processor
    memory : bytes, or a text as "1GiB"; None takes three quarters of what is free
    neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core : replace the limits
        of the chip
    constraints : path of a TOML file of neurons that are pinned or kept together
    split_neurons : spread synapses that are more than a core holds over relay neurons
    neurons : of a tuple of arrays: number of neurons; None takes the largest id + 1
    sizes : of a network without a file: capacity that each neuron uses, whole numbers, shape
        (neurons,)
    rates : spikes of each neuron per unit of time, shape (neurons,), in the order of the network;
        or "uniform", every neuron fires at rate 1, as it is by default for NIR, ONNX and SONATA,
        which know no rates; or "weights", synapses carry the magnitude of their weights
    columns : of a table in a file, the names of those to use: `source`, `target`, `weight`,
        `source-population`, `target-population`, as in `mapper run --columns`
    weights_are : what the number of a synapse is where the network is from: "rate", its traffic,
        or "synapse", its weight, while the traffic follows from the rates; None for "synapse" of
        NIR, ONNX and SONATA, else "rate"
    progress : is called with the name of a stage and a fraction 0 .. 1 of its present pass; by
        any thread, but never twice at a time. What it raises ends the run and comes out here; but
        for `KeyboardInterrupt`, which is taken as Ctrl-C
    workdir : folder for temporary files; None takes the system's. A network that had no file takes
        space there, without a name, as long as its mapping is in use
    workers : processes that look at a network which is streamed: how many to start here, the
        address of a Dask scheduler, its file, or a `distributed.Client`, which stays open. The
        mapping is the same as without
    shared : with workers, a folder that they and this process see, for rows on their way from one
        to another; None takes a temporary one in `workdir`
    method : numbers that the preset would choose, by the names of `mapper.settings.Settings`

    Ctrl-C ends the run as soon as the kernel at work has ended. Once all neurons have cores within
    the limits, the best mapping so far is returned, and its `interrupted` is True; before,
    `KeyboardInterrupt` is raised and nothing is left behind.

    Raises
    ------
    DoesNotFitError
        If a limit of the chip cannot be kept.
    UsageError
        If an argument makes no sense.
    MapperError
        Base of both, for all other input that is wrong. A message is one line.
    """
    from mapper.distributed.start import ask_workers
    from mapper.limits.constraints import ConstraintFile
    from mapper.runtime.arguments import check_arguments
    from mapper.runtime.resources import all_cores, default_memory
    from mapper.session import MapRequest
    from mapper.settings import preset as preset_of

    check_arguments(
        preset=preset, objective=objective, seed=seed, threads=threads, memory=memory,
        constraints=constraints, split_neurons=split_neurons, neurons=neurons,
        columns=columns, progress=progress, workdir=workdir, shared=shared,
    )  # fmt: skip
    with as_mapper_errors():
        cores = _chip(chip).with_limits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        settings = preset_of(
            preset,
            **method | ({} if objective is None else {"objective": objective}),
            seed=seed,
            threads=threads or all_cores(),
            memory_bytes=default_memory() if memory is None else _bytes(memory),
        )
        constraint_file = None if constraints is None else ConstraintFile.read(Path(constraints))
        source = _source(network, neurons, sizes, rates, columns, weights_are)
        asked = ask_workers(
            workers, settings.threads, shared=None if shared is None else Path(shared)
        )
        request = MapRequest(source, cores, settings, constraint_file, split_neurons, (), asked)
        folder = Path(tempfile.mkdtemp(prefix="mapper-", dir=workdir))
        try:
            return _map(request, folder, progress)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _map(request: MapRequest, folder: Path, progress: Progress | None) -> NetworkMapping:
    """Do what is asked for; `folder` is for what lies on disk meanwhile."""
    from mapper.inputs.objects import names_of
    from mapper.result import NetworkMapping
    from mapper.results.loads import Loads
    from mapper.results.output import LOG
    from mapper.runtime.monitor import Monitor
    from mapper.session import Workspace, mapped
    from storage.scratch.nameless import NamelessFile

    place = Workspace(folder, lasting=False)
    monitor: Monitor
    with (
        Monitor(log=folder / LOG, on_progress=progress) as monitor,
        mapped(request, place, monitor, _listener(progress or ignore)) as session,
    ):
        report = session.report
        if session.imported:
            report["network"]["path"] = None
        return NetworkMapping(
            core=session.mapping.core[: session.network.vertices],
            chip=request.chip,
            settings=request.settings,
            metrics=report["metrics"],
            nodes=names_of(request.source.network, session.network),
            interrupted=bool(session.mapping.interrupted),
            _report=report,
            _loads=Loads.of(session.mapping.traffic),
            _log=(folder / LOG).read_text(encoding="utf-8"),
            _placed=session.mapping.core,
            _relays=session.relays,
            _constraints=None if request.constraints is None else request.constraints.raw,
            _network=NamelessFile(session.network.path) if session.imported else None,
        )


def _source(
    network: Any,
    neurons: int | None,
    sizes: ArrayLike | None,
    rates: ArrayLike | str | None,
    columns: Mapping[str, str] | None,
    weights_are: str | None,
) -> Source:
    """The network as it was given; raises `UsageError` for arguments that are of other networks."""
    from mapper.inputs.source import RATES_WORDS, Source
    from storage.address import path_of
    from storage.formats.columns import name_columns
    from storage.store.network import is_network_name

    if neurons is not None and not isinstance(network, tuple | list):
        raise UsageError("neurons is for a network of edge arrays only; leave it out")
    if columns is not None and not isinstance(network, str | os.PathLike):
        raise UsageError("columns are those of a table in a file; leave them out")
    if isinstance(rates, str) and rates not in RATES_WORDS:
        raise UsageError(f'rates is {rates!r}; give an array of rates, "uniform" or "weights"')
    if weights_are not in (None, "rate", "synapse"):
        raise UsageError(f'weights_are is {weights_are!r}; give "rate" or "synapse"')
    chosen = None
    if isinstance(network, str | os.PathLike):
        network = path_of(network)
        if columns is not None and is_network_name(network):
            raise UsageError(f"{network}: is a network file; columns are those of a table")
        try:
            chosen = None if columns is None else name_columns(columns)
        except ValueError as error:
            raise UsageError(f"columns: {error}") from error
    source = Source(network, chosen, rates, neurons=neurons, sizes=sizes, weights_are=weights_are)
    if weights_are is not None and source.is_network_file:
        raise UsageError(
            "weights_are is for what is imported, not for a network file; leave it out"
        )
    if sizes is not None and not source.is_object:
        raise UsageError("sizes are for a network without a file; leave them out")
    return source


def _listener(on_progress: Progress) -> Listener:
    """A listener that reports progress."""
    from mapper import warmup
    from mapper.inputs.listener import Listener

    class ProgressListener(Listener):
        def task(self, text: str) -> AbstractContextManager[Callable[[float], None]]:
            return nullcontext(lambda fraction: on_progress("import", fraction))

        def compile(self, works: list[str], threads: int) -> None:
            on_progress("compile kernels", 0.0)
            warmup.compile_kernels(
                works, threads, on_progress=lambda share: on_progress("compile kernels", share)
            )
            on_progress("compile kernels", 1.0)

    return ProgressListener()


def _chip(chip: Any) -> Chip:
    from chipsim.chip.model import Chip
    from chipsim.chip.presets import parse_chip

    if isinstance(chip, Chip):
        return chip
    if isinstance(chip, str | os.PathLike):
        return replace(parse_chip(os.fspath(chip)), npu=None, host=None)  # neurons need none
    raise UsageError(f'chip is {chip!r}; give "16x16", a preset, the path of a .toml, or a Chip')


def _bytes(memory: int | str) -> int:
    from mapper.runtime.resources import parse_bytes

    try:
        return parse_bytes(str(memory))
    except ValueError as error:
        raise UsageError(f"memory: {error}") from error
