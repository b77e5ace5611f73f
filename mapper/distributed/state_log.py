"""The state as it goes to other processes: as a whole once, then as what has changed.

A version has a number; each settle makes a new one. Who is at a version gets what has changed
since, and who is at none, or at one of an earlier state, the whole. Vertices are sent as the gaps
between them, which are small, and both gaps and labels as `storage.scratch.packed` packs them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.distributed.shard import State
from storage.scratch.packed import pack, unpack

Int32 = NDArray[np.int32]
LARGEST = 2**31 - 1  # that can be packed


class Delta(NamedTuple):
    """New labels of some vertices, packed: the gaps between these, ascending, and the labels."""

    gaps: bytes
    labels: bytes

    @classmethod
    def of(cls, vertices: Int32, part: Int32) -> Delta:
        """The labels that these vertices have; vertices : ascending."""
        gaps = np.diff(vertices, prepend=np.int32(-1)) - np.int32(1)
        return cls(pack(gaps), pack(part[vertices]))

    def unpacked(self) -> tuple[Int32, Int32]:
        """Vertices, and their labels."""
        gaps = unpack(self.gaps)
        return np.cumsum(gaps + np.int32(1), dtype=np.int32) - np.int32(1), unpack(self.labels)


class Whole(NamedTuple):
    """A state: labels packed, sizes packed if they can be, how many labels have a load."""

    part: bytes
    sizes: bytes | NDArray[np.int64]
    labels: int
    constants: tuple[Any, ...]

    @classmethod
    def of(cls, state: State) -> Whole:
        sizes: bytes | NDArray[np.int64] = state.sizes
        if state.sizes.min(initial=0) >= 0 and state.sizes.max(initial=0) <= LARGEST:
            sizes = pack(state.sizes.astype(np.int32))
        return cls(pack(state.part), sizes, state.loads.size, state.constants)

    def unpacked(self) -> State:
        """The state, in arrays of its own."""
        sizes = self.sizes
        if isinstance(sizes, bytes):
            sizes = unpack(sizes).astype(np.int64)
        part, loads = unpack(self.part), np.zeros(self.labels, np.int64)
        if loads.size:
            np.add.at(loads, part, sizes)
        return State(part, loads, sizes, self.constants)


class Update(NamedTuple):
    """What leads to a version: a state or None, and deltas, the earliest first."""

    version: int
    whole: Whole | None
    deltas: tuple[Delta, ...]


class StateLog:
    """Versions of the driver's state."""

    def __init__(self) -> None:
        self.version = 0
        self._begun = 0  # the version that `_deltas` begin after
        self._state = State.none()
        self._known = self._state.part
        self._deltas: list[Delta] = []
        self._settled: list[Int32 | slice] = []

    def begin(self, state: State) -> None:
        """Another state; its arrays stay the caller's."""
        self._state, self._known = state, state.part.copy()
        self._deltas, self._settled = [], []
        self.version += 1
        self._begun = self.version

    def settled(self, vertices: Int32 | slice) -> None:
        """These may have other labels now."""
        self._settled.append(vertices)

    def base(self, version: int) -> int:
        """The version that an update of who is at this one begins with; 0 if it is a whole one."""
        return version if version >= self._begun else 0

    def since(self, version: int) -> Update | None:
        """What leads from a version to the present one; None if they are the same."""
        self._settle()
        if version == self.version:
            return None
        if version < self._begun:
            return Update(self.version, Whole.of(self._state), ())
        return Update(self.version, None, tuple(self._deltas[version - self._begun :]))

    def _settle(self) -> None:
        """Make a version of what was settled."""
        part, known = self._state.part, self._known
        changed = [_changed(vertices, part, known) for vertices in self._settled]
        self._settled = []
        vertices = np.unique(np.concatenate([np.empty(0, np.int32), *changed]))
        if vertices.size:
            known[vertices] = part[vertices]
            self._deltas.append(Delta.of(vertices, part))
            self.version += 1


def _changed(vertices: Int32 | slice, part: Int32, known: Int32) -> Int32:
    """Those of the vertices whose label is not the one that is known."""
    found = np.flatnonzero(part[vertices] != known[vertices])
    if isinstance(vertices, slice):
        return (found + vertices.start).astype(np.int32)
    return vertices[found]


def updated(state: State, update: Update) -> State:
    """The state that an update leads to; arrays change in place where it is not a whole one."""
    if update.whole is not None:
        state = update.whole.unpacked()
    for delta in update.deltas:
        vertices, labels = delta.unpacked()
        if state.loads.size:
            sizes = state.sizes[vertices]
            np.subtract.at(state.loads, state.part[vertices], sizes)
            np.add.at(state.loads, labels, sizes)
        state.part[vertices] = labels
    return state
