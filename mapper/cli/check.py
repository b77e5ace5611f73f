"""`mapper check`: check whether a network fits a chip, and estimate the cost of a run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal, tuning, worker_options
from mapper.cli.stores import add_timeout
from mapper.errors import DOES_NOT_FIT, UsageError
from storage.address import path_of

if TYPE_CHECKING:
    from mapper.planning.plan import Plan
    from mapper.results.summary import Row

FREQUENT = (
    "constraints", "rates", "chip", "neurons_per_core", "synapses_per_core", "axons_per_core",
    "axons_out_per_core", "preset", "objective", "memory", "threads", "workers",
)  # fmt: skip
EPILOG = """\
examples:
  mapper check net.bin --chip loihi64
  mapper check net.bin --chip 16x16 --synapses-per-core 65536 --json

Exit code 3 if a limit or the memory budget is exceeded. Demands are lower
bounds: neurons and synapses add up over cores; every neuron needs one axon_in
per source; the targets of a neuron fill a minimum number of cores, each with an
axon from it. A network that exceeds these bounds cannot be mapped.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET --chip C [options]"
    parser.add_argument("network", type=path_of, metavar="NET", help="net.bin, or a file to import")
    common.add_chip(parser)
    common.add_constraints(parser)
    common.add_split(parser)
    common.add_rates(parser)
    tuning.add_preset(parser)
    tuning.add_method(parser)
    tuning.add_settings(parser)
    common.add_columns(parser)
    add_timeout(parser)
    common.add_effort(parser, seed=False)
    group = parser.add_argument_group("workers of `mapper run --workers`")
    group.add_argument(
        "--workers",
        type=common.positive,
        metavar="N",
        help="estimate memory and traffic of N workers",
    )
    worker_options.add_worker_size(group)


def run(options: argparse.Namespace) -> int:
    from mapper.jobs.check import WorkersAsked, check
    from mapper.results.summary import summary
    from mapper.results.tables import columns, planned, worker_plan

    if options.workers is None and (options.worker_threads, options.worker_memory) != (None, None):
        raise UsageError("--worker-threads and --worker-memory: need workers; add --workers N")
    settings, chip = tuning.settings_of(options), common.chip_of(options)
    asked = None
    if options.workers is not None:
        asked = WorkersAsked(options.workers, options.worker_threads, options.worker_memory)
    found = check(common.request_of(options, chip, settings), common.listener(options), asked)
    rows = [
        (d.limit, d.needed, d.available, d.largest, d.per_core, "yes" if d.fits else "NO")
        for d in found.demands
    ]
    heads = ("limit", "needed", "available", "largest neuron", "per core", "fits")
    title = f"{options.network.name} on {chip.name}"
    tables = [columns(title, heads, rows), planned(found.plan, found.seconds)]
    if found.workers.plan is not None:
        tables.append(worker_plan(found.workers.plan, options.worker_memory))
    result = found.to_json()
    terminal.emit(options, result, tables, summary(title, _rows(result, found.plan, found.seconds)))
    if found.workers.unused:
        terminal.say(options, f"note: --workers is not used: {found.workers.unused}")
    if found.note:
        terminal.say(options, f"note: {found.note}")
    for reason in found.reasons:
        terminal.complain(f"does not fit: {reason}")
    return 0 if found.fits else DOES_NOT_FIT


def _rows(result: dict[str, Any], plan: Plan, seconds: dict[str, float]) -> list[Row]:
    """Return the rows of the summary: limits, and estimated cost of a run."""
    import math

    from mapper.results.summary import GAP, Row
    from mapper.results.tables import size

    demands = result["demands"]
    rows = [Row("fits", result["fits"])]
    rows += [
        Row(
            one["limit"], f"{one['needed']:,}",
            f"of {one['available']:,}" + (f", {one['lacking']:,} short" if one["lacking"] else ""),
        )
        for one in demands
    ]  # fmt: skip
    rows += [
        GAP,
        Row("peak memory", size(plan.memory), f"of {size(plan.budget)}"),
        Row("scratch", size(plan.scratch + plan.sorting), "on disk"),
        Row("processor time", f"about {math.ceil(sum(seconds.values())):,} s"),
        Row("strategy", "", plan.strategy),
    ]
    return rows
