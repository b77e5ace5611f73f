"""`mapper score`: compute the metrics of an existing mapping."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal, worker_options
from mapper.cli.stores import add_timeout
from mapper.errors import BAD_INPUT
from storage.address import path_of

FREQUENT = (
    "chip", "neurons_per_core", "synapses_per_core", "axons_per_core", "axons_out_per_core",
    "rates", "columns", "memory", "threads", "workers",
)  # fmt: skip
EPILOG = """\
examples:
  mapper score net.bin result/mapping.npz --chip 16x16
  mapper score net.bin theirs.csv --chip loihi64 --json
  mapper score net.bin result/mapping.npz --chip 64x64 --workers slurm:16

A csv file has one core id per line, or lines `neuron,core`. A mapping that
exceeds limits of the chip is scored; the violations are listed and the exit
code is 1.
"""
SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET MAPPING --chip C [options]"
    parser.add_argument("network", type=path_of, metavar="NET", help="net.bin, or a file to import")
    parser.add_argument("mapping", type=Path, metavar="MAPPING", help="npz, mapping.json or csv")
    common.add_chip(parser)
    common.add_columns(parser)
    common.add_rates(parser)
    add_timeout(parser)
    common.add_effort(parser, seed=False)
    worker_options.add_workers(parser)


def run(options: argparse.Namespace) -> int:
    from chipsim.chip.limits import violations
    from chipsim.traffic.metrics import summarise
    from mapper.errors import nothing_kept
    from mapper.evaluation.mapped import open_mapped
    from mapper.monitoring.monitor import Monitor
    from mapper.results.output import network_facts
    from mapper.results.summary import mapping_rows, summary
    from mapper.results.tables import quality
    from mapper.scoring.measure import measure_network
    from mapper.scoring.worked import sweep_on

    chip, threads = common.chip_of(options), common.threads_of(options)
    with common.open_network(options, options.network) as network:
        memory = common.memory_of(options) // 4
        with open_mapped(network, options.mapping, chip, memory, threads) as (whole, core):
            common.compile_kernels(options, "score")
            split = whole is not network
            if split and options.workers is not None:
                terminal.say(
                    options, "note: --workers is not used: split neurons are scored locally"
                )
            with worker_options.workers_of(options, use=not split) as workers, nothing_kept():
                swept = None
                if workers is not None:
                    swept = sweep_on(workers, network, chip, core, Monitor())
                traffic = measure_network(whole, chip, core, threads, swept=swept)
        about = network_facts(network, options.network)
    broken = violations(chip, traffic.usage)
    metrics = summarise(chip, traffic)
    result = {
        "network": about,
        "chip": chip.to_json(),
        "metrics": metrics,
        "valid": not broken,
        "violations": [str(violation) for violation in broken],
    }
    title = f"{options.mapping.name}: {options.network.name} on {chip.name}"
    terminal.emit(
        options, result, quality(metrics, about["traffic"], chip.delivery),
        summary(title, mapping_rows(result, about["traffic"])),
    )  # fmt: skip
    for violation in broken[:SHOWN]:
        terminal.complain(f"limit exceeded: {violation}")
    if len(broken) > SHOWN:
        terminal.complain(f"limit exceeded: {len(broken) - SHOWN} more cores")
    return BAD_INPUT if broken else 0
