"""Line buffers of a compiled model: the columns that cores keep of each map, and when they read
them."""

from __future__ import annotations

from typing import Any

from mapper.compiler.codegen.code import CoreCode, Lying


def ring_rows(code: CoreCode) -> list[dict[str, Any]]:
    """Return the line buffers of a core; maps that share one are in it together.

    rows : of the map in this core; kept, least : columns that are kept, and that are needed
    vectors, tall : of the line buffer, and of a column
    reads : first and last cycle of the loads of a tile without waits for other cores, and the first
        column that it reads, and the end
    """
    found: list[Lying] = []
    for one in code.maps:  # the map that owns a region is before its parts
        shared = any(_is_inside(one, other) for other in found)
        if one.region.ring is not None and not shared:
            found.append(one)
    return [_row(code, one) for one in found]


def _is_inside(one: Lying, other: Lying) -> bool:
    region = other.region
    return region.base <= one.region.base < region.base + region.size


def _row(code: CoreCode, one: Lying) -> dict[str, Any]:
    ring = one.region.ring
    assert ring is not None
    return {
        "core": list(code.place),
        "map": one.tensor.name,
        "rows": list(one.rows),
        "columns": one.tensor.width,
        "kept": ring.columns,
        "least": one.least,
        "vectors": ring.columns * ring.tall,
        "tall": ring.tall,
        "reads": _reads(code, one),
    }


def _reads(code: CoreCode, one: Lying) -> list[list[int]]:
    """Return when each tile reads which columns."""
    ring, width = one.region.ring, one.tensor.width
    assert ring is not None
    found: dict[tuple[int, int], list[int]] = {}
    for number, step in enumerate(code.steps):
        for cells in step.loaded:
            columns = (cells - ring.first) // ring.tall
            columns = columns[(cells >= ring.first) & (columns < width)]
            if not columns.size:
                continue
            start, end = (int(x[number]) for x in (code.timeline.start, code.timeline.end))
            first, stop = int(columns.min()), int(columns.max()) + 1
            mine = found.setdefault((step.macro, step.tile), [start, end, first, stop])
            mine[:] = (
                min(mine[0], start),
                max(mine[1], end),
                min(mine[2], first),
                max(mine[3], stop),
            )
    return list(found.values())
