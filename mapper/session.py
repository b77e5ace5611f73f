"""Run one job, from a `MapRequest` to a mapping and its report. The only caller of the pipeline.

The command line, the Python API, benchmarks and tests build a `MapRequest`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from chipsim.chip.model import Chip
from mapper.distributed.start import start_workers
from mapper.executors.workers import Asked
from mapper.graph.disk import with_disk
from mapper.inputs.listener import Listener
from mapper.inputs.source import Effort, Source, open_source
from mapper.inputs.split import split_network
from mapper.kernels.warmup import compile_kernels, load_kernels, works_of_run
from mapper.limits.constraints import ConstraintFile, read_constraints
from mapper.limits.relays import RelayNeurons
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import looked_at_here, map_network
from mapper.planning.strategy import enough_memory, make_plan
from mapper.planning.workers import plan_workers
from mapper.results.mapping import Mapping
from mapper.results.output import SCRATCH, make_report, scratch_in
from mapper.results.output_folder import IMPORTED
from mapper.settings import HOPS, Settings
from storage.files import real_path
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile


@dataclass(frozen=True, slots=True, eq=False)
class MapRequest:
    """A network, the chip to map it onto, and the settings.

    constraints : neurons that are pinned or kept together
    split_neurons : spread synapses over relay neurons where they exceed the capacity of a core
    command : words of the command line, for the report
    workers : processes that scan a streamed network; None for the threads of this process
    """

    source: Source
    chip: Chip
    settings: Settings
    constraints: ConstraintFile | None = None
    split_neurons: bool = False
    command: tuple[str, ...] = ()
    workers: Asked | None = None

    @property
    def effort(self) -> Effort:
        """Return the threads and memory for reading the input."""
        return Effort(self.settings.threads, self.settings.memory_bytes)


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


@contextmanager
def mapped(
    request: MapRequest, place: Workspace, monitor: Monitor, listener: Listener
) -> Iterator[Session]:
    """Open or import, split, map, report.

    Raises `DoesNotFitError` if a limit of the chip cannot be met. Once all neurons have cores
    within the limits, Ctrl-C ends the run with the best mapping so far; before, it is raised.
    """
    chip, effort = request.chip, request.effort
    settings = request.settings.resolved(chip.delivery)
    with monitor.stop.holding() as held:
        original = held.enter_context(
            open_source(request.source, effort, listener, place.folder, place.resumed)
        )
        network, relays = original, None
        if request.split_neurons:
            network, relays = held.enter_context(
                split_network(original, chip, effort, listener, place.folder, place.resumed)
            )
        if request.settings.objective == "hops" and settings.objective != HOPS[chip.delivery]:
            listener.note(
                "note: the preset classic minimises hops of one packet per synapse, as published, "
                f"not hops of the packets that this chip sends (delivery = {chip.delivery!r})"
            )
        scratch = held.enter_context(_scratch(place))
        plan = with_disk(make_plan(network, chip, settings), network, chip, settings)
        listener.planned(plan)
        if plan.sample is not None and plan.sample.thin:
            listener.note(f"note: {plan.sample.describe(enough_memory(network, chip, settings))}")
        constraints = None
        if request.constraints is not None:
            count = 0 if relays is None else relays.count
            constraints = read_constraints(request.constraints, chip, original, count)
        works = works_of_run(settings, plan, chip, constraints is not None)
        with monitor.untimed():
            listener.compile(works, settings.threads)
            load_kernels(works)
        workers = None
        if request.workers is not None:
            here = looked_at_here(settings, plan, constraints is not None)
            if here:
                listener.note(f"note: --workers is not used: {here}")
            else:
                folder = place.folder / SCRATCH
                workers = held.enter_context(
                    start_workers(request.workers, folder, monitor.stop.check)
                )
                limits, threads = workers.limits(), workers.threads()
                needed = plan_workers(network, chip, settings, plan, len(limits), threads)
                needed.require(limits)
                workers.share(needed.exchanged(limits, request.workers.together))
                if workers.note:
                    listener.note(workers.note)
                with monitor.untimed():
                    workers.prepare(compile_kernels, works, threads)
        mapping = map_network(network, chip, settings, scratch, monitor, constraints, plan, workers)
        imported = original.path.parent == place.folder
        path = original.path
        if imported and place.output is not None:
            path = place.output / IMPORTED
        report = make_report(
            original, path, chip, request.settings, mapping, monitor, relays, request.command
        )
        report["resources"]["resumed"] = place.resumed
        if workers is not None:
            report["workers"] = workers.facts()
        given = request.source.network
        if imported and isinstance(given, Path):
            report["network"]["imported_from"] = str(real_path(given))
        yield Session(mapping, report, original, imported, relays)


def _scratch(place: Workspace) -> AbstractContextManager[Scratch]:
    """Return a context manager for the scratch of a run."""
    if place.lasting:
        return scratch_in(place.folder / SCRATCH)
    return Scratch(place.folder / SCRATCH, lasting=False)
