"""Cells of modules as `mapper hw` shows them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mapper.cli import terminal

if TYPE_CHECKING:
    from rich.table import Table

    from hw.flow.netlist import Cells

DEPTH = 4
"""Packets in the buffer of a router input, if nothing else is said."""


def teller(options: argparse.Namespace) -> Any:
    """Prints notes of Yosys."""
    return lambda line: terminal.say(options, f"note: {line}")


def cells_table(counted: list[Cells], keep_multipliers: bool) -> Table:
    """One of each module, and all of them."""
    from mapper.results.tables import columns

    heads = [
        "module", "copies", "cells", "flip-\nflops", "memory\nbits", "multi-\npliers",
        "all cells", "all memory\nbits", "all multi-\npliers",
    ]  # fmt: skip
    rows: list[tuple[Any, ...]] = [tuple(cells_row(module).values()) for module in counted]
    totals = (
        sum(module.count * getattr(module, name) for module in counted)
        for name in ("cells", "memory_bits", "multipliers")
    )
    rows.append(("sum", *[""] * 5, *totals))
    title = "one of each, and all, without modules within"
    if keep_multipliers:
        title += "; cells without those of multipliers"
    return columns(title, heads, rows)


def cells_row(module: Cells) -> dict[str, Any]:
    """As it stands in JSON and in the table."""
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
