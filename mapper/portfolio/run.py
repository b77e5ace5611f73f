"""One whole run, from a request to its output folder, as `mapper run` executes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mapper.cache.catalogue import Catalogue
from mapper.inputs.listener import Listener
from mapper.inputs.split import SPLIT
from mapper.monitoring.monitor import Monitor
from mapper.portfolio.figures import figures_of
from mapper.reporting import make
from mapper.reporting.members import PageNeurons
from mapper.reporting.view import make_view
from mapper.results.loads import Loads
from mapper.results.output import CONSTRAINTS, LOG, SCRATCH, write_results
from mapper.results.output_folder import output_folder, remove_folder
from mapper.resume.resume import describe_run
from mapper.session import MapRequest, Workspace, mapped
from storage.files import digest, real_path, write_file


@dataclass(frozen=True, slots=True, eq=False)
class RunTask:
    """A request and its output folder.

    request : the network must be a path
    keep_scratch : keep the coarse levels in the folder
    force : replace an existing output
    resume : continue an earlier run of the same request
    """

    request: MapRequest
    output: Path
    keep_scratch: bool = False
    force: bool = False
    resume: bool = False


class Finished(NamedTuple):
    """A finished run.

    report : report.json
    stage : stage during which the run was interrupted, or empty
    asked : Ctrl-C was received, possibly when the mapping was already complete
    late : the time limit ended the run
    """

    report: dict[str, Any]
    stage: str
    asked: bool
    late: bool = False


def describe_request(request: MapRequest) -> dict[str, Any]:
    """Return the inputs that determine the result of a run; compared when it is resumed."""
    source, constraints = request.source, request.constraints
    run = describe_run(source.network, request.chip, request.settings)
    run["constraints"] = None if constraints is None else constraints.raw.hex()
    run["columns"] = None if source.columns is None else asdict(source.columns)
    run["rates"] = None
    if isinstance(source.rates, str):
        run["rates"] = source.rates
    elif isinstance(source.rates, Path):
        run["rates"] = digest(source.rates)
        run["rates duration"] = source.duration
    if source.weights_are is not None:
        run["weights are"] = source.weights_are
    run["split neurons"] = request.split_neurons
    return run


def run_into_folder(
    task: RunTask, make_monitor: Callable[[Path], Monitor], listener: Listener
) -> Finished:
    """Map, and write the output folder, which appears when it is complete.

    make_monitor : called with the path of the log; the `Stop` of the monitor receives Ctrl-C
    Raises `DoesNotFitError` if a limit of the chip cannot be met, and the errors of
    `output_folder`. Once all neurons have cores within the limits, Ctrl-C ends the run with the
    best mapping so far; before, it is raised.
    """
    request, output = task.request, task.output
    about = describe_request(request)
    with output_folder(output, task.force, task.resume, about) as work:
        folder = work.folder
        place = Workspace(folder, output, resumed=work.resumed)
        with (
            make_monitor(folder / LOG) as monitor,
            mapped(request, place, monitor, listener) as session,
        ):
            mapping, report, relays = session.mapping, session.report, session.relays

        def write() -> None:
            write_results(folder, report, mapping, request.chip, relays)
            loads = Loads.of(mapping.traffic)
            members = PageNeurons(mapping.core, report["network"]["neurons"], mapping.populations)
            views = [make_view(real_path(output).name, report, loads, members)]
            make.write_page(folder / make.PAGE, views)
            if request.constraints is not None:
                write_file(folder / CONSTRAINTS, request.constraints.raw)
            if not task.keep_scratch:  # last: a run killed before resumes after all steps
                remove_folder(folder / SCRATCH, output / SCRATCH)
                (folder / SPLIT).unlink(missing_ok=True)

        monitor.stop.run(write, patient=True)
    Catalogue.of_user().add(
        "run", request.source.network, output, request.chip.name, report["settings"],
        msgspec.to_builtins(figures_of(report)), report["resources"]["seconds"],
    )  # fmt: skip
    late = monitor.stop.late
    return Finished(report, mapping.interrupted, monitor.stop.asked and not late, late)
