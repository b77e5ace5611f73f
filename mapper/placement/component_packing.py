"""Assign an area of cells to each connected component, and the rim to groups without traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.machine import Axes
from mapper.graph.search import components
from mapper.placement.region import Region
from mapper.placement.traffic import Traffic
from storage.arrays import Int32, Int64

SMALL = 16  # components with fewer groups share an area
MOST_AREAS = 128  # number of areas, approximately; larger graphs have a larger minimum size


@dataclass(frozen=True, slots=True)
class ComponentArea:
    """One connected component, or all small ones, and an equal number of cells.

    members : ndarray[int64], shape (n,), groups
    traffic : traffic of the members, numbered in this order
    cells : ndarray[int64], shape (n, 2), columns and rows, sorted
    connected : the area is one component
    """

    members: Int64
    traffic: Traffic
    cells: Int64
    connected: bool


def split_areas(traffic: Traffic, region: Region) -> list[ComponentArea]:
    """Return an area per component, largest first, one for small components, one for idle groups.

    Groups without connections get the cells farthest from the centre.
    """
    n = traffic.size
    kind, size, label = _kinds(traffic)
    idle = np.flatnonzero(kind == size.size)
    cells = np.argwhere(region.usable.T)
    axes = region.axes
    centre = np.array([axes.x[-1], axes.y[-1]]) / 2
    far = np.argsort(-np.abs(axes.places(cells) - centre).sum(axis=1), kind="stable")
    rim = np.zeros(n, np.bool_)
    rim[far[: idle.size]] = True
    areas = []
    order = np.lexsort((label, kind))
    number = np.empty(n, np.int64)
    number[order] = np.arange(n)
    ends = np.append(0, np.cumsum(np.abs(size)))
    for i, inside in enumerate(_deal(cells[~rim], ends, axes)):
        members = order[ends[i] : ends[i + 1]]
        part = _part(traffic, members, number - ends[i])
        areas.append(ComponentArea(members, part, inside, bool(size[i] > 0)))
    if idle.size:
        areas.append(
            ComponentArea(idle, _part(traffic, idle, number - ends[-1]), cells[rim], False)
        )
    return areas


def _kinds(traffic: Traffic) -> tuple[Int64, Int64, Int32]:
    """Return the area of every group, the sizes of the areas, and the component of every group.

    The size of the area of all small components is negative, and idle groups have the number after
    the last area.
    """
    n = traffic.size
    count, label = components(traffic.indptr, traffic.ids)
    size = np.bincount(label, minlength=count)
    large = size >= max(SMALL, n // MOST_AREAS)
    ranked = np.flatnonzero(large)
    ranked = ranked[np.argsort(-size[ranked], kind="stable")]
    number = np.full(count, ranked.size)
    number[ranked] = np.arange(ranked.size)
    kind = number[label]
    sizes = size[ranked]
    some = (kind == ranked.size) & (size[label] > 1)
    if some.any():
        kind[(kind == ranked.size) & ~some] += 1
        sizes = np.append(sizes, -np.count_nonzero(some))
    return kind.astype(np.int64), sizes.astype(np.int64), label


def _deal(cells: Int64, ends: Int64, axes: Axes) -> list[Int64]:
    """Divide the cells into pieces of given sizes, as compact as their order allows.

    ends : piece i gets ends[i+1] - ends[i] cells

    The sequence of pieces is split into the most equal halves, recursively, and the cells are split
    accordingly along their longer side.
    """
    pieces: dict[int, Int64] = {}
    stack = [(0, ends.size - 1, cells)] if ends.size > 1 else []
    while stack:
        first, last, inside = stack.pop()
        if last - first == 1:
            pieces[first] = inside[np.lexsort((inside[:, 1], inside[:, 0]))]
            continue
        half = (ends[first] + ends[last]) / 2
        middle = first + 1 + int(np.argmin(np.abs(ends[first + 1 : last] - half)))
        span = np.ptp(axes.places(inside), axis=0)
        wide = span[0] >= span[1]
        keys = (inside[:, 1], inside[:, 0]) if wide else (inside[:, 0], inside[:, 1])
        inside = inside[np.lexsort(keys)]
        held = ends[middle] - ends[first]
        stack += [(first, middle, inside[:held]), (middle, last, inside[held:])]
    return [pieces[i] for i in range(ends.size - 1)]


def _part(traffic: Traffic, members: Int64, number: Int64) -> Traffic:
    """Return the traffic of one component, with its groups renumbered."""
    if members.size == traffic.size and np.array_equal(members, number):
        return traffic
    begin, end = traffic.indptr[members], traffic.indptr[members + 1]
    indptr = np.append(0, np.cumsum(end - begin))
    at = np.arange(indptr[-1]) + np.repeat(begin - indptr[:-1], end - begin)
    return Traffic(
        indptr, number[traffic.ids[at]].astype(np.int32), traffic.weights[at], traffic.mass[members]
    )
