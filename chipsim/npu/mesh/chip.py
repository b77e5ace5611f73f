"""Setup of a mesh simulation: cores with their programs, host ports, and their inputs."""

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
    """Input vectors of a frame, in the order in which a host sends them, n in all.

    core : int64, shape (n, 2), x and y
    stream : int64, shape (n,), stream that counts the vector
    vector : int64, shape (n,), address
    odd : int64, shape (n,), address offset in odd frames
    slots : int64, shape (n,), credits for this core and stream before the first frame: the frames
        that the core buffers, unless `waits` is given
    stage : int64, shape (n,), stage of the host that the vector belongs to; one per core and stream
    waits : int64, shape (n,), credits of core and stream that the vector consumes; None: the first
        vector of each core and stream in a frame consumes one
    """

    core: NDArray[np.int64]
    stream: NDArray[np.int64]
    vector: NDArray[np.int64]
    odd: NDArray[np.int64]
    slots: NDArray[np.int64]
    stage: NDArray[np.int64]
    waits: NDArray[np.int64] | None = None

    @classmethod
    def none(cls) -> HostInputs:
        empty = np.zeros(0, np.int64)
        return cls(empty.reshape(0, 2), empty, empty, empty, empty, empty)

    @property
    def consumed(self) -> NDArray[np.int64]:
        """Credits that each vector consumes, shape (n,)."""
        if self.waits is not None:
            return self.waits
        pairs = np.column_stack([self.core, self.stream])
        found = np.zeros(len(pairs), np.int64)
        found[np.unique(pairs, axis=0, return_index=True)[1]] = 1
        return found


class HostPort(NamedTuple):
    """A node where the host receives one flit and sends one per cycle.

    Each stage of the input has its own position. Of the stages that may send, the highest one does.
    The first flit of a vector waits for the credits that it consumes.
    """

    place: Place
    inputs: HostInputs = HostInputs.none()


class HostStages(NamedTuple):
    """Work of the host within a frame.

    The host is one processor. Its work for stage k > 0 of a frame may start once all results of
    lower stages have arrived; frames are in order, and stages take turns. After the work, the
    inputs of stage k of that frame are sent.

    cycles : cycles of each stage; stage 0 has no work
    results : int64, shape (n,), stage of the vector at each host address; 0 beyond
    """

    cycles: Sequence[int] = (0,)
    results: NDArray[np.int64] = np.zeros(0, np.int64)


class MeshChip(NamedTuple):
    """A chip with its programs and host.

    streams : initial stream counts of a core, shape (STREAMS,); default 0
    hosts : host ports
    link : timing of weight requests
    ports : host port that a core requests weights from; default: the first one
    begins : number of the first instruction of a core; default 0
    stages : work of the host within a frame
    """

    shape: NpuShape
    mesh: Mesh
    programs: Mapping[Place, Program]
    streams: Mapping[Place, ArrayLike] = {}
    hosts: Sequence[HostPort] = ()
    link: HostLink = HostLink()
    ports: Mapping[Place, Place] = {}
    begins: Mapping[Place, int] = {}
    stages: HostStages = HostStages()


def say(place: Place) -> str:
    return f"({place[0]}, {place[1]})"
