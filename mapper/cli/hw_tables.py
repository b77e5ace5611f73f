"""Tables of `mapper hw`: sizes of the hardware, and cells per module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mapper.results.tables import columns, facts

if TYPE_CHECKING:
    from rich.table import Table

HEADS = (
    "module", "copies", "cells", "flip-flops", "memory bits", "multipliers", "all cells",
    "all memory bits", "all multipliers",
)  # fmt: skip
TOTALS = ("cells", "memory_bits", "multipliers")
COSTS = ("part", "of the", "cells\nwithout", "with", "more", "multipliers\nmore",
         "memory bits\nmore")  # fmt: skip
OF_CHIP = ("chip", "width", "height", "borders", "host_output", "core", "verilog", "modules")
"""Facts of a chip that are not sizes of its mesh."""


def hardware_tables(found: dict[str, Any], keep_multipliers: bool) -> list[Table]:
    """Return the tables of `mapper.jobs.hardware.hardware`."""
    if "npu" in found:
        tables = [
            facts(f"NPU {found['npu']['name']}", found["npu"]),
            facts("memory bits", found["memory_bits"]),
        ]
        tables += [facts("chip", found["chip"])] if found["chip"] is not None else []
    else:
        mesh = [(name, value) for name, value in found.items() if name not in OF_CHIP]
        tables = [facts(f"{found['width']}x{found['height']} mesh", mesh)]
        tables += [facts("core", found["core"])] if found["core"] is not None else []
    if found["verilog"] is not None:
        file = found["verilog"]
        tables.append(facts("files written", [(file["path"], f"{file['bytes']:,} B")]))
    if found["modules"] is not None:
        tables.append(cells_table(found["modules"], keep_multipliers))
    if found.get("differences") is not None:
        tables.append(_costs(found["differences"]))
    return tables


def cells_table(counted: list[dict[str, Any]], keep_multipliers: bool) -> Table:
    """Return the table of cells per module: of one instance, and of all instances."""
    rows: list[tuple[Any, ...]] = [tuple(module.values()) for module in counted]
    totals = (sum(module[name] for module in counted) for name in TOTALS)
    rows.append(("sum", *[""] * 5, *totals))
    title = "cells per module and of all copies, without submodules"
    if keep_multipliers:
        title += "; multipliers excluded"
    return columns(title, HEADS, rows)


def _costs(differences: list[dict[str, Any]]) -> Table:
    """Return the cost of optional parts."""
    rows = [
        (
            one["part"], one["of"], one["cells_without"], one["cells_with"],
            f"{100 * one['share']:+.1f} %", one["multipliers"], one["memory_bits"],
        )
        for one in differences
    ]  # fmt: skip
    return columns("cost of optional parts", COSTS, rows)
