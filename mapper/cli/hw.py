"""`mapper hw`: the chip as hardware, as Verilog and in numbers of cells."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.hw_cells import DEPTH
from mapper.exports.core_shape import DEFAULT_AXON_BITS, ROUTES_FOR_EACH, SYNAPSES_FOR_EACH

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from hw.chip import Borders
    from hw.core.shape import CoreShape
    from hw.flow.netlist import Netlist

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

A router and a core for every core of the chip, usable or not; what they do is
in `mapper docs hardware` and `core`. The memories of a core have room for what
the chip's limits allow, and powers of two: the next above a limit is taken.
Verilog and cells need a Yosys, which the extra neuromapper[hw] brings; its
first run takes a minute or two more. --stats counts the gates and flip-flops of
generic synthesis, buffers of routers in flip-flops, and the bits of memories.

--borders makes ports of the links at the sides that it names, so that chips can
be joined side by side; --machine says how many routers all of them have, and
the ports `column` and `row` where a chip is. --host-output makes a port for
packets to the host, such as spikes that are watched (`mapper docs core`).

--npu makes one core of the NPU, the matrix processor (`mapper docs npu`): a
preset of `mapper chips`, or that of the table [npu] of a chip file. With --chip
it makes a mesh of them, with the host's ports that the chip file lists, or one
at node 0,0. --stats of one core synthesises it again without its binary unit,
and with the other multiplier, for what these take: minutes for a core of 16x16.
"""

CORE_OPTIONS = {  # fields of `CoreShape`
    "neurons": "neurons of a core (default: the chip's)",
    "routes": "pairs of a neuron and a core that it reaches, of all neurons of a core (default: "
    f"the chip's axons_out and one a neuron, or {ROUTES_FOR_EACH} a neuron)",
    "synapses": f"synapses of a core (default: the chip's, or {SYNAPSES_FOR_EACH} a neuron)",
    "potential_bits": "of a potential, a threshold and a bias (default: 16)",
    "weight_bits": "of a weight (default: 8)",
    "sum_bits": "of a sum of weights (default: 16)",
    "leak_bits": "of a leak (default: 4)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chip", metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml")
    parser.add_argument(
        "--npu",
        metavar="NAME",
        help="a core of an NPU (a preset's name, or a chip FILE.toml); with --chip a chip of them",
    )
    parser.add_argument(
        "--depth",
        type=common.positive,
        metavar="D",
        help=f"packets in the buffer of each router input (default: {DEPTH})",
    )
    parser.add_argument(
        "--axon-bits",
        type=common.positive,
        metavar="N",
        help="width of a packet's axon: a core has 2^N axons (default: for the chip's axons_in, "
        f"or {DEFAULT_AXON_BITS} if it has no limit)",
    )
    parser.add_argument("--mesh-only", action="store_true", help="the network without the cores")
    parser.add_argument(
        "--borders",
        nargs="+",
        choices=("north", "east", "south", "west"),
        default=[],
        metavar="SIDE",
        help="sides whose links are ports, for other chips: north, east, south, west",
    )
    parser.add_argument(
        "--machine",
        metavar="M",
        help="WIDTHxHEIGHT in routers of all chips together, or a chip that is as large; with "
        "--borders (default: the chip)",
    )
    parser.add_argument(
        "--host-output", action="store_true", help="a port for packets to the host, below column 0"
    )
    parser.add_argument("--verilog", type=Path, metavar="FILE", help="Verilog 2005 to write")
    parser.add_argument("--stats", action="store_true", help="cells of every module")
    parser.add_argument(
        "--keep-multipliers",
        action="store_true",
        help="count cells without the gates of multipliers (for chips with blocks for them)",
    )
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
        raise UsageError("--keep-multipliers is of --stats; give that too")
    if options.npu is not None:
        said = core_result(options, lambda design: _write(options, design), tuple(CORE_OPTIONS))
        terminal.emit(options, *said)
        return 0
    if options.chip is None:
        raise UsageError("give a --chip, or an --npu; `mapper chips` lists both")
    chip, depth = common.named_chip(options.chip), options.depth or DEPTH
    if chip.machine is not None:
        terminal.say(
            options,
            f"note: chip {chip.name} becomes one mesh, with a router for every core and links that "
            "are all alike: tiles, ends of chips and tori are not built",
        )
    given = {name: getattr(options, name) for name in CORE_OPTIONS}
    given = {name: value for name, value in given.items() if value is not None}
    if options.mesh_only and given:
        option = next(iter(given)).replace("_", "-")
        raise UsageError(f"--{option} is of the cores; leave it or --mesh-only out")
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
        # locked, or refused, before the time is spent
        with common.lock_output(options.verilog):
            found = _convert(chip, depth, mesh["axon_bits"], shape, borders)
            size = None if options.verilog is None else _write(options, found)
        if size is not None:
            result["verilog"] = {"path": str(options.verilog), "bytes": size}
            tables.append(facts("written", [(str(options.verilog), f"{size:,} B")]))
        if options.stats:
            counted = cells(found, teller(options), options.keep_multipliers)
            result["modules"] = [cells_row(module) for module in counted]
            tables.append(cells_table(counted, options.keep_multipliers))
    terminal.emit(options, result, tables)
    return 0


def _borders(options: argparse.Namespace, chip: Chip) -> Borders:
    """What comes out of the mesh."""
    from hw.chip import Borders
    from mapper.errors import UsageError

    if options.host_output and options.mesh_only:
        raise UsageError("--host-output is of a chip with cores; a mesh has --borders south")
    if options.host_output and "south" in options.borders:
        raise UsageError("with --borders south packets for the host leave there; leave it or "
                         "--host-output out")  # fmt: skip
    columns, rows = chip.width, chip.height
    if options.machine is not None:
        if not options.borders:
            raise UsageError("--machine is of chips with --borders; give these too")
        machine = common.named_chip(options.machine)
        columns, rows = machine.width, machine.height
        if columns < chip.width or rows < chip.height:
            raise UsageError(
                f"--machine {options.machine} has no room for a chip of {chip.width}x{chip.height}"
            )
    return Borders(tuple(options.borders), columns, rows, options.host_output)


def _convert(
    chip: Chip, depth: int, axon_bits: int, shape: CoreShape | None, borders: Borders
) -> Netlist:
    """A chip as a netlist; what can't be is said before the time is spent."""
    from hw.chip import Chip as ChipHardware
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
    """Write the Verilog; returns its size in bytes."""
    from hw.flow.netlist import verilog
    from mapper.cli.hw_cells import teller
    from storage.files import PartialFile

    with PartialFile(options.verilog) as file:  # opened first: a bad place is named at once
        file.write(verilog(found, teller(options)).encode())
        file.commit()
        return file.position
