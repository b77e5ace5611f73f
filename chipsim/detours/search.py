"""Routes between all pairs of routers over permitted turns.

The route from one router to another is the shortest one; of several, the one with the fewest turns
from a column into a row; of these, the one with the smallest sum of fixed pseudo-random numbers of
its links. Hence:

* Where the XY route works and its turns are permitted, it is the route: no other shortest route has
  only turns from rows into columns.
* Routes are unique, so every part of a route is the route between its ends, among the routes that
  begin, or end, with the same link. The routes from a router therefore form a tree of links, which
  multicast packets follow, and a table by destination and input gives every router the way of a
  packet.

A row of a table describes all routes from (or to) a router in 16 bits per router: for each link
that leaves the router, two bits for the direction from which routes come to it (its opposite: they
begin here); two for the direction in which they arrive; and one if the router is reached.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.detours.turns import TurnMasks
from chipsim.protocols import Int32Array, Int64Array

RouteTable = NDArray[np.uint16]
"""Rows as above, shape (routers, routers)."""
ARRIVES = 8
"""Bit of the direction of arrival."""
REACHED = 10
"""Bit of routers that are reached."""
NUMBER_BITS = 40
"""Bits of the numbers of links: sums along 2^16 links fit, and equal sums hardly ever occur."""


def link_numbers(routers: int) -> Int64Array:
    """Return the number of every link, shape (routers, 4): the first bits of splitmix64.

    The generator: Steele, Lea and Flood (OOPSLA 2014), with the state 4 * router + way.
    """
    state = np.arange(1, 4 * routers + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(64 - NUMBER_BITS)).astype(np.int64).reshape(routers, 4)


def reversed_turns(turns: TurnMasks) -> TurnMasks:
    """Return the turns of packets that travel all routes backwards."""
    found = np.zeros_like(turns)
    for came in range(4):
        for leaves in range(4):
            bit = turns >> np.uint16(4 * came + leaves) & np.uint16(1)
            found |= bit << np.uint16(4 * (leaves ^ 1) + (came ^ 1))
    return found


def reversed_numbers(after: Int32Array, numbers: Int64Array) -> Int64Array:
    """Return the number of the opposite of every link."""
    ends = np.maximum(after, 0)
    return np.stack([numbers[ends[:, way], way ^ 1] for way in range(4)], axis=1)


@njit(cache=True, nogil=True)
def find_routes(after, turns, numbers, backwards, first, table):
    """Fill rows of a table with the routes from the routers first, first + 1, ...

    Returns the links of the longest route.

    after : of `chipsim.detours.turns.next_routers`
    backwards : whether turns and numbers are reversed; the rows then describe routes to the routers
    table : ndarray[uint16], shape (rows, routers)
    """
    links = 4 * len(after)
    length = np.empty(links, np.int64)
    rows = np.empty(links, np.int64)  # turns from columns into rows
    total = np.empty(links, np.int64)  # numbers of the links
    queue = np.empty(links, np.int64)
    scratch = (length, rows, total, queue)
    longest = np.int64(0)
    for i in range(len(table)):
        found = _search(after, turns, numbers, backwards, first + i, scratch, table[i])
        longest = max(longest, found)
    return longest


@njit(cache=True, nogil=True)
def _search(after, turns, numbers, backwards, root, scratch, row):
    """Fill a row of a table by breadth-first search over links; return the longest route."""
    length, rows, total, queue = scratch
    length[:] = -1
    row[:] = 0
    row[root] = 1 << REACHED
    count = 0
    for way in range(4):
        if after[root, way] >= 0:
            link = 4 * root + way
            length[link], rows[link], total[link] = 1, 0, numbers[root, way]
            row[root] |= np.uint16((way ^ 1) << (2 * way))
            queue[count] = link
            count += 1
    at = 0
    arrived = np.full(len(after), -1)
    while at < count:
        link = queue[at]
        at += 1
        came = link % 4
        head = np.int64(after[link // 4, came])
        best = arrived[head]
        if head != root and (
            best < 0
            or (
                length[link] == length[best]
                and (rows[link], total[link]) < (rows[best], total[best])
            )
        ):
            arrived[head] = link
        for leaves in range(4):
            then = 4 * head + leaves
            if not turns[head] >> (4 * came + leaves) & 1 or after[head, leaves] < 0:
                continue
            if backwards:
                into = np.int64(came < 2 and leaves >= 2)
            else:
                into = np.int64(came >= 2 and leaves < 2)
            if length[then] < 0:
                length[then] = length[link] + 1
                queue[count] = then
                count += 1
            elif length[then] <= length[link] or (rows[then], total[then]) <= (
                rows[link] + into,
                total[link] + numbers[head, leaves],
            ):
                continue
            rows[then] = rows[link] + into
            total[then] = total[link] + numbers[head, leaves]
            row[head] = np.int64(row[head]) & ~(3 << (2 * leaves)) | came << (2 * leaves)
    longest = np.int64(0)
    for router in range(len(after)):
        if arrived[router] >= 0:
            row[router] |= np.uint16(1 << REACHED | (arrived[router] % 4) << ARRIVES)
            longest = max(longest, length[arrived[router]])
    return longest
