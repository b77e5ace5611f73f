"""`map_network` maps a network onto a chip.

Nothing is printed, and every error is one of `mapper.errors`. Compiled kernels and packages such as
SciPy are imported by the call, not with this module.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from numpy.typing import ArrayLike

from mapper.api.arguments import (
    GivenLimits,
    Reading,
    check_arguments,
    constraints_of,
    core_limits,
    settings_of,
    source_of,
)
from mapper.errors import as_mapper_errors
from mapper.monitoring.bars import GivenProgress, progress_of
from mapper.monitoring.callbacks import OnProgress

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.api.types import (
        ChipLike,
        ConstraintsLike,
        MethodSettings,
        NetworkLike,
        Objective,
        Preset,
        Rates,
    )
    from mapper.result import NetworkMapping
    from mapper.session import MapRequest


def map_network(
    network: NetworkLike,
    chip: ChipLike,
    *,
    preset: Preset = "default",
    objective: Objective | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    constraints: ConstraintsLike | None = None,
    split_neurons: bool = False,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    rates: Rates | None = None,
    rates_duration: float | None = None,
    columns: Mapping[str, str] | None = None,
    weights_are: str | None = None,
    progress: GivenProgress = None,
    time_limit: float | None = None,
    workdir: str | os.PathLike[str] | None = None,
    workers: Any = None,
    shared: str | os.PathLike[str] | None = None,
    **method: Unpack[MethodSettings],
) -> NetworkMapping:
    """Map a network onto a chip, as `mapper run` does; the same input gives the same mapping.

    Parameters
    ----------
    network : path of a network file or of any file that `mapper import` reads; an open
        `storage.store.network.NetworkFile`; a square matrix of numpy or scipy.sparse (entry (i, j)
        is a synapse from i to j; zeros of numpy are none); a tuple (source, target) or (source,
        target, weight) of arrays of shape (synapses,); a graph of networkx or igraph (edge
        attribute `weight`, default 1); a nir.NIRGraph; a data frame of pandas or polars with a row
        per synapse
    chip : (16, 16), "16x16", the name of a preset, the path of a TOML file, or a `Chip`
    preset : "fast", "default", "strong" or "classic"
    objective : "hops", "unicast", "core", "multicast", "cut" or "time"; default: set by the preset
    seed : the same seed gives the same mapping for any number of threads
    threads : number of threads; default: all cores of the processor
    memory : bytes, or a text such as "1GiB"; default: three quarters of the free memory
    neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core : replace the limits
        of the chip
    constraints : where neurons must be, and which must be together or apart: the path of a TOML
        file, or its tables, as in ``{"pin": [{"neurons": [0, 5], "core": 12}]}``
    split_neurons : spread synapses over relay neurons where they exceed the capacity of a core
    neurons : number of neurons, for a tuple of arrays; default: the largest id + 1
    sizes : capacity that each neuron uses, whole numbers, shape (neurons,); for a network without a
        file
    rates : spikes of each neuron per unit of time, shape (neurons,), in the order of the network;
        the path of a file of rates or spikes; "uniform": every neuron fires at rate 1 (the default
        for NIR, ONNX and SONATA, which have no rates); "weights": the traffic of a synapse is the
        magnitude of its weight
    rates_duration : length of a file of spikes in seconds; default: until the last spike
    columns : names of the columns to use of a table in a file: `source`, `target`, `weight`,
        `source-population`, `target-population`, as in `mapper run --columns`
    weights_are : meaning of the number of a synapse in the input: "rate", its traffic, or
        "synapse", its weight, while the traffic follows from the rates; default: "synapse" for
        NIR, ONNX and SONATA, otherwise "rate"
    progress : called with the name of a stage and the fraction 0 .. 1 of its present pass, from
        any thread, one call at a time. An exception that it raises ends the run and is raised here,
        except `KeyboardInterrupt`, which counts as Ctrl-C. True shows a bar in a notebook or on a
        terminal, False shows none; default: a bar in notebooks only
    time_limit : seconds after which the best mapping so far is returned, with `interrupted` True;
        see `--time-limit` of `mapper run`
    workdir : folder for temporary files; default: the system's. A network without a file uses
        space there, in an unnamed file, as long as its mapping is in use
    workers : processes that scan a streamed network: the number to start on this machine, the
        address of a Dask scheduler, its file, or a `distributed.Client`, which stays open. The
        mapping is the same as without workers
    shared : with workers, a folder that they and this process can access, for data exchanged
        between workers; default: a temporary folder in `workdir`
    method : values that override the preset, by the names of `mapper.settings.Settings`

    Ctrl-C ends the run as soon as the running kernel has ended. Once all neurons have cores within
    the limits, the best mapping so far is returned with `interrupted` True; before that,
    `KeyboardInterrupt` is raised and no files remain.

    Raises
    ------
    DoesNotFitError
        If a limit of the chip cannot be met.
    UsageError
        If an argument is invalid.
    MapperError
        Base of both, for all other invalid input. A message is one line.
    """
    from mapper.api.network import Network
    from mapper.distributed.start import ask_workers
    from mapper.session import MapRequest

    check_arguments(
        preset=preset, objective=objective, seed=seed, threads=threads, memory=memory,
        constraints=constraints, split_neurons=split_neurons, neurons=neurons,
        columns=columns, progress=progress, time_limit=time_limit, workdir=workdir, shared=shared,
    )  # fmt: skip
    changes: dict[str, Any] = {**method}
    if objective is not None:
        changes["objective"] = objective
    with as_mapper_errors(), progress_of(progress) as on_progress:
        limits = GivenLimits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        cores = core_limits(chip, limits)
        settings = settings_of(preset, seed, threads, memory, changes)
        file = constraints_of(constraints)
        reading = Reading(neurons, sizes, rates, rates_duration, columns, weights_are)
        source = source_of(network, reading)
        folder = None if shared is None else Path(shared)
        asked = ask_workers(workers, settings.threads, shared=folder)
        return _map(
            MapRequest(
                source, cores, settings, file, split_neurons, (), asked, time_limit=time_limit
            ),
            workdir,
            on_progress,
            network if isinstance(network, Network) and network.is_temporary else None,
        )


def _map(
    request: MapRequest,
    workdir: str | os.PathLike[str] | None,
    on_progress: OnProgress,
    given: Network | None,
) -> NetworkMapping:
    """Run a request, with temporary files in `workdir`.

    given : the network, if its file is temporary; the mapping keeps the file
    """
    from mapper.inputs.listener import ProgressListener
    from mapper.inputs.objects import names_of
    from mapper.inputs.opening import link
    from mapper.monitoring.monitor import Monitor
    from mapper.result import NetworkMapping
    from mapper.results.loads import Loads
    from mapper.results.output import LOG
    from mapper.results.output_folder import IMPORTED
    from mapper.session import Workspace, mapped
    from storage.blobs.access import StoreAccess, store_access
    from storage.scratch.nameless import NamelessFile

    with (
        store_access(StoreAccess()),
        tempfile.TemporaryDirectory(
            prefix="mapper-", dir=workdir, ignore_cleanup_errors=True
        ) as name,
    ):
        folder = Path(name)
        place = Workspace(folder, lasting=False)
        monitor: Monitor
        with (
            Monitor(log=folder / LOG, on_progress=on_progress) as monitor,
            mapped(request, place, monitor, ProgressListener(on_progress)) as session,
        ):
            report, kept = session.report, None
            if session.imported:
                kept = session.network.path
            elif given is not None:
                kept = folder / IMPORTED
                link(given.path, kept)
            if kept is not None:
                report["network"]["path"] = None
            mapping = NetworkMapping(
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
                _populations=session.mapping.populations,
            )
        # after the network was closed: Windows does not move open files
        return mapping if kept is None else replace(mapping, _network=NamelessFile(kept))
