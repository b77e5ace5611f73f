"""Tables of cells per module for `mapper hw --stats`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mapper.cli import terminal

if TYPE_CHECKING:
    from rich.table import Table

    from hw.flow.netlist import Cells

DEPTH = 4
"""Default packets per router input buffer."""


def teller(options: argparse.Namespace) -> Any:
    """Return a function that prints a note of Yosys."""
    return lambda line: terminal.say(options, f"note: {line}")


def cells_table(counted: list[Cells], keep_multipliers: bool) -> Table:
    """Return the table of cells per module: of one instance, and of all instances."""
    from mapper.results.tables import columns

    heads = [
        "module", "copies", "cells", "flip-flops", "memory bits", "multipliers", "all cells",
        "all memory bits", "all multipliers",
    ]  # fmt: skip
    rows: list[tuple[Any, ...]] = [tuple(cells_row(module).values()) for module in counted]
    totals = (
        sum(module.count * getattr(module, name) for module in counted)
        for name in ("cells", "memory_bits", "multipliers")
    )
    rows.append(("sum", *[""] * 5, *totals))
    title = "cells per module and of all copies, without submodules"
    if keep_multipliers:
        title += "; multipliers excluded"
    return columns(title, heads, rows)


def cells_row(module: Cells) -> dict[str, Any]:
    """Return the values of a module for JSON and for a table row."""
    return {
        "module": module.module,
        "instances": module.count,
        "cells_of_one": module.cells,
        "flip_flops_of_one": module.flip_flops,
        "memory_bits_of_one": module.memory_bits,
        "multipliers_of_one": module.multipliers,
        "cells": module.count * module.cells,
        "memory_bits": module.count * module.memory_bits,
        "multipliers": module.count * module.multipliers,
    }
