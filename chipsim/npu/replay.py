"""Data of overlapping frames on a chip: a functional run in the order of a cycle-accurate run.

Instructions take effect when they end; vectors of cores and host take effect when they are
delivered. If nothing is read or written too early, the data equals the data of sequential runs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.errors import ChipError
from chipsim.npu.execute import Frame, NpuChip
from chipsim.npu.mesh.chip import HostPort, MeshChip, Place, say
from chipsim.npu.mesh.run import MeshTimes
from chipsim.npu.mesh.steps import MAP
from chipsim.npu.records import FIELDS, KINDS, Op

Bytes = NDArray[np.int8]
REMOTE = KINDS[Op.STORE].index("REMOTE")
TO_HOST = [KINDS[Op.STORE].index(kind) for kind in ("HOST", "PARTIAL_HOST")]
_LOADS = [(Op.LOAD, KINDS[Op.LOAD].index(kind)) for kind in ("INP", "ACC8", "ACC32", "WIN")]
_DELIVERED, _ENDS, _BEGINS = range(3)  # processing order within a cycle


class Results(NamedTuple):
    """Results of a frame at the host.

    address : int64, shape (n,), ascending
    vectors : int8, shape (n, columns)
    """

    address: NDArray[np.int64]
    vectors: Bytes


def in_turn(
    chip: MeshChip, functional: NpuChip, inputs: Sequence[Sequence[Bytes]]
) -> tuple[list[Results], Frame]:
    """Run frames sequentially; return the host's results of each, and the final memories.

    inputs : vectors of each frame and host port, int8, shape (vectors of its input, columns)
    """
    frame = functional.frame()
    paced = _Paced(chip, frame)
    found = []
    for number, ports in enumerate(inputs):
        for port, vectors in zip(chip.hosts, ports, strict=True):
            sent = list(_sent(port, number, vectors))
            if port.inputs.waits is not None:
                paced.add(port, sent)
                continue
            for place, stream, address, vector in sent:
                frame.receive(place, address, vector, stream)
        frame.forget_host()
        paced()
        frame.run(odd=bool(number % 2), feed=paced)
        parts = [frame.host(place) for place in functional.cores]
        found.append(_results(parts))
    return found, frame


class _Paced:
    """Vectors of a host that wait for credits of cores, by core and stream."""

    def __init__(self, chip: MeshChip, frame: Frame) -> None:
        self.frame = frame
        self.waiting: dict[tuple[Place, int], deque[tuple[int, int, Bytes]]] = defaultdict(deque)
        self.left: dict[tuple[Place, int], int] = {}
        for port in chip.hosts:
            places = map(tuple, port.inputs.core.tolist())
            pairs = zip(places, port.inputs.stream.tolist(), strict=True)
            self.left.update(zip(pairs, port.inputs.slots.tolist(), strict=True))
        self.seen = dict.fromkeys(self.left, 0)

    def add(self, port: HostPort, sent: Sequence[tuple[Place, int, int, Bytes]]) -> None:
        waits = port.inputs.consumed.tolist()
        for (place, stream, address, vector), wait in zip(sent, waits, strict=True):
            self.waiting[place, stream].append((wait, address, vector))

    def __call__(self) -> bool:
        """Send what credits allow; return whether that was anything."""
        moved = False
        for (place, stream), queue in self.waiting.items():
            given = int(self.frame.credits(place)[stream])
            self.left[place, stream] += given - self.seen[place, stream]
            self.seen[place, stream] = given
            while queue and queue[0][0] <= self.left[place, stream]:
                wait, address, vector = queue.popleft()
                self.left[place, stream] -= wait
                self.frame.receive(place, address, vector, stream)
                moved = True
        return moved


def overlapped(
    chip: MeshChip, functional: NpuChip, inputs: Sequence[Sequence[Bytes]], times: MeshTimes
) -> tuple[list[Results], Frame]:
    """Run all frames in the order of a cycle-accurate run that kept all times and deliveries.

    Raises `ChipError` if an instruction consumes from a stream before the data has arrived, or if
    data read by a load or a remote store changes while it runs.
    """
    frame = functional.frame()
    frame.forget_host()
    places = list(chip.programs)
    flying = _Flying(chip, inputs)
    begun: dict[tuple[int, int], NDArray[np.generic]] = {}
    parts: list[list[tuple[NDArray[np.int64], Bytes]]] = [[] for _ in inputs]
    for cycle, kind, *what in sorted(_events(chip, times)):
        if kind == _DELIVERED:
            place = what[0], what[1]
            frame.receive(place, what[3], flying.land(place, what[2], what[3]), what[2])
            continue
        core, number, at = what
        program, place = chip.programs[places[core]], places[core]
        odd = bool(number % 2)
        op, code = int(program.op[at]), int(program.kind[at])
        moved = None
        if (op, code) in _LOADS:
            moved = frame.loaded(place, at, odd)
        elif (op, code) == (Op.STORE, REMOTE):
            addresses, moved = frame.stored(place, at, odd)
            if kind == _BEGINS:
                flying.start(program.fields[at], addresses, moved)
        if moved is not None:
            if kind == _BEGINS:
                begun[core, at] = moved
            elif not np.array_equal(begun[core, at], moved):
                raise ChipError(
                    f"core {say(place)}: data read by instruction {at} ({Op(op).name}."
                    f"{KINDS[Op(op)][code]}) changes while it runs (frame {number}, cycle "
                    f"{cycle})"
                )
        if kind == _ENDS and (op, code) != (Op.STORE, REMOTE):
            frame.run_in_order(np.array([core]), np.array([at]), odd)
            if op == Op.STORE and code in TO_HOST:
                parts[number].append(frame.host(place))
                frame.forget_host()
    return [_results(some) for some in parts], frame


class _Flying:
    """Vectors in transit, in order, by place, stream and address."""

    def __init__(self, chip: MeshChip, inputs: Sequence[Sequence[Bytes]]) -> None:
        self._rows: dict[tuple[Place, int, int], deque[Bytes]] = defaultdict(deque)
        for number, ports in enumerate(inputs):
            for port, vectors in zip(chip.hosts, ports, strict=True):
                for place, stream, address, vector in _sent(port, number, vectors):
                    self._rows[place, stream, address].append(vector)

    def start(
        self, fields: NDArray[np.int64], addresses: NDArray[np.int64], vectors: Bytes
    ) -> None:
        """fields : fields of the store"""
        x, y, stream = fields[_X : _X + 3].tolist()
        for address, vector in zip(addresses.tolist(), vectors, strict=True):
            self._rows[(x, y), stream, address].append(vector)

    def land(self, place: Place, stream: int, address: int) -> Bytes:
        return self._rows[place, stream, address].popleft()


_X = FIELDS[Op.STORE, REMOTE].index("x")
"""Column of x; y and stream follow."""


def _sent(port: HostPort, number: int, vectors: Bytes) -> Iterator[tuple[Place, int, int, Bytes]]:
    """Yield the vectors that a host port sends in a frame: core, stream, address, vector."""
    inputs = port.inputs
    address = inputs.vector + inputs.odd * (number % 2)
    places = map(tuple, inputs.core.tolist())
    yield from zip(places, inputs.stream.tolist(), address.tolist(), vectors, strict=True)


def _events(chip: MeshChip, times: MeshTimes) -> Iterator[tuple[int, ...]]:
    """Yield events: cycle, kind, and details."""
    flits = times.deliveries
    assert flits is not None
    parts = -(-8 * chip.shape.columns // chip.shape.payload_bits)
    whole = np.flatnonzero((flits.kind == MAP) & (flits.value % parts == parts - 1))
    width = chip.mesh.width
    for at in whole.tolist():
        y, x = divmod(int(flits.target[at]), width)
        stream, address = int(flits.stream[at]), int(flits.value[at]) // parts
        yield int(flits.cycle[at]) + 1, _DELIVERED, x, y, stream, address
    for core, (place, work) in enumerate(times.cores.items()):
        begin = chip.begins.get(place, 0)
        for number, (starts, ends) in enumerate(zip(work.start, work.end, strict=True)):
            for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                yield end, _ENDS, core, number, at + begin
                yield start, _BEGINS, core, number, at + begin


def _results(parts: Sequence[tuple[NDArray[np.int64], Bytes]]) -> Results:
    address = np.concatenate([np.zeros(0, np.int64), *(one for one, _ in parts)])
    if not address.size:
        return Results(address, np.zeros((0, 0), np.int8))
    order = np.argsort(address, kind="stable")
    return Results(address[order], np.concatenate([one for _, one in parts])[order])
