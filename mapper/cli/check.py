"""`mapper check`: does a network fit a chip, and what would a run need."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from mapper.cli import options as common
from mapper.cli import tuning
from mapper.errors import DOES_NOT_FIT
from storage.address import path_of

EPILOG = """\
examples:
  mapper check net.bin --chip loihi64
  mapper check net.bin --chip 16x16 --synapses-per-core 65536 --json

Exit code 3 if a limit or the memory is short. The demands are lower bounds:
neurons and synapses add up over cores; every neuron needs as many axons_in as
its fan-in, and the targets of every neuron fill so many cores that each has an
axon from it. What does not fit by these bounds cannot be mapped at all.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET --chip C [options]"
    parser.add_argument("network", type=path_of, metavar="NET", help="net.bin, or a file to import")
    common.add_chip(parser)
    common.add_constraints(parser)
    common.add_split(parser)
    common.add_rates(parser)
    tuning.add_preset(parser)
    tuning.add_settings(parser)
    common.add_columns(parser)
    common.add_effort(parser, seed=False)


def run(options: argparse.Namespace) -> int:
    from mapper.limits.axons import make_job
    from mapper.limits.capacity import demands
    from mapper.limits.constraints import read_constraints
    from mapper.results.tables import columns, planned
    from mapper.runtime.memory_plan import enough_memory, make_plan
    from mapper.runtime.time_plan import processor_seconds

    settings = tuning.settings_of(options)
    chip, file = common.chip_of(options), common.constraints_of(options)
    with (
        common.open_network(options, options.network) as original,
        common.split_network(options, original, chip) as (network, relays),
    ):
        common.compile_kernels(options, "check")
        found = demands(network, chip, common.threads_of(options))
        if file is not None:
            count = 0 if relays is None else relays.count
            constraints = read_constraints(file, chip, original, count)
            job = make_job(network, chip, common.threads_of(options), constraints)
            constraints.require_fit(chip, job.load.sizes, job.fans)
        plan = make_plan(network, chip, settings)
        seconds = processor_seconds(network, chip, settings, plan)
        sample, enough = plan.sample, None
        if sample is not None and sample.thin:
            enough = enough_memory(network, chip, settings)
    fits = all(demand.fits for demand in found)
    result = {
        "fits": fits and not plan.shortage,
        "demands": [
            {**asdict(d), "fits": d.fits, "lacking": max(0, d.needed - d.available)} for d in found
        ],
        "run": {
            **asdict(plan),
            "memory": plan.memory,
            "processor_seconds": seconds,
            "sample": None if sample is None else sample.facts(enough),
        },
        "split": None if relays is None else relays.facts(),
    }
    rows = [
        (d.limit, d.needed, d.available, d.largest, d.per_core, "yes" if d.fits else "NO")
        for d in found
    ]
    heads = ("limit", "needed", "available", "largest vertex", "per core", "fits")
    table = columns(f"{options.network.name} on {chip.name}", heads, rows)
    common.emit(options, result, [table, planned(plan, seconds)])
    if sample is not None:
        common.say(options, f"note: {sample.describe(enough)}")
    if plan.shortage:
        common.complain(f"does not fit: {plan.shortage}")
        fits = False
    for demand in found:
        if not demand.fits:
            common.complain(f"does not fit: {demand}")
    return 0 if fits else DOES_NOT_FIT
