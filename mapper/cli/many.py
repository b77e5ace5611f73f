"""Options, progress and tables of many runs: `run --seeds` and `sweep`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.options import Option, add_options, choice, flag, positive
from mapper.errors import BAD_INPUT

if TYPE_CHECKING:
    from mapper.inputs.listener import Listener
    from mapper.portfolio.executor import Executor, Outcome
    from mapper.portfolio.portfolio_file import PortfolioFile
    from mapper.portfolio.runner import Many
    from mapper.portfolio.sweep import Share


def add_folder(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options of the output folder."""
    add_options(
        parser,
        Option("-o --output", "DIR", f"output folder (default: {default})", Path),
        flag("--force", "replace an existing output folder"),
        flag("--resume", "resume an interrupted run after its last step"),
        flag("--keep-scratch", "keep the scratch database (coarse levels)"),
    )


def add_workers(group: argparse._ActionsContainer) -> None:
    """Add --workers, the number of processes for whole runs."""
    add_options(
        group,
        Option(
            "--workers", "N", "processes that run in parallel (default: none, serial)", positive
        ),
    )


def add_keep(group: argparse._ActionsContainer) -> None:
    """Add --keep, the choice of folders to keep."""
    add_options(
        group,
        choice("--keep", "all best", "folders to keep: all (default) or best", None, "K"),
    )


def share_of(options: argparse.Namespace, output: Path, runs: int) -> Share:
    """Return threads and memory of a run: the options, the earlier plan, or a share of all."""
    from mapper.portfolio.runner import planned_memory
    from mapper.portfolio.sweep import Share

    planned = planned_memory(output) if options.resume and options.memory is None else None
    return Share.of(options.threads, options.memory, places(options, runs), planned)


def places(options: argparse.Namespace, runs: int) -> int:
    """Return the number of runs in parallel."""
    return max(1, min(options.workers or 1, runs))


def do_many(options: argparse.Namespace, output: Path, many: Many) -> int:
    """Run all jobs, report the outcome of each, print the table, and return the exit code."""
    from msgspec import UNSET

    from mapper.portfolio.runner import Rules, run_all

    rules = Rules(options.force, options.resume, options.keep == "best", options.keep_scratch)

    def on_outcome(portfolio: PortfolioFile, outcome: Outcome) -> None:
        run = portfolio.run(outcome.name)
        if run.state == "failed":
            if options.debug and outcome.trace:
                terminal.complain(outcome.trace)
            terminal.complain(f"{run.folder}: failed: {run.error}")
            return
        done = sum(one.state != "waiting" for one in portfolio)
        best = ", the best so far" if run.best else ""
        terminal.say(options, f"{run.folder}: done{best} ({done} of {len(portfolio.content.runs)})")

    with _executor(options, len(many.jobs)) as executor:
        portfolio = run_all(output, many, rules, executor, common.listener(options), on_outcome)
    _print(options, portfolio, output)
    codes = {0 if run.exit_code is UNSET else run.exit_code for run in portfolio}
    return codes.pop() if len(codes) == 1 else BAD_INPUT


def _executor(options: argparse.Namespace, runs: int) -> Executor:
    from mapper.concurrency.interrupts import Stop
    from mapper.monitoring.monitor import Monitor
    from mapper.portfolio.executor import LocalExecutor
    from mapper.portfolio.processes import ProcessExecutor

    console = terminal.stderr_console(options)
    said: set[str] = set()

    def on_note(name: str, line: str) -> None:
        if line not in said:  # most notes are the same in all runs
            said.add(line)
            terminal.say(options, line)

    if options.workers is not None:
        return ProcessExecutor(places(options, runs), on_note)

    def make_monitor(log: Path, stop: Stop) -> Monitor:
        return Monitor(console, options.verbose, log, stop=stop)

    def listener_of(name: str) -> Listener:
        return common.listener(options)

    return LocalExecutor(make_monitor, listener_of)


def _print(options: argparse.Namespace, portfolio: PortfolioFile, output: Path) -> None:
    """Print the table of all runs on stdout."""
    from mapper.portfolio.table import table_of

    result: dict[str, Any] = {**portfolio.to_json(), "output": str(output)}
    terminal.emit(options, result, [table_of(portfolio, str(output))])
