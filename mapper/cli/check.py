"""`mapper check`: check whether a network fits a chip, and estimate the cost of a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.cli import options as common
from mapper.cli import terminal, tuning, worker_options
from mapper.cli.stores import add_timeout
from mapper.errors import DOES_NOT_FIT, UsageError
from storage.address import path_of

if TYPE_CHECKING:
    from rich.table import Table

    from chipsim.chip.model import Chip
    from mapper.planning.plan import Plan
    from mapper.results.summary import Row
    from mapper.settings import Settings
    from storage.store.network import NetworkFile

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
    from mapper.graph.disk import with_disk
    from mapper.limits.axons import make_job
    from mapper.limits.capacity import demands
    from mapper.planning.processor_time import processor_seconds, slowness
    from mapper.planning.strategy import enough_memory, make_plan
    from mapper.results.summary import summary
    from mapper.results.tables import columns, planned
    from mapper.session import constraints_on, open_inputs

    if options.workers is None and (options.worker_threads, options.worker_memory) != (None, None):
        raise UsageError("--worker-threads and --worker-memory: need workers; add --workers N")
    settings, chip = tuning.settings_of(options), common.chip_of(options)
    request = common.request_of(options, chip, settings)
    with open_inputs(request, common.listener(options)) as inputs:
        network, relays = inputs.network, inputs.relays
        common.compile_kernels(options, "check")
        found = demands(network, chip, settings.threads)
        constraints = constraints_on(request, inputs)
        if constraints is not None:
            job = make_job(network, chip, settings.threads, constraints)
            constraints.require_fit(chip, job.load.sizes, job.fans)
        plan = with_disk(make_plan(network, chip, settings), network, chip, settings)
        slow = slowness()
        seconds = {
            stage: round(slow * value, 2)
            for stage, value in processor_seconds(network, chip, settings, plan).items()
        }
        sample, enough = plan.sample, None
        if sample is not None and sample.thin:
            enough = enough_memory(network, chip, settings)
        works = _Workers.of(options, network, chip, settings, plan, constraints is not None)
    fits = all(demand.fits for demand in found)
    result = {
        "fits": fits and not plan.shortage and not works.shortage,
        "demands": [
            {**asdict(d), "fits": d.fits, "lacking": max(0, d.needed - d.available)} for d in found
        ],
        "run": {
            **asdict(plan),
            "memory": plan.memory,
            "strategy": plan.strategy,
            "processor_seconds": seconds,
            "sample": None if sample is None else sample.facts(enough),
        },
        "split": None if relays is None else relays.facts(),
        "workers": works.facts,
    }
    rows = [
        (d.limit, d.needed, d.available, d.largest, d.per_core, "yes" if d.fits else "NO")
        for d in found
    ]
    heads = ("limit", "needed", "available", "largest vertex", "per core", "fits")
    title = f"{options.network.name} on {chip.name}"
    tables = [columns(title, heads, rows), planned(plan, seconds), *works.tables]
    short = summary(title, _rows(result, plan, seconds))
    terminal.emit(options, result, tables, short)
    if works.unused:
        terminal.say(options, f"note: --workers is not used: {works.unused}")
    if sample is not None:
        terminal.say(options, f"note: {sample.describe(enough)}")
    if plan.shortage:
        terminal.complain(f"does not fit: {plan.shortage}")
        fits = False
    if works.shortage:
        terminal.complain(f"does not fit: {works.shortage}")
        fits = False
    for demand in found:
        if not demand.fits:
            terminal.complain(f"does not fit: {demand}")
    return 0 if fits else DOES_NOT_FIT


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


class _Workers(NamedTuple):
    """Estimates for workers.

    shortage : error if the memory of a worker is too small, or ""
    unused : reason why a run would not use workers, or ""
    facts : estimates for JSON, None without workers
    """

    shortage: str = ""
    unused: str = ""
    facts: dict[str, Any] | None = None
    tables: tuple[Table, ...] = ()

    @classmethod
    def of(
        cls,
        options: argparse.Namespace,
        network: NetworkFile,
        chip: Chip,
        settings: Settings,
        plan: Plan,
        constrained: bool,
    ) -> _Workers:
        from mapper.pipeline import looked_at_here
        from mapper.planning.worker_plan import plan_workers
        from mapper.results.tables import worker_plan

        count, given = options.workers, options.worker_memory
        if count is None:
            return cls()
        unused = looked_at_here(settings.resolved(chip.delivery), plan, constrained)
        if unused:
            return cls(unused=unused)
        threads = options.worker_threads or max(1, settings.threads // count)
        found = plan_workers(network, chip, settings, plan, count, threads)
        shortage = "" if given is None else found.shortage(given)
        return cls(shortage, "", found.facts(given), (worker_plan(found, given),))
