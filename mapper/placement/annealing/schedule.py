"""The annealing schedule: what annealing of dense and sparse traffic and of classes have in common.

The window that partners come from shrinks so that about 44 % of the moves are accepted, as in
VPR (Betz and Rose, FPL 1997). The temperature falls by a fixed factor, so that the work is known
beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chipsim.chip.machine import Axes

STEADY = 0.44  # share of accepted moves that the window aims at
CHANCES = 1 << 30  # a random number below decides what is accepted
HOPELESS = 16.0  # temperatures above which no change of cost is accepted


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long and how hot.

    work : nanoseconds of one core, about; what is done follows from counts, never from a clock
    rounds : temperatures, fewer if the work does not allow so many
    start, end : first and last temperature, in mean strengths of a group (its traffic, per hop)
    near : share of the partners that are taken next to a neighbour
    most : proposals per group in a round at most
    """

    work: float
    rounds: int = 40
    start: float = 0.2
    end: float = 0.01
    near: float = 0.4
    most: float = 300.0


class Proposals(NamedTuple):
    """What a kernel is to propose.

    window : columns and rows between partners at most
    near : of 1024 partners, those next to a neighbour
    temperature : at 0 only swaps that lower the cost are made
    moves : swaps to propose
    """

    window: int
    near: int
    temperature: float
    moves: int


class Tile(NamedTuple):
    """A box of the mesh that is annealed on its own.

    box : ndarray[int64], first and end column, row
    members : groups in it; movers : those of them that look for partners
    state : of its own random numbers, shape (1,), changes
    axes : coordinates of all columns and rows
    """

    box: NDArray[np.int64]
    members: NDArray[np.int32]
    movers: NDArray[np.int32]
    state: NDArray[np.uint64]
    axes: Axes


@njit(cache=True, nogil=True)
def allowance(temperature, drawn):
    """What a swap may cost: a cost is below it with probability exp(-cost / temperature).

    drawn : random number below `CHANCES`, by the caller: to hand on its state would take time
    """
    return -temperature * math.log((1 + drawn) / CHANCES)


def next_window(window: float, accepted: float, widest: float) -> float:
    """The window of the next round, from the share of the moves accepted with this one."""
    return min(widest, max(1.0, window * (1 - STEADY + accepted)))
