"""`mapper hw`: the chip as hardware, as Verilog and in numbers of cells."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.commands import common

if TYPE_CHECKING:
    from chipsim.chip import Chip
    from hw.netlist import Cells, Netlist

EPILOG = """\
examples:
  mapper hw --chip 4x4
  mapper hw --chip 4x4 --depth 8 --verilog mesh.v
  mapper hw --chip loihi --stats --json

The network of the chip: a router for every core, usable or not. Its ports are
those of docs/hardware.md. Verilog and cells need a Yosys, which the extra
mapper[hw] brings; its first run takes a minute or two more. --stats counts the
gates and flip-flops of generic synthesis, buffers in flip-flops too.
"""

TOP = "mesh"
DEFAULT_AXON_BITS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chip", required=True, metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml"
    )
    parser.add_argument(
        "--depth",
        type=common.positive,
        default=4,
        metavar="D",
        help="packets in the buffer of each router input (default: 4)",
    )
    parser.add_argument(
        "--axon-bits",
        type=common.positive,
        metavar="N",
        help="width of a packet's axon (default: for the chip's axons_in, "
        f"or {DEFAULT_AXON_BITS} if it has no limit)",
    )
    parser.add_argument("--verilog", type=Path, metavar="FILE", help="Verilog 2005 to write")
    parser.add_argument("--stats", action="store_true", help="cells of every module")


def run(options: argparse.Namespace) -> int:
    from hw.netlist import cells
    from mapper.tables import columns, facts

    chip = common.named_chip(options.chip)
    shown = describe(chip, options.depth, options.axon_bits)
    result: dict[str, Any] = {"chip": chip.name, "width": chip.width, "height": chip.height}
    result |= shown | {"verilog": None, "modules": None}
    tables = [facts(f"{chip.width}x{chip.height} mesh", list(shown.items()))]
    if options.verilog is not None or options.stats:
        found = _convert(chip, options.depth, shown["axon_bits"])
        if options.verilog is not None:
            size = _write(options, found)
            result["verilog"] = {"path": str(options.verilog), "bytes": size}
            tables.append(facts("written", [(str(options.verilog), f"{size:,} B")]))
        if options.stats:
            counted = cells(found, _teller(options))
            result["modules"] = [_row(module) for module in counted]
            heads = ("module", "instances", "cells of one", "flip-flops of one", "cells")
            rows = [tuple(_row(module).values()) for module in counted]
            total = sum(module.count * module.cells for module in counted)
            rows.append(("sum", "", "", "", total))
            tables.append(columns("cells, without those of modules within", heads, rows))
    common.emit(options, result, tables)
    return 0


def describe(chip: Chip, depth: int, axon_bits: int | None) -> dict[str, int]:
    """The sizes of the mesh of a chip; raises `UsageError` if there is none like it."""
    from hw.buffer import check_depth
    from hw.errors import HwError
    from hw.mesh import mesh_layout
    from hw.router import PORTS
    from mapper.errors import UsageError

    if axon_bits is None:
        axons = chip.axons_in
        axon_bits = DEFAULT_AXON_BITS if axons is None else max(1, (axons - 1).bit_length())
    try:
        layout = mesh_layout(chip.width, chip.height, axon_bits)
        check_depth("mesh", depth)
    except HwError as error:  # all of it comes from the command line
        raise UsageError(str(error)) from error
    return {
        "routers": chip.cores,
        "links": chip.links,
        "packet_bits": layout.size,
        "x_bits": layout.x_bits,
        "y_bits": layout.y_bits,
        "axon_bits": layout.axon_bits,
        "buffer_depth": depth,
        "buffer_bits": chip.cores * len(PORTS) * depth * layout.size,
    }


def _convert(chip: Chip, depth: int, axon_bits: int) -> Netlist:
    """The network of a chip as a netlist; what can't be is said before the time is spent."""
    from hw.mesh import Mesh, check_size
    from hw.netlist import netlist
    from hw.yosys import require_yosys

    require_yosys()
    check_size(chip.width, chip.height, shared=True)
    return netlist(Mesh(chip.width, chip.height, axon_bits, depth), TOP)


def _write(options: argparse.Namespace, found: Netlist) -> int:
    """Write the Verilog; returns its size in bytes."""
    from hw.netlist import verilog
    from storage.files import PartialFile

    with PartialFile(options.verilog) as file:  # opened first: a bad place is named at once
        file.write(verilog(found, _teller(options)).encode())
        file.commit()
        return file.position


def _teller(options: argparse.Namespace) -> Any:
    return lambda line: common.say(options, f"note: {line}")


def _row(module: Cells) -> dict[str, Any]:
    return {
        "module": module.module,
        "instances": module.count,
        "cells_of_one": module.cells,
        "flip_flops_of_one": module.flip_flops,
        "cells": module.count * module.cells,
    }
