"""What runs on a mesh: cores with their programs, host ports, and what these send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.noc.mesh import Mesh
from chipsim.npu.arrivals import HostLink
from chipsim.npu.records import Program

Place = tuple[int, int]
"""Column and row of a node."""


class HostInputs(NamedTuple):
    """The vectors of a frame's input, in the order in which a host sends them, n in all.

    core : int64, shape (n, 2), x and y; stream : int64, shape (n,), that counts them
    vector : int64, shape (n,), address; odd : int64, shape (n,), what odd frames add to it
    slots : int64, shape (n,), frames of what goes to this core and stream that the core holds
    """

    core: NDArray[np.int64]
    stream: NDArray[np.int64]
    vector: NDArray[np.int64]
    odd: NDArray[np.int64]
    slots: NDArray[np.int64]

    @classmethod
    def none(cls) -> HostInputs:
        empty = np.zeros(0, np.int64)
        return cls(empty.reshape(0, 2), empty, empty, empty, empty)


class HostPort(NamedTuple):
    """A node where the host takes a flit in each cycle, and gives one.

    The first flit of a frame's input to a core and stream waits for a credit of the core once its
    slots are full.
    """

    place: Place
    inputs: HostInputs = HostInputs.none()


class MeshChip(NamedTuple):
    """What runs.

    streams : what the streams of a core have counted before, shape (STREAMS,); 0 if not named
    hosts : host ports; link : how they answer requests for weights
    ports : of cores, the host port that they ask; the first one if not named
    begins : of cores, the number of the first instruction, 0 if not named
    """

    shape: NpuShape
    mesh: Mesh
    programs: Mapping[Place, Program]
    streams: Mapping[Place, ArrayLike] = {}
    hosts: Sequence[HostPort] = ()
    link: HostLink = HostLink()
    ports: Mapping[Place, Place] = {}
    begins: Mapping[Place, int] = {}


def say(place: Place) -> str:
    return f"({place[0]}, {place[1]})"
