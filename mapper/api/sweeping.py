"""`sweep` maps all combinations of networks, chips and settings."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mapper.api.arguments import check_arguments, memory_of
from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import Listener, NotesListener, ProgressListener
from mapper.monitoring.bars import GivenProgress, progress_of
from mapper.monitoring.callbacks import OnProgress

if TYPE_CHECKING:
    from mapper.concurrency.interrupts import Stop
    from mapper.monitoring.monitor import Monitor
    from mapper.portfolio.executor import Executor, Outcome
    from mapper.portfolio.portfolio_file import PortfolioFile


class SweepRuns(NamedTuple):
    """The runs of a sweep, returned by `mapper.sweep`.

    folder : the output folder, with a folder for each run that is kept
    rows : settings and figures of each run by name, as in sweep.csv, all as text
    best : folder of the best run, None if all failed
    failed : the errors of runs that failed, by folder
    notes : a line for each kind of value that was dropped, merged, changed or assumed
    """

    folder: Path
    rows: list[dict[str, str]]
    best: Path | None
    failed: dict[str, str]
    notes: tuple[str, ...]


def sweep(
    combinations: str | os.PathLike[str] | Mapping[str, Any],
    output: str | os.PathLike[str],
    *,
    force: bool = False,
    resume: bool = False,
    keep: Literal["all", "best"] = "all",
    keep_scratch: bool = False,
    workers: int | None = None,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: GivenProgress = None,
    on_run: Callable[[str, str], None] | None = None,
) -> SweepRuns:
    """Map all combinations of networks, chips and settings, as `mapper sweep` does.

    Parameters
    ----------
    combinations : the path of a TOML file, or its keys, each with a value or a list of values, as
        in ``{"network": "net.bin", "chip": ["16x16", "loihi"], "seed": "1..4"}``
    output : folder to write
    force : replace an existing output folder
    resume : continue an interrupted sweep; finished runs are not repeated
    keep : folders to keep: "all", or only the "best"
    keep_scratch : keep the coarse levels of each run
    workers : processes that run in parallel; default: none, one run after the other
    threads : of each run; default: a share of all cores of the processor
    memory : of each run, bytes or a text such as "1GiB"; default: a share of the free memory
    progress : called with the name of a stage and its fraction 0 .. 1, without workers; or True or
        False, see `mapper.map_network`
    on_run : called with the folder of a finished run, and "" or its error

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If a key or value is invalid, or the folder exists. A run that fails raises no error.
    """
    from mapper.portfolio.portfolio_file import TABLE_FILE
    from mapper.portfolio.runner import Rules, planned_memory, run_all
    from mapper.portfolio.sweep import Share, sweep_jobs
    from mapper.portfolio.sweep_file import read_sweep, sweep_of

    check_arguments(threads=threads, memory=memory, progress=progress, workers=workers)
    if keep not in ("all", "best"):
        raise UsageError(f'keep is {shown(keep)}; give "all" or "best"')
    folder = Path(output)

    def on_outcome(portfolio: PortfolioFile, outcome: Outcome) -> None:
        if on_run is not None:
            on_run(outcome.name, outcome.error)

    with as_argument_errors(), progress_of(progress) as on_progress:
        listener = NotesListener(on_progress)
        if isinstance(combinations, Mapping):
            found = sweep_of(Path("combinations"), combinations)
        else:
            found = read_sweep(Path(combinations))
        runs = len(found.combinations())
        at_once = max(1, min(workers or 1, runs))
        given = None if memory is None else memory_of(memory)
        planned = planned_memory(folder) if resume and given is None else None
        many = sweep_jobs(found, Share.of(threads, given, at_once, planned))
        rules = Rules(force, resume, keep == "best", keep_scratch)
        with _executor(at_once, workers is not None, listener, on_progress) as executor:
            portfolio = run_all(folder, many, rules, executor, listener, on_outcome)
        with (folder / TABLE_FILE).open(newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
    best = [run.folder for run in portfolio if run.best]
    failed = {run.folder: str(run.error) for run in portfolio if run.state == "failed"}
    chosen, notes = folder / best[0] if best else None, tuple(listener.notes)
    return SweepRuns(folder, rows, chosen, failed, notes)


def _executor(
    at_once: int, apart: bool, listener: NotesListener, on_progress: OnProgress
) -> Executor:
    """Return the executor of the runs: processes, or this process."""
    from mapper.monitoring.monitor import Monitor
    from mapper.portfolio.executor import LocalExecutor
    from mapper.portfolio.processes import ProcessExecutor

    if apart:
        return ProcessExecutor(at_once, lambda name, line: listener.note(line))

    def make_monitor(log: Path, stop: Stop) -> Monitor:
        return Monitor(log=log, on_progress=on_progress, stop=stop)

    def listener_of(name: str) -> Listener:
        return ProgressListener(on_progress)

    return LocalExecutor(make_monitor, listener_of)
