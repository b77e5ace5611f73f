"""Binary heap of vertices by cost, with the place of each vertex, so that costs may change.

heap : ndarray[int64], vertices, the cheapest first; place : index of each vertex in the heap, -1 if
    absent
cost : ndarray[int64] of every vertex. Callers keep the length.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def sift_down(heap, place, cost, at, length):
    v = heap[at]
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        if child + 1 < length and cost[heap[child + 1]] < cost[heap[child]]:
            child += 1
        if cost[heap[child]] >= cost[v]:
            break
        heap[at] = heap[child]
        place[heap[at]] = at
        at = child
    heap[at] = v
    place[v] = at


@njit(cache=True, nogil=True)
def sift_up(heap, place, cost, at):
    v = heap[at]
    while at > 0:
        parent = (at - 1) // 2
        if cost[heap[parent]] <= cost[v]:
            break
        heap[at] = heap[parent]
        place[heap[at]] = at
        at = parent
    heap[at] = v
    place[v] = at


@njit(cache=True, nogil=True)
def remove(heap, place, cost, v, length):
    at = place[v]
    length -= 1
    if at != length:
        heap[at] = heap[length]
        place[heap[at]] = at
        sift_down(heap, place, cost, at, length)
        sift_up(heap, place, cost, place[heap[at]])
    place[v] = -1
    return length
