"""`mapper run`: map a network onto a chip."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import many, terminal, tuning, worker_options
from mapper.cli import options as common
from mapper.cli.stores import add_timeout
from mapper.errors import INTERRUPTED, MapperError, UsageError
from storage.address import path_of

if TYPE_CHECKING:
    from chipsim.chip.model import Chip

FREQUENT = (
    "output", "force", "resume", "constraints", "rates", "chip", "neurons_per_core",
    "synapses_per_core", "axons_per_core", "preset", "objective", "set", "memory", "threads",
    "seed", "time_limit", "workers",
)  # fmt: skip
EPILOG = """\
examples:
  mapper run net.bin --chip 16x16 -o result
  mapper run wing.graph --chip 16x16 --neurons-per-core 250 --seed 1 --json
  mapper run net.bin --chip loihi --preset strong --memory 8GiB

Ctrl-C and --time-limit keep the best mapping so far; --resume continues if
there is none yet.
`mapper docs formats` describes the output folder.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET --chip C [options]"
    parser.add_argument("network", type=path_of, metavar="NET", help="net.bin, or a file to import")
    many.add_folder(parser, "NAME-mapping")
    common.add_constraints(parser)
    common.add_split(parser)
    common.add_columns(parser)
    common.add_rates(parser)
    common.add_chip(parser)
    method = parser.add_argument_group("method and effort")
    tuning.add_preset(method)
    tuning.add_method(method)
    tuning.add_settings(method)
    common.add_effort(method)
    method.add_argument(
        "--time-limit",
        type=common.seconds,
        metavar="SECONDS",
        help="then score and write the best mapping so far",
    )
    worker_options.add_workers(method, ", or srun")
    worker_options.add_worker_size(method)
    method.add_argument(
        "--patience",
        type=common.seconds,
        metavar="SECONDS",
        help="maximum wait without workers (default: 600)",
    )
    method.add_argument(
        "--shared",
        type=Path,
        metavar="DIR",
        help="folder shared by workers (default: output folder)",
    )
    method.add_argument("--seeds", metavar="A..B", help="one run per seed: 1..8, or 1,4,9")
    many.add_keep(method)
    add_timeout(method)


def run(options: argparse.Namespace) -> int:
    from mapper.distributed.slurm_step import slurm_step
    from mapper.distributed.start import SRUN, ending

    if options.seeds is not None:
        return _run_seeds(options)
    if options.keep is not None:
        raise UsageError("--keep is for several runs; add --seeds, or omit it")
    output = options.output or Path(f"{_stem(options.network)}-mapping")
    chip = common.chip_of(options)
    _require_outside(options.network, output)
    workers = options.workers
    if workers == SRUN:
        workers = slurm_step(output)
        if not workers.drives:
            workers.serve(options.worker_threads, options.worker_memory)
    with ending(workers):
        return _run_one(options, chip, output, workers)


def _run_one(options: argparse.Namespace, chip: Chip, output: Path, workers: Any) -> int:
    """Run one mapping, in this process or with workers, and return the exit code.

    workers : see `mapper.executors.worker_interface.Asked`, or None
    """
    from mapper.concurrency.interrupts import GRACE, Stop
    from mapper.distributed.start import ask_workers
    from mapper.monitoring.monitor import Monitor
    from mapper.portfolio.run import RunTask, run_into_folder
    from mapper.results.output import read_report
    from mapper.results.output_folder import is_complete, partial_folder
    from mapper.resume.resume import describe_run, planned_memory, require_same

    planned = None
    if options.resume and options.memory is None:
        planned = planned_memory(partial_folder(output))
    settings = tuning.settings_of(options, memory=planned)
    console = terminal.stderr_console(options)
    try:
        run_here = describe_run(options.network, chip, settings)
    except OSError as error:
        raise MapperError(f"{options.network}: cannot read: {error.strerror}") from error
    if options.resume and is_complete(output):
        report = read_report(output)
        require_same(report, output, run_here)
        terminal.say(options, f"{output}: already complete")
        return _print_results(options, report, output)
    tuning.tell_unread(options, settings)
    asked = ask_workers(
        workers, settings.threads, options.worker_threads, options.worker_memory,
        options.patience, options.shared,
    )  # fmt: skip
    request = replace(
        common.request_of(options, chip, settings, asked), time_limit=options.time_limit
    )
    task = RunTask(request, output, options.keep_scratch, options.force, options.resume)
    stop = Stop(GRACE)

    def make_monitor(log: Path) -> Monitor:
        return Monitor(console, options.verbose, log, stop=stop)

    found = run_into_folder(task, make_monitor, common.listener(options))
    if found.late:
        limit = f"{options.time_limit:g} s"
        terminal.say(
            options,
            f"note: time limit of {limit}, during the stage {found.stage!r}: this is the best "
            "mapping found so far",
        )
    elif found.stage:
        when = f"during the stage {found.stage!r}"
        terminal.complain(f"interrupted {when}: this is the best mapping found so far")
    elif found.asked:
        terminal.complain("interrupted while writing results: the mapping is complete")
    code = _print_results(options, found.report, output)
    return INTERRUPTED if found.asked else code


