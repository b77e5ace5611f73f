"""`mapper score`: compute the metrics of an existing mapping."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.cli import options as common
from mapper.cli import terminal, worker_options
from mapper.cli.stores import add_timeout
from mapper.errors import BAD_INPUT
from mapper.settings import SETTINGS
from storage.address import path_of

if TYPE_CHECKING:
    from mapper.distributed.dask import DaskWorkers

FREQUENT = (
    "chip", "neurons_per_core", "synapses_per_core", "axons_per_core", "axons_out_per_core",
    "constraints", "min_fill", "rates", "columns", "memory", "threads", "workers",
)  # fmt: skip
EPILOG = """\
examples:
  mapper score net.bin result/mapping.npz --chip 16x16
  mapper score net.bin theirs.csv --chip loihi64 --json
  mapper score net.bin result/mapping.npz --chip 64x64 --workers slurm:16

A csv file has one core id per line, or lines `neuron,core`. A mapping that
exceeds limits of the chip, breaks constraints or is below --min-fill is scored;
the violations are listed and the exit code is 1.
"""
SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET MAPPING --chip C [options]"
    parser.add_argument("network", type=path_of, metavar="NET", help="net.bin, or a file to import")
    parser.add_argument("mapping", type=Path, metavar="MAPPING", help="npz, mapping.json or csv")
    common.add_chip(parser)
    common.add_constraints(parser)
    parser.add_argument("--min-fill", metavar="F", help=SETTINGS["min_fill"].help)
    common.add_columns(parser)
    common.add_rates(parser)
    add_timeout(parser)
    common.add_effort(parser, seed=False)
    worker_options.add_workers(parser)


def run(options: argparse.Namespace) -> int:
    from mapper.jobs.score import ScoreRequest, score
    from mapper.results.summary import mapping_rows, summary
    from mapper.results.tables import quality

    chip = common.chip_of(options)
    request = ScoreRequest(
        common.source_of(options, options.network), options.network, options.mapping, chip,
        common.effort_of(options), common.constraints_of(options),
        0.0 if options.min_fill is None else SETTINGS["min_fill"].parse(options.min_fill),
    )  # fmt: skip

    def workers(use: bool) -> AbstractContextManager[DaskWorkers | None]:
        if options.workers is not None and not use:
            terminal.say(options, "note: --workers is not used: split neurons are scored locally")
        return worker_options.workers_of(options, use=use)

    found = score(request, common.listener(options), workers)
    result, traffic = found.to_json(), found.network["traffic"]
    title = f"{options.mapping.name}: {options.network.name} on {chip.name}"
    terminal.emit(
        options, result, quality(found.metrics, traffic, chip.delivery),
        summary(title, mapping_rows(result, traffic)),
    )  # fmt: skip
    for violation in found.violations[:SHOWN]:
        terminal.complain(f"limit exceeded: {violation}")
    if len(found.violations) > SHOWN:
        terminal.complain(f"limit exceeded: {len(found.violations) - SHOWN} more cores")
    for fault in found.broken[:SHOWN]:
        terminal.complain(f"constraint broken: {fault}")
    if len(found.broken) > SHOWN:
        terminal.complain(f"constraint broken: {len(found.broken) - SHOWN} more")
    for below in found.below[:SHOWN]:
        terminal.complain(f"below the least fill: {below}")
    if len(found.below) > SHOWN:
        terminal.complain(f"below the least fill: {len(found.below) - SHOWN} more cores")
    return 0 if found.valid else BAD_INPUT
