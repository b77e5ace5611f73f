"""`mapper hw`: generate the chip as Verilog, and count its cells."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.hw_cells import DEPTH
from mapper.cli.options import Option, add_options, flag, positive
from mapper.exports.core_shape import DEFAULT_AXON_BITS, ROUTES_FOR_EACH, SYNAPSES_FOR_EACH
from mapper.jobs.locking import lock_output

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from hw.chip import Borders
    from hw.core.shape import CoreShape
    from hw.flow.netlist import Netlist

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
    from hw.flow.netlist import cells
    from mapper.cli.hw_cells import cells_row, cells_table, teller
    from mapper.cli.hw_npu import core_result
    from mapper.errors import UsageError
    from mapper.exports.core_shape import core_shape, describe_core, describe_mesh
    from mapper.results.tables import facts

    if options.keep_multipliers and not options.stats:
        raise UsageError("--keep-multipliers: needs --stats")
    if options.npu is not None:
        said = core_result(options, lambda design: _write(options, design), tuple(CORE_OPTIONS))
        terminal.emit(options, *said)
        return 0
    if options.chip is None:
        raise UsageError("--chip or --npu is required; `mapper chips` lists both")
    chip, depth = common.named_chip(options.chip), options.depth or DEPTH
    if chip.machine is not None:
        terminal.say(
            options,
            f"note: chip {chip.name} is built as one mesh with a router per core and identical "
            "links; tiles, chip boundaries and torus links are not modelled",
        )
    given = {name: getattr(options, name) for name in CORE_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if options.mesh_only and given:
        option = next(iter(given)).replace("_", "-")
        raise UsageError(f"--{option} sets a size of the cores; omit it or --mesh-only")
    borders = _borders(options, chip)
    mesh = describe_mesh(chip, depth, options.axon_bits, borders.addressed)
    shape = None if options.mesh_only else core_shape(chip, mesh["axon_bits"], given)
    core = None if shape is None else describe_core(shape)
    result: dict[str, Any] = {"chip": chip.name, "width": chip.width, "height": chip.height}
    result |= {"borders": list(borders.sides), "host_output": borders.output}
    result |= mesh | {"core": core, "verilog": None, "modules": None}
    tables = [facts(f"{chip.width}x{chip.height} mesh", list(mesh.items()))]
    if core is not None:
        tables.append(facts("core", list(core.items())))
    if options.verilog is not None or options.stats:
        # lock, or fail, before the long synthesis
        with lock_output(options.verilog):
            found = _convert(chip, depth, mesh["axon_bits"], shape, borders)
            size = None if options.verilog is None else _write(options, found)
        if size is not None:
            result["verilog"] = {"path": str(options.verilog), "bytes": size}
            tables.append(facts("files written", [(str(options.verilog), f"{size:,} B")]))
        if options.stats:
            counted = cells(found, teller(options), options.keep_multipliers)
            result["modules"] = [cells_row(module) for module in counted]
            tables.append(cells_table(counted, options.keep_multipliers))
    terminal.emit(options, result, tables)
    return 0


def _borders(options: argparse.Namespace, chip: Chip) -> Borders:
    """Return the ports of the mesh: open sides, machine size and host output."""
    from hw.chip import Borders
    from mapper.errors import UsageError

    if options.host_output and options.mesh_only:
        raise UsageError("--host-output needs cores; with --mesh-only use --borders south")
    if options.host_output and "south" in options.borders:
        raise UsageError("--borders south already sends packets for the host there; omit it or "
                         "--host-output")  # fmt: skip
    columns, rows = chip.width, chip.height
    if options.machine is not None:
        if not options.borders:
            raise UsageError("--machine: needs --borders")
        machine = common.named_chip(options.machine)
        columns, rows = machine.width, machine.height
        if columns < chip.width or rows < chip.height:
            raise UsageError(
                f"--machine {options.machine} is smaller than the chip, {chip.width}x{chip.height}"
            )
    return Borders(tuple(options.borders), columns, rows, options.host_output)


def _convert(
    chip: Chip, depth: int, axon_bits: int, shape: CoreShape | None, borders: Borders
) -> Netlist:
    """Return the netlist of a chip; invalid sizes raise before the long synthesis."""
    from hw.chip import ChipDesign as ChipHardware
    from hw.flow.netlist import netlist
    from hw.flow.yosys import require_yosys
    from hw.noc.mesh import Mesh, check_size, mesh_layout

    require_yosys()
    check_size(chip.width, chip.height, shared=True)
    if shape is None:
        layout = mesh_layout(*borders.addressed, axon_bits)
        mesh = Mesh(chip.width, chip.height, depth=depth, layout=layout, open_sides=borders.sides)
        return netlist(mesh, "mesh")
    return netlist(ChipHardware(chip.width, chip.height, shape, depth, borders=borders), "chip")


def _write(options: argparse.Namespace, found: Netlist) -> int:
    """Write the Verilog; return its size in bytes."""
    from hw.flow.netlist import verilog
    from mapper.cli.hw_cells import teller
    from storage.files import PartialFile

    with PartialFile(options.verilog) as file:  # open first, to fail before the long conversion
        file.write(verilog(found, teller(options)).encode())
        file.commit()
        return file.position
