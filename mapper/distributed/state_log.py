"""State updates for other processes: the whole state once, then deltas.

Each settle creates a numbered version. A process at a version of the current state receives the
deltas since; any other process receives the whole state. Vertices are sent as gaps, which are
small; gaps and labels are packed as in `storage.scratch.packed`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.executors.shard import State
from storage.scratch.packed import pack, unpack

Int32 = NDArray[np.int32]
INT32_MOST = 2**31 - 1  # largest number that can be packed


class Delta(NamedTuple):
    """Packed new labels of some vertices: gaps between the ascending vertices, and labels."""

    gaps: bytes
    labels: bytes

    @classmethod
    def of(cls, vertices: Int32, part: Int32) -> Delta:
        """Return the delta with the labels of these vertices, ascending."""
        gaps = np.diff(vertices, prepend=np.int32(-1)) - np.int32(1)
        return cls(pack(gaps), pack(part[vertices]))

    def unpacked(self) -> tuple[Int32, Int32]:
        """Return the vertices and their labels."""
        gaps = unpack(self.gaps)
        return np.cumsum(gaps + np.int32(1), dtype=np.int32) - np.int32(1), unpack(self.labels)


class Whole(NamedTuple):
    """A whole state: packed labels, sizes (packed if possible), number of labels with a load."""

    part: bytes
    sizes: bytes | NDArray[np.int64]
    labels: int
    constants: tuple[Any, ...]

    @classmethod
    def of(cls, state: State) -> Whole:
        sizes: bytes | NDArray[np.int64] = state.sizes
        if state.sizes.min(initial=0) >= 0 and state.sizes.max(initial=0) <= INT32_MOST:
            sizes = pack(state.sizes.astype(np.int32))
        return cls(pack(state.part), sizes, state.loads.size, state.constants)

    def unpacked(self) -> State:
        """Return the state in newly allocated arrays."""
        sizes = self.sizes
        if isinstance(sizes, bytes):
            sizes = unpack(sizes).astype(np.int64)
        part, loads = unpack(self.part), np.zeros(self.labels, np.int64)
        if loads.size:
            np.add.at(loads, part, sizes)
        return State(part, loads, sizes, self.constants)


class Update(NamedTuple):
    """Update to a version: a whole state or None, and deltas, earliest first."""

    version: int
    whole: Whole | None
    deltas: tuple[Delta, ...]


class StateLog:
    """Versions of the driver's state."""

    def __init__(self) -> None:
        self.version = 0
        self._begun = 0  # version that precedes the first of `_deltas`
        self._state = State.none()
        self._known = self._state.part
        self._deltas: list[Delta] = []
        self._settled: list[Int32 | slice] = []

    def begin(self, state: State) -> None:
        """Begin with another state; the caller owns its arrays."""
        self._state, self._known = state, state.part.copy()
        self._deltas, self._settled = [], []
        self.version += 1
        self._begun = self.version

    def settled(self, vertices: Int32 | slice) -> None:
        """Record vertices whose labels may have changed."""
        self._settled.append(vertices)

    def base(self, version: int) -> int:
        """Return the version that an update of a process starts from; 0 for a whole state."""
        return version if version >= self._begun else 0

    def since(self, version: int) -> Update | None:
        """Return the update from a version to the present one; None if they are equal."""
        self._settle()
        if version == self.version:
            return None
        if version < self._begun:
            return Update(self.version, Whole.of(self._state), ())
        return Update(self.version, None, tuple(self._deltas[version - self._begun :]))

    def _settle(self) -> None:
        """Create a version from the settled vertices."""
        part, known = self._state.part, self._known
        changed = [_changed(vertices, part, known) for vertices in self._settled]
        self._settled = []
        vertices = np.unique(np.concatenate([np.empty(0, np.int32), *changed]))
        if vertices.size:
            known[vertices] = part[vertices]
            self._deltas.append(Delta.of(vertices, part))
            self.version += 1


def _changed(vertices: Int32 | slice, part: Int32, known: Int32) -> Int32:
    """Return the vertices whose label differs from the known one."""
    found = np.flatnonzero(part[vertices] != known[vertices])
    if isinstance(vertices, slice):
        return (found + vertices.start).astype(np.int32)
    return vertices[found]


def updated(state: State, update: Update) -> State:
    """Apply an update; arrays change in place unless it has a whole state."""
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
