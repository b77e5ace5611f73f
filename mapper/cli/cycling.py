"""Cycle-true runs of compiled models on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

MOST_TABLES = 4
"""Cores that have a table of their own, at most; of more there is one of all."""


def cycle_tables(found: dict[str, Any], title: str) -> list[Table]:
    """What `cycle_rows` or `frames_rows` made: cycles, and what the units of each core do in
    them."""
    from mapper.results.tables import columns, facts

    cycles = max(1, found["cycles"])
    tables = [facts(f"{title}, cycle by cycle", _summary(found))]
    if len(found["cores"]) > MOST_TABLES:
        heads = ("core", "cycles", *found["cores"][0]["busy"], "waits longest for")
        return [*tables, columns("cores", heads, [_row(one, cycles) for one in found["cores"]])]
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


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    """The first lines."""
    rows: dict[str, Any] = {}
    if "frames" not in found:
        rows["cycles per frame"] = found["cycles"]
    else:
        bound = found["bound"]
        rows["frames"] = found["frames"]
        rows["cycles that fill the memories before"] = found["loading"]
        rows["cycles until the first is done"] = found["latency"]
        if found["period"] is not None:
            rows["cycles from frame to frame"] = found["period"]
            if found["mean_period"] != found["period"]:
                rows["on average"] = found["mean_period"]
        rows["at least, by what takes longest"] = f"{bound['cycles']:,.0f}, {bound['where']}"
        rows["frames per second"] = (
            f"{found['frames_per_second']:,.0f} at {found['clock_mhz']:g} MHz"
        )
        rows["flits of a frame on the busiest link"] = found["busiest_link"]
        rows["hops of all flits of a frame"] = found["flit_hops"]
    if found["bytes_compared"]:
        rows["bytes equal to the functional run"] = found["bytes_compared"]
    return rows


def _row(core: dict[str, Any], cycles: int) -> tuple[Any, ...]:
    """A core in a line: its cycles alone, shares of its units, and what one of them waits longest
    for that comes from outside."""
    from mapper.report.compiled.chiprun import longest_wait

    x, y = core["core"]
    shares = (_share(count, cycles) for count in core["busy"].values())
    wait = longest_wait(core)
    waits_for = "" if wait is None else f"{wait[1]}, {_share(wait[0], cycles)}"
    return f"({x}, {y})", core["alone"], *shares, waits_for


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
