"""Line buffers on the page: a table, and pictures of the columns that cores read over a frame."""

from __future__ import annotations

from typing import Any, NamedTuple

from mapper.reporting.cells import Cell, Table, percent, table

WIDTH, HEIGHT, LEFT, TOP, AXIS = 960, 150, 64, 8, 40


class RingPicture(NamedTuple):
    """Reads of a map, over the columns and the cycles of a frame.

    kept, reads : paths of the columns in the line buffer, and of those that tiles read
    ticks, columns : labels of the axes, with their positions
    """

    title: str
    width: int
    height: int
    kept: str
    reads: str
    ticks: list[tuple[float, str]]
    columns: list[tuple[float, str]]


class Rings(NamedTuple):
    """note : memory of all line buffers, and the least that they need"""

    note: str
    table: Table
    pictures: list[RingPicture]


def rings(report: dict[str, Any]) -> Rings | None:
    """Return the line buffers of a report; None without them."""
    rows = report.get("rings", [])
    if not rows:
        return None
    vectors = sum(one["vectors"] for one in rows)
    whole = sum(one["columns"] * one["tall"] for one in rows)
    least = sum(one["least"] * one["tall"] for one in rows)
    note = (
        f"Line buffers keep {vectors:,} vectors of {whole:,} of their maps; {least:,} are needed, "
        "more let cores run ahead of others."
    )
    return Rings(note, _table(rows), [_picture(one) for one in rows])


def _table(rows: list[dict[str, Any]]) -> Table:
    heads = ("Core x, y", "Map", "Rows", "Columns kept", "Needed", "Of the map", "Vectors")
    found = []
    for one in rows:
        share = one["kept"] / one["columns"]
        found.append(
            (
                "{}, {}".format(*one["core"]),
                Cell(one["map"]),
                Cell("{} to {}".format(one["rows"][0], one["rows"][1] - 1)),
                Cell(one["kept"]),
                Cell(one["least"]),
                Cell(share, f"{percent(share)} of {one['columns']:,}", share),
                Cell(one["vectors"]),
            )
        )
    return table("Line buffers", heads, found)


def _picture(one: dict[str, Any]) -> RingPicture:
    cycles = max([1, *(read[1] for read in one["reads"])])
    across, up = (WIDTH - LEFT - 8) / cycles, HEIGHT / one["columns"]

    def box(begin: float, end: float, first: int, stop: int) -> str:
        x, y = LEFT + begin * across, TOP + HEIGHT - stop * up
        wide, high = max(0.5, (end - begin) * across), (stop - first) * up
        return f"M{x:.1f} {y:.1f}h{wide:.1f}v{high:.1f}h{-wide:.1f}z"

    reads = sorted(one["reads"])
    ends = [*(read[0] for read in reads[1:]), cycles]
    kept = "".join(
        box(begin, max(begin, end), max(0, stop - one["kept"]), stop)
        for (begin, _, _, stop), end in zip(reads, ends, strict=True)
    )
    ticks = [
        (LEFT + share * cycles * across, f"{round(share * cycles):,}")
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    columns = [(TOP + HEIGHT - share * HEIGHT + 4, f"{round(share * one['columns'])}")
               for share in (0, 0.5, 1)]  # fmt: skip
    title = "Core ({}, {}): {}".format(*one["core"], one["map"])
    made = "".join(box(*read) for read in reads)
    return RingPicture(title, WIDTH, TOP + HEIGHT + AXIS, kept, made, ticks, columns)
