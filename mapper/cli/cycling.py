"""Cycle-true runs of compiled models on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def cycle_tables(found: dict[str, Any], title: str) -> list[Table]:
    """What `cycle_rows` made: the cycles of a frame, and what the units of each core do in them."""
    from mapper.results.tables import columns, facts

    cycles = max(1, found["cycles"])
    rows: dict[str, Any] = {"cycles per frame": found["cycles"]}
    if found["bytes_compared"]:
        rows["bytes equal to the functional run"] = found["bytes_compared"]
    tables = [facts(f"{title}, cycle by cycle", rows)]
    for core in found["cores"]:
        x, y = core["core"]
        units = list(core["busy"])
        body = [("busy", *(_share(core["busy"][unit], cycles) for unit in units))]
        for cause in core["waits"][units[0]]:
            waits = [core["waits"][unit][cause] for unit in units]
            if any(waits):
                body.append((f"waits: {cause}", *(_share(one, cycles) for one in waits)))
        tables.append(columns(f"units of core ({x}, {y})", ("", *units), body))
    return tables


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
