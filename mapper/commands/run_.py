"""`mapper run`: the whole job."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.commands import common
from mapper.errors import INTERRUPTED, MapperError

EPILOG = """\
examples:
  mapper run net.bin --chip 64x64
  mapper run wing.graph --chip 16x16 --neurons-per-core 250 --seed 1 --json
  mapper run net.bin --chip loihi64 -o result --force --keep-scratch

The output folder holds mapping.npz (`core`: one core id per neuron),
report.json and run.log; with --keep-scratch also the coarse levels.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", type=Path, metavar="NET", help="net.bin, or a file to import")
    common.add_chip(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="default: NAME-mapping, here"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing output folder")
    parser.add_argument(
        "--keep-scratch", action="store_true", help="keep coarse levels, to look at"
    )
    method = parser.add_argument_group("method")
    method.add_argument("--preset", default="default", metavar="P", help="fast, default or classic")
    for name, text in (
        ("matching-repeats", "random orders for each round of pairing"),
        ("bisection-repeats", "random starts of each bisection"),
        ("refinement-passes", "visits to all vertices on each level"),
        ("force-iterations", "limit of force-directed refinement"),
        ("size-divisor", "a coarse vertex is at most a core over this"),
    ):
        method.add_argument(f"--{name}", type=common.natural, metavar="N", help=text)
    for name, text in (
        ("stop-shrink", "coarsening stops below this share of vertices removed"),
        ("force-share", "share of the groups that may swap in an iteration"),
    ):
        method.add_argument(f"--{name}", type=float, metavar="F", help=text)
    common.add_effort(parser)


METHOD = (
    "matching_repeats",
    "bisection_repeats",
    "refinement_passes",
    "force_iterations",
    "size_divisor",
    "stop_shrink",
    "force_share",
)


def run(options: argparse.Namespace) -> int:
    from mapper.monitor import Monitor
    from mapper.output import (
        LOG,
        SCRATCH,
        make_report,
        output_folder,
        scratch_in,
        write_results,
    )
    from mapper.pipeline import map_network
    from mapper.settings import preset
    from mapper.tables import facts, levels, quality, size, stages

    chip = common.chip_of(options)
    given = {name: getattr(options, name) for name in METHOD if getattr(options, name) is not None}
    settings = preset(
        options.preset,
        seed=options.seed,
        threads=common.threads_of(options),
        memory_bytes=common.memory_of(options),
        **given,
    )
    stem = Path(options.network.name.removesuffix(".gz")).stem
    output = options.output or Path(f"{stem}-mapping")
    if output.resolve() in options.network.resolve().parents:
        raise MapperError(f"{options.network}: lies in {output}, which it would replace; move it")
    console = common.stderr_console(options)
    with output_folder(output, options.force) as folder:
        with (
            Monitor(console, options.verbose, folder / LOG) as monitor,
            common.open_network(options, options.network, keep_in=folder) as network,
            scratch_in(folder / SCRATCH, options.keep_scratch) as scratch,
        ):
            mapping = map_network(network, chip, settings, scratch, monitor)
            imported = network.path != options.network
            path = output / common.IMPORTED if imported else options.network
            report = make_report(network, path, chip, settings, mapping, monitor)
        write_results(folder, report, mapping, chip)
    used = report["resources"]
    about = facts(
        f"{options.network.name} on {chip.name}",
        [
            ("neurons", report["network"]["neurons"]),
            ("synapses", report["network"]["synapses"]),
            ("seconds", used["seconds"]),
            ("peak memory", size(used["peak_rss_bytes"])),
            ("output", str(output)),
        ],
    )
    tables = [about, levels(report["levels"]), stages(report["stages"]), quality(mapping.metrics)]
    common.emit(options, {**report, "output": str(output)}, tables)
    if mapping.interrupted:
        common.say(options, "interrupted: the placement is the best one reached so far")
        return INTERRUPTED
    return 0
