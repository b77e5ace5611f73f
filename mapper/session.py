"""Run one job, from a `MapRequest` to a mapping and its report. The only caller of the pipeline.

The command line, the Python API, benchmarks and tests build a `MapRequest`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chipsim.chip.model import Chip
from mapper.cache.cache import OFF, Cache
from mapper.distributed.start import start_workers
from mapper.executors.worker_interface import Asked
from mapper.graph.disk import with_disk
from mapper.inputs.listener import Listener
from mapper.inputs.opening import open_source
from mapper.inputs.source import Effort, Source
from mapper.inputs.split import split_network
from mapper.kernels.warmup import compile_kernels, load_kernels, works_of_run
from mapper.limits.combined_constraints import Constraints, read_constraints
from mapper.limits.constraints import ConstraintFile
from mapper.limits.split_neurons import RelayNeurons
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.planning.core_limits import CoreLimits
from mapper.planning.strategy import enough_memory, make_plan
from mapper.planning.worker_plan import looked_at_here, plan_workers
from mapper.results.mapping import Mapping
from mapper.results.output import SCRATCH, make_report, scratch_in
from mapper.results.output_folder import IMPORTED
from mapper.settings import HOPS, Settings
from storage.files import real_path
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile

if TYPE_CHECKING:
    from mapper.distributed.dask import DaskWorkers
    from mapper.planning.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class MapRequest:
    """A network, the chip to map it onto, and the settings.

    constraints : where neurons must be, and which must be together or apart
    split_neurons : spread synapses over relay neurons where they exceed the capacity of a core
    command : words of the command line, for the report
    workers : processes that scan a streamed network; None for the threads of this process
    cache : earlier imports
    time_limit : seconds after which mapping ends with the best so far; not compared on resume
    """

    source: Source
    chip: Chip
    settings: Settings
    constraints: ConstraintFile | None = None
    split_neurons: bool = False
    command: tuple[str, ...] = ()
    workers: Asked | None = None
    cache: Cache = OFF
    time_limit: float | None = None

    @property
    def effort(self) -> Effort:
        """Return the threads and memory for reading the input."""
        return Effort(self.settings.threads, self.settings.memory_bytes, self.cache)


class Workspace(NamedTuple):
    """The working folder of a run.

    folder : for the imported network, scratch, and the network with relays
    output : final path of the folder; None if it is temporary
    lasting : written files survive a crash of the machine, so the run can be resumed
    resumed : the folder holds finished steps of an earlier run
    """

    folder: Path
    output: Path | None = None
    lasting: bool = True
    resumed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Session:
    """A finished job with its network still open.

    network : the input network, without relays
    imported : the network is a file of the workspace
    relays : relays of split neurons; None if neurons were not split
    """

    mapping: Mapping
    report: dict[str, Any]
    network: NetworkFile
    imported: bool
    relays: RelayNeurons | None


class Inputs(NamedTuple):
    """The opened input of a run.

    original : the input network, without relays
    network : the network to map: with relays, if neurons were split
    relays : relays of split neurons; None if neurons were not split
    """

    original: NetworkFile
    network: NetworkFile
    relays: RelayNeurons | None


@contextmanager
def open_inputs(
    request: MapRequest, listener: Listener, folder: Path | None = None, resume: bool = False
) -> Iterator[Inputs]:
    """Open or import the network of a request, and split its neurons if requested.

    folder : for files that are written; None uses a temporary folder
    resume : use files of an earlier run in that folder
    """
    effort = request.effort
    with open_source(request.source, effort, listener, folder, resume) as original:
        if not request.split_neurons:
            yield Inputs(original, original, None)
            return
        with split_network(original, request.chip, effort, listener, folder, resume) as found:
            yield Inputs(original, *found)


def constraints_on(request: MapRequest, inputs: Inputs) -> Constraints | None:
    """Return the constraints of a request, checked against its network and chip."""
    if request.constraints is None:
        return None
    count = 0 if inputs.relays is None else inputs.relays.count
    memory = request.settings.memory_bytes // 4
    return read_constraints(request.constraints, request.chip, inputs.original, count, memory)


@contextmanager
def mapped(
    request: MapRequest, place: Workspace, monitor: Monitor, listener: Listener
) -> Iterator[Session]:
    """Open or import, split, plan, map, report.

    Raises `DoesNotFitError` if a limit of the chip cannot be met. Once all neurons have cores
    within the limits, Ctrl-C ends the run with the best mapping so far; before, it is raised.
    """
    chip, settings = request.chip, request.settings.resolved(request.chip.delivery)
    with monitor.stop.holding() as held:
        inputs = held.enter_context(open_inputs(request, listener, place.folder, place.resumed))
        if request.settings.objective == "hops" and settings.objective != HOPS[chip.delivery]:
            listener.note(
                "note: the preset classic minimises hops of one packet per synapse, as published, "
                f"not hops of the packets that this chip sends (delivery = {chip.delivery!r})"
            )
        scratch = held.enter_context(open_scratch(place))
        constraints = constraints_on(request, inputs)
        tables = 0 if constraints is None else constraints.bytes
        plan = _plan(inputs.network, chip, settings, listener, tables)
        restricted = constraints is not None or bool(chip.core_limits)
        works = works_of_run(settings, plan, chip, restricted)
        with monitor.untimed():
            listener.compile(works, settings.threads)
            load_kernels(works)
        workers = None
        if request.workers is not None:
            here = looked_at_here(settings, plan, chip, constraints is not None)
            if here:
                listener.note(f"note: --workers is not used: {here}")
            else:
                folder = place.folder / SCRATCH
                workers = held.enter_context(
                    start_workers(request.workers, folder, monitor.stop.check)
                )
                require_workers(request.workers, workers, inputs.network, chip, settings, plan)
                if workers.note:
                    listener.note(workers.note)
                with monitor.untimed():
                    workers.prepare(compile_kernels, works, workers.threads())
        mapping = map_network(
            inputs.network, chip, settings, scratch, monitor, constraints, plan, workers,
            request.time_limit,
        )  # fmt: skip
        imported = inputs.original.path.parent == place.folder
        report = _report(request, place, inputs, mapping, monitor)
        if workers is not None:
            report["workers"] = workers.facts()
        if imported and isinstance(request.source.network, Path):
            report["network"]["imported_from"] = str(real_path(request.source.network))
        yield Session(mapping, report, inputs.original, imported, inputs.relays)


def open_scratch(place: Workspace) -> AbstractContextManager[Scratch]:
    """Return a context manager for the scratch of a run."""
    if place.lasting:
        return scratch_in(place.folder / SCRATCH)
    return Scratch(place.folder / SCRATCH, lasting=False)


def _plan(
    network: NetworkFile, chip: Chip, settings: Settings, listener: Listener, tables: int
) -> Plan:
    """Return the memory plan of a run; report it, and a sample that is too small.

    tables : bytes of the tables of constraints
    """
    plan = with_disk(make_plan(network, chip, settings, tables), network, chip, settings)
    listener.planned(plan)
    if plan.sample is not None and plan.sample.thin:
        listener.note(f"note: {plan.sample.describe(enough_memory(network, chip, settings))}")
    return plan


def require_workers(
    asked: Asked, workers: DaskWorkers, network: NetworkFile, chip: CoreLimits, settings: Settings,
    plan: Plan,
) -> None:  # fmt: skip
    """Raise `DoesNotFitError` if workers have too little memory; otherwise share it out."""
    limits = workers.limits()
    needed = plan_workers(network, chip, settings, plan, len(limits), workers.threads())
    needed.require(limits)
    workers.share(needed.exchanged(limits, asked.together))


def _report(
    request: MapRequest, place: Workspace, inputs: Inputs, mapping: Mapping, monitor: Monitor
) -> dict[str, Any]:
    """Return report.json of a mapping."""
    path = inputs.original.path
    if path.parent == place.folder and place.output is not None:
        path = place.output / IMPORTED
    report = make_report(
        inputs.original, path, request.chip, request.settings, mapping, monitor, inputs.relays,
        request.command,
    )  # fmt: skip
    report["resources"]["resumed"] = place.resumed
    return report
