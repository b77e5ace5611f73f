"""`mapper hw`: generate the chip as Verilog, and count its cells."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.options import Option, add_options, flag, positive
from mapper.exports.core_shape import DEFAULT_AXON_BITS, ROUTES_FOR_EACH, SYNAPSES_FOR_EACH
from mapper.jobs.hardware import DEPTH

FREQUENT = ("chip", "npu", "verilog", "stats", "mesh_only", "depth", "neurons", "synapses",
            "weight_bits")  # fmt: skip
EPILOG = """\
examples:
  mapper hw --chip 4x4
  mapper hw --chip 4x4 --depth 8 --weight-bits 4 --verilog chip.v
  mapper hw --chip loihi --mesh-only --stats --json
  mapper hw --chip 8x8 --borders east west --machine 16x8 --verilog chip.v
  mapper hw --chip 4x4 --host-output --verilog chip.v
  mapper hw --npu tiny --verilog core.v
  mapper hw --npu npu --stats --keep-multipliers
  mapper hw --chip 2x2 --npu tiny --verilog chip.v

Generates a router and a core for every core of the chip, including unusable
ones; see `mapper docs hardware` and `mapper docs core`. The memories of a core
hold the limits of the chip, rounded up to powers of two. --verilog and --stats
need Yosys (pip install "neuromapper[hw]"); its first run takes 1 to 2 minutes
longer. --stats counts gates and flip-flops of generic synthesis, with router
buffers in flip-flops, and memory bits.

--borders turns the links at the named sides into ports, to join several chips.
--machine sets the size of all joined chips in routers; the ports `column` and
`row` set the position of a chip. --host-output adds a port for packets to the
host, such as recorded spikes (`mapper docs core`).

--npu generates one core of the NPU, the matrix processor (`mapper docs npu`): a
preset of `mapper chips`, or the table [npu] of a chip file. With --chip it
generates a mesh of NPUs, with the host ports of the chip file, or one port at
node 0,0. --stats of one core repeats the synthesis without the binary unit and
with the other multiplier, to report their cost: minutes for a 16x16 core.
"""

CORE_OPTIONS = {  # fields of `CoreShape`
    "neurons": "neurons per core (default: from the chip)",
    "routes": f"(neuron, target core) pairs (default: chip, or {ROUTES_FOR_EACH} per neuron)",
    "synapses": f"synapses per core (default: chip, or {SYNAPSES_FOR_EACH} per neuron)",
    "profiles": "sets of neuron dynamics (default: 64)",
    "delay_slots": "sums per neuron, longest delay plus 2 (default: 2)",
    "state_bits": "bits of current, potential, threshold and bias (default: 24)",
    "decay_bits": "fraction bits of a decay (default: 12)",
    "weight_bits": "bits of a weight (default: 8)",
    "sum_bits": "bits of a sum of weights (default: 16)",
    "shift_bits": "bits of the left shift of a sum (default: 4)",
    "refractory_bits": "bits of refractory ticks (default: 6)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --chip C [options]\n       %(prog)s --npu NAME [options]"
    add_options(
        parser,
        Option("--chip", "C", "WIDTHxHEIGHT, a preset's name, or FILE.toml"),
        Option("--npu", "NAME", "NPU preset or chip FILE.toml; with --chip a mesh of NPUs"),
        Option("--depth", "D", f"packets per router input buffer (default: {DEPTH})", positive),
        Option(
            "--axon-bits",
            "N",
            f"bits per axon number in a packet (default: from chip, or {DEFAULT_AXON_BITS})",
            positive,
        ),
        flag("--mesh-only", "generate the routers without cores"),
    )
    parser.add_argument(
        "--borders",
        nargs="+",
        choices=("north", "east", "south", "west"),
        default=[],
        metavar="SIDE",
        help="sides with ports to other chips: north, east, south, west",
    )
    add_options(
        parser,
        Option("--machine", "M", "size of joined chips: WIDTHxHEIGHT or chip (default: C)"),
        flag("--host-output", "add a port for packets to the host, below column 0"),
        Option("--verilog", "FILE", "Verilog 2005 file to write", Path),
        flag("--stats", "count the cells of each module"),
        flag("--keep-multipliers", "with --stats: exclude the gates of multipliers"),
    )
    common.add_memory(parser)
    group = parser.add_argument_group("cores")
    for name, text in CORE_OPTIONS.items():
        group.add_argument(
            f"--{name.replace('_', '-')}", type=common.positive, metavar="N", help=text
        )


def run(options: argparse.Namespace) -> int:
    from mapper.cli.hw_tables import hardware_tables
    from mapper.inputs.chips import named_npu
    from mapper.jobs.hardware import HardwareRequest, hardware

    sizes = {name: getattr(options, name) for name in CORE_OPTIONS}
    request = HardwareRequest(
        None if options.chip is None else common.named_chip(options.chip),
        None if options.npu is None else named_npu(options.npu),
        options.depth, options.axon_bits, options.mesh_only, tuple(options.borders),
        None if options.machine is None else common.named_chip(options.machine),
        options.host_output, {name: size for name, size in sizes.items() if size is not None},
        options.verilog, options.stats, options.keep_multipliers,
    )  # fmt: skip
    found = hardware(request, common.listener(options))
    terminal.emit(options, found, hardware_tables(found, options.keep_multipliers))
    return 0
