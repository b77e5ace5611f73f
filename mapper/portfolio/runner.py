"""Many runs in one folder: start or resume them, compare them, and keep or drop their folders."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from mapper.cache.catalogue import Catalogue
from mapper.errors import MapperError, known_error
from mapper.inputs.listener import Listener
from mapper.inputs.opening import import_once
from mapper.inputs.source import Source
from mapper.monitoring.callbacks import ignore
from mapper.portfolio.executor import Executor, Outcome
from mapper.portfolio.figures import figures_of
from mapper.portfolio.portfolio_file import (
    PORTFOLIO_FILE,
    TABLE_FILE,
    PortfolioFile,
    Run,
    read_portfolio,
)
from mapper.portfolio.run import RunTask, describe_request
from mapper.results.output import read_report
from mapper.results.output_folder import is_complete, partial_folder, remove_folder
from mapper.session import MapRequest
from storage.errors import LockedError, StorageWarning
from storage.exchange import rename
from storage.files import PARTIAL, real_path, require_output_name, write_error, writing
from storage.locks import ENDING, OutputLock
from storage.typed import Plain

BEST = "best"  # symbolic link to the folder of the best run
IMPORTED = "imported"  # folder of shared imported networks, until all runs are done


class RunJob(NamedTuple):
    """One of many runs, before it is executed.

    name : name of its folder
    given : the values in which it differs from the other runs, by name
    """

    name: str
    given: dict[str, Plain]
    request: MapRequest


class Many(NamedTuple):
    """Runs to execute.

    request : the shared inputs, or the varied keys, by name; compared when runs are resumed
    on_change : called with the table after each change
    """

    request: dict[str, Any]
    jobs: list[RunJob]
    on_change: Callable[[PortfolioFile], None] = ignore


class Rules(NamedTuple):
    """Options for the folder of a portfolio.

    force : replace an existing portfolio
    resume : continue an existing portfolio
    keep_best : drop the folders of all runs but the best
    keep_scratch : as for a single run
    """

    force: bool = False
    resume: bool = False
    keep_best: bool = False
    keep_scratch: bool = False


def run_all(
    path: Path,
    many: Many,
    rules: Rules,
    executor: Executor,
    listener: Listener,
    on_outcome: Callable[[PortfolioFile, Outcome], None],
) -> PortfolioFile:
    """Execute runs into the folder `path`; a run that fails does not affect the others.

    on_outcome : called with the table so far and the outcome of a run

    Raises `MapperError` if `path` holds other files, `CannotResumeError` if the portfolio to resume
    was started with another request, and the error of an import that all runs need.
    """
    begin = time.monotonic()
    with _folder(path, rules) as earlier:
        runs = [_run_of(job) for job in many.jobs]
        if earlier is not None:
            earlier.require_same(many.request, runs)
        requests, failed = _imported(path, many.jobs, listener)
        if earlier is None:
            portfolio = PortfolioFile.begin(path, many.request, runs)
        else:
            portfolio = earlier
            portfolio.add(runs)
            _adopt(portfolio)
        for outcome in failed:
            portfolio.take(outcome)
            on_outcome(portfolio, outcome)
        _settle(portfolio, rules.keep_best, many.on_change)
        waiting = {run.folder for run in portfolio if run.state != "done"}
        tasks = [
            RunTask(request, path / name, rules.keep_scratch, resume=True)
            for name, request in requests.items()
            if name in waiting
        ]
        for outcome in executor.outcomes(tasks):
            portfolio.take(outcome)
            _settle(portfolio, rules.keep_best, many.on_change)
            on_outcome(portfolio, outcome)
        if all(run.state == "done" for run in portfolio):
            remove_folder(path / IMPORTED)
            if tasks:
                _catalogue(portfolio, many.jobs, time.monotonic() - begin)
        return portfolio


def _catalogue(portfolio: PortfolioFile, jobs: Sequence[RunJob], seconds: float) -> None:
    """Add a finished portfolio to the catalogue, with the figures of its best run."""
    chips = ", ".join(dict.fromkeys(job.request.chip.name for job in jobs))
    best = next((run.figures for run in portfolio if run.best), UNSET)
    figures = {} if best is UNSET else msgspec.to_builtins(best)
    Catalogue.of_user().add(
        "sweep", portfolio.folder / PORTFOLIO_FILE, portfolio.folder, chips,
        {"runs": len(jobs)}, figures, seconds,
    )  # fmt: skip


def planned_memory(path: Path) -> int | None:
    """Return the memory per run of the portfolio in a folder, or None if there is no portfolio."""
    if not (path / PORTFOLIO_FILE).is_file():
        return None
    found = read_portfolio(path).content.request.get("memory_bytes")
    return found if isinstance(found, int) else None


def _run_of(job: RunJob) -> Run:
    text = json.dumps(describe_request(job.request), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    settings = job.request.settings.resolved(job.request.chip.delivery)
    return Run(job.name, job.given, digest, settings.objective)


def _is_unused(folder: Path) -> bool:
    """Return whether a folder has at most the files of a process killed before its first table."""
    left = {f"{name}{end}" for name in (PORTFOLIO_FILE, IMPORTED) for end in (PARTIAL, ENDING)}
    return folder.is_dir() and all(path.name in left for path in folder.iterdir())


@contextmanager
def _folder(path: Path, rules: Rules) -> Iterator[PortfolioFile | None]:
    """Lock and create the folder; yield the table to resume.

    After an error before a new table is written, no files remain.
    """
    if path.name in ("", "..", "-"):
        raise MapperError(f"{path}: is not the name of a new folder; name one with -o")
    require_output_name(path)
    target = real_path(path)
    with OutputLock(target):
        there = (target / PORTFOLIO_FILE).is_file()
        if target.exists() and not there and not _is_unused(target):
            raise MapperError(
                f"{path}: contains files other than a portfolio; choose another folder with -o"
            )
        if there and not (rules.force or rules.resume):
            raise MapperError(
                f"{path}: exists; --resume continues it, --force replaces it, "
                "or choose another folder with -o"
            )
        earlier = read_portfolio(path) if there and rules.resume else None
        if there and earlier is None:
            _clear(path)
        made = not target.exists()
        try:
            target.mkdir(exist_ok=True)
        except OSError as error:
            raise write_error(path, error) from error
        try:
            yield earlier
        except Exception:
            if not (target / PORTFOLIO_FILE).exists():
                shutil.rmtree(target / IMPORTED, ignore_errors=True)
                if made:
                    with suppress(OSError):
                        target.rmdir()
            raise


def _clear(path: Path) -> None:
    """Remove an earlier portfolio, its table last; files that it does not list remain."""
    names: list[str] = []
    with suppress(MapperError):
        names = [run.folder for run in read_portfolio(path)]
    for name in names:
        _remove(path / name)
    with writing(path):
        for name in (BEST, TABLE_FILE):
            (path / name).unlink(missing_ok=True)
        remove_folder(path / IMPORTED)
        (path / PORTFOLIO_FILE).unlink()


def _remove(folder: Path) -> None:
    """Remove the output folder of a run and its partial folder.

    Raises `LockedError` if another command is writing it.
    """
    if not folder.parent.is_dir():
        return
    with OutputLock(folder):
        for one in (folder, partial_folder(folder)):
            if one.is_dir() and not one.is_symlink():
                with writing(one):
                    shutil.rmtree(one)


def _imported(
    folder: Path, jobs: Sequence[RunJob], listener: Listener
) -> tuple[dict[str, MapRequest], list[Outcome]]:
    """Import each network once; return the requests by name, and outcomes of runs that failed here.

    Raises the first error if no runs are left.
    """
    sources: dict[int, Source] = {}
    errors: dict[int, tuple[str, int]] = {}
    requests: dict[str, MapRequest] = {}
    failed: list[Outcome] = []
    error: Exception | None = None
    for job in jobs:
        key = id(job.request.source)
        if key not in sources and key not in errors:
            place = folder / IMPORTED / str(len(sources) + len(errors) + 1)
            try:
                sources[key] = _import(job.request, listener, place)
            except Exception as one:
                known = known_error(one)
                if known is None:
                    raise
                error, errors[key] = error or one, known
        if key in errors:
            failed.append(Outcome(job.name, None, *errors[key]))
        else:
            requests[job.name] = replace(job.request, source=sources[key])
    if error is not None and not requests:
        raise error
    return requests, failed


def _import(request: MapRequest, listener: Listener, place: Path) -> Source:
    source = request.source
    if source.is_network_file and not source.wants_rates:
        return source
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    return import_once(source, request.effort, listener, place)


def _adopt(portfolio: PortfolioFile) -> None:
    """Update the table from the folders: a killed command may have stopped between the two."""
    for run in portfolio:
        folder = portfolio.folder / run.folder
        if run.state == "done" and not run.kept:
            continue
        if is_complete(folder):
            portfolio.take(Outcome(run.folder, figures_of(read_report(folder))))
        elif run.state == "done":
            portfolio.forget(run)


def _settle(
    portfolio: PortfolioFile, keep_best: bool, on_change: Callable[[PortfolioFile], None]
) -> None:
    """Choose the best run, write the table, update the link, and drop folders that are not kept."""
    portfolio.choose()
    for run in portfolio:
        if keep_best and run.state == "done" and not run.best:
            run.kept = False
    portfolio.write()
    on_change(portfolio)
    if len(portfolio.groups()) == 1:
        _link_best(portfolio)
    for run in portfolio:
        if not run.kept:
            try:
                _remove(portfolio.folder / run.folder)
            except LockedError as error:
                warnings.warn(f"{error}; it is kept", StorageWarning, stacklevel=2)


def _link_best(portfolio: PortfolioFile) -> None:
    """Point `best` to the best run; the link is replaced atomically, or removed with a warning."""
    best = next((run.folder for run in portfolio if run.best), None)
    link = portfolio.folder / BEST
    if best is None or (link.is_symlink() and str(link.readlink()) == best):
        return
    new = portfolio.folder / f"{BEST}{PARTIAL}"
    try:
        new.unlink(missing_ok=True)
        new.symlink_to(best, target_is_directory=True)
        rename(new, link)
    except OSError as error:
        for wrong in (new, link):
            if wrong.is_symlink():
                with suppress(OSError):
                    wrong.unlink()
        text = f"{link}: cannot link to the best run, {best}: {error.strerror or error}"
        warnings.warn(text, StorageWarning, stacklevel=2)
