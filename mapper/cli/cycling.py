"""Tables and summaries of cycle-accurate runs of compiled models."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from mapper.report.compiled.chiprun import longest_wait
from mapper.results.summary import Row, summary
from mapper.results.tables import columns

MOST_TABLES = 4
"""Maximum number of cores with one table each; more cores share one table."""


def cycle_tables(found: dict[str, Any], title: str) -> list[Table]:
    """Return tables of cycles, and of busy and stall shares of the units of each core.

    found : result of `cycle_rows` or `frames_rows`
    """
    cycles = max(1, found["cycles"])
    tables = [summary(f"{title}, cycle by cycle", _times(found))]
    if len(found["cores"]) > MOST_TABLES:
        heads = ("core", "cycles", *found["cores"][0]["busy"], "longest stall")
        return [*tables, columns("cores", heads, [_row(one, cycles) for one in found["cores"]])]
    for core in found["cores"]:
        x, y = core["core"]
        units = list(core["busy"])
        body = [("busy", *(_share(core["busy"][unit], cycles) for unit in units))]
        for cause in core["waits"][units[0]]:
            waits = [core["waits"][unit][cause] for unit in units]
            if any(waits):
                body.append((f"stall: {cause}", *(_share(one, cycles) for one in waits)))
        tables.append(columns(f"units of core ({x}, {y})", ("", *units), body))
    return tables


def cycle_lines(found: dict[str, Any]) -> list[Row]:
    """Return the summary rows of a cycle-accurate run: times, and the longest stall."""
    rows = _times(found)
    stalls = [(wait, core["core"]) for core in found["cores"] if (wait := longest_wait(core))]
    if stalls:
        (count, cause), (x, y) = max(stalls, key=lambda one: one[0][0])
        share = _share(count, max(1, found["cycles"]))
        rows.append(Row("longest stall", share, f"{cause}, core ({x}, {y})"))
    return rows


def _times(found: dict[str, Any]) -> list[Row]:
    """Return the times of a cycle-accurate run."""
    if "frames" not in found:
        rows = [Row("cycles per frame", found["cycles"])]
    else:
        bound = found["bound"]
        rows = [
            Row("frames", found["frames"]),
            Row("load cycles", found["loading"], "once"),
            Row("latency", found["latency"], "cycles"),
        ]
        if found["period"] is not None:
            rows.append(Row("initiation interval", found["period"], "cycles"))
            if found["mean_period"] != found["period"]:
                rows.append(Row("average interval", found["mean_period"], "cycles"))
        rows += [
            Row("bottleneck", f"{bound['cycles']:,.0f}", f"cycles per frame, {bound['where']}"),
            Row(
                "frames per second", f"{found['frames_per_second']:,.0f}",
                f"at {found['clock_mhz']:g} MHz",
            ),
            Row("flits per frame", found["busiest_link"], "on the busiest link"),
            Row("flit hops per frame", found["flit_hops"]),
        ]  # fmt: skip
    if found["bytes_compared"]:
        rows.append(Row("bytes compared", found["bytes_compared"], "equal to the functional run"))
    return rows


def _row(core: dict[str, Any], cycles: int) -> tuple[Any, ...]:
    """Return a table row of a core: cycles, busy shares of its units, and its longest external
    stall."""
    x, y = core["core"]
    shares = (_share(count, cycles) for count in core["busy"].values())
    wait = longest_wait(core)
    waits_for = "" if wait is None else f"{wait[1]}, {_share(wait[0], cycles)}"
    return f"({x}, {y})", core["alone"], *shares, waits_for


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"