def _run_seeds(options: argparse.Namespace) -> int:
    """Run one mapping per seed in one folder, and return the exit code."""
    from mapper.portfolio.seeds import parse_seeds, seed_jobs

    seeds = parse_seeds(options.seeds)
    if options.seed:
        raise UsageError("--seed and --seeds exclude each other; give one")
    if options.time_limit is not None:
        raise UsageError("--time-limit is for a single run; omit it with --seeds")
    of_one = options.worker_threads, options.worker_memory, options.patience, options.shared
    if any(value is not None for value in of_one):
        raise UsageError(
            "--worker-threads, --worker-memory, --patience and --shared are for workers of one "
            "run; omit them with --seeds"
        )
    if isinstance(options.workers, str):
        raise UsageError("--workers: with --seeds, give a number of processes, not a scheduler")
    output = options.output or Path(f"{_stem(options.network)}-portfolio")
    chip = common.chip_of(options)
    _require_outside(options.network, output)
    share = many.share_of(options, output, len(seeds))
    settings = tuning.settings_of(options, memory=share.memory, threads=share.threads)
    tuning.tell_unread(options, settings)
    return many.do_many(
        options, output, seed_jobs(common.request_of(options, chip, settings), seeds)
    )


def _stem(network: Path) -> str:
    return Path(network.name.removesuffix(".gz")).stem


def _require_outside(network: Path, output: Path) -> None:
    from storage.files import real_path

    if real_path(output) in real_path(network).parents:
        raise MapperError(
            f"{network}: is in the output folder {output}, which is replaced; move it"
        )


def _print_results(options: argparse.Namespace, report: dict[str, Any], output: Path) -> int:
    """Print the report on stdout; return exit code 0."""
    from mapper.reporting.make import PAGE
    from mapper.results.activity import traffic_in
    from mapper.results.population_table import SHOWN, population_tables
    from mapper.results.summary import mapping_rows, next_steps, resources_row, summary
    from mapper.results.tables import facts, levels, quality, size, stages

    used = report["resources"]
    rows = [("neurons", report["network"]["neurons"]), ("synapses", report["network"]["synapses"])]
    if report.get("split"):
        split = report["split"]
        rows += [("split neurons", split["neurons"]), ("relay neurons", split["helpers"])]
    rows += [
        ("seconds", used["seconds"]),
        ("peak memory", size(used["peak_rss_bytes"])),
        ("output", str(output)),
        ("open in a browser", str(output / PAGE)),
    ]
    title = f"{options.network.name} on {report['chip']['name']}"
    about = facts(title, rows)
    tables = [about, levels(report["levels"]), stages(report["stages"])]
    tables += quality(report["metrics"], traffic_in(report), report["chip"]["delivery"])
    tables += population_tables(report.get("populations"))
    short = [
        *mapping_rows(report, traffic_in(report), report["settings"]["objective"]),
        resources_row(used),
        *next_steps(str(output / PAGE), f"mapper info {output}", f"mapper simulate {output}"),
    ]
    end = [summary(title, short), *population_tables(report.get("populations"), SHOWN)]
    terminal.emit(options, {**report, "output": str(output)}, tables, end)
    return 0
