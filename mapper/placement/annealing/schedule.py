"""The annealing schedule shared by annealing of dense traffic, sparse traffic and classes.

The window of partners shrinks so that about 44 % of the moves are accepted, as in VPR (Betz and
Rose, FPL 1997). The temperature falls by a fixed factor, so that the work is known in advance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import Axes
from storage.arrays import Int32, Int64

STEADY = 0.44  # target share of accepted moves
CHANCES = 1 << 30  # range of the random number that decides acceptance
HOPELESS = 16.0  # changes of cost above this many temperatures are never accepted


@dataclass(frozen=True, slots=True)
class Schedule:
    """Length and temperatures of annealing.

    work : nanoseconds of one core, approximately; work is derived from counts, never from a clock
    rounds : number of temperatures, fewer if the work does not suffice
    start, end : first and last temperature, in mean strengths of a group (its traffic, per hop)
    near : share of the partners chosen next to a neighbour
    most : maximum number of proposals per group in a round
    """

    work: float
    rounds: int = 40
    start: float = 0.2
    end: float = 0.01
    near: float = 0.4
    most: float = 300.0


class Proposals(NamedTuple):
    """Parameters of a kernel call.

    window : maximum distance of partners in columns and rows
    near : of 1024 partners, the number chosen next to a neighbour
    temperature : 0 accepts only swaps that lower the cost
    moves : number of swaps to propose
    """

    window: int
    near: int
    temperature: float
    moves: int


class MeshTile(NamedTuple):
    """A box of the mesh that is annealed separately.

    box : ndarray[int64], first and end column, row
    members : groups in it
    movers : members that seek partners
    state : state of its random numbers, shape (1,), changed
    axes : coordinates of all columns and rows
    """

    box: Int64
    members: Int32
    movers: Int32
    state: NDArray[np.uint64]
    axes: Axes


@njit(cache=True, nogil=True)
def allowance(temperature, drawn):
    """Return a random threshold, above a swap's cost with probability exp(-cost / temperature).

    drawn : random number below `CHANCES`, drawn by the caller: passing its state is slower
    """
    return -temperature * math.log((1 + drawn) / CHANCES)


def next_window(window: float, accepted: float, widest: float) -> float:
    """Return the window of the next round, from the share of moves accepted with this one."""
    return min(widest, max(1.0, window * (1 - STEADY + accepted)))
