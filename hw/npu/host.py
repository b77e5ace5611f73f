"""Hosts at the ports of a chip of NPU cores in simulation, and their work between stages."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.errors import HwError
from hw.npu.chip import MixedChip, Place
from hw.npu.flit import SIDE_BITS, Kind, Loaded
from hw.npu.loading import FlitFields


class Input(NamedTuple):
    """A vector of a frame's input.

    core : destination core
    stream : stream that counts the vector
    vector : address
    odd : address offset in odd frames
    slots : frames of the input to this core and stream that the core buffers, as credits
    stage : stage of the host's work that the vector waits for; 0 for none
    waits : credits that it consumes; None for one at the first vector of a core and stream
    """

    core: Place
    stream: int
    vector: int
    odd: int = 0
    slots: int = 1
    stage: int = 0
    waits: int | None = None


class HostSide(NamedTuple):
    """Host attached to a host port.

    inputs : vectors of a frame, in order
    data : uint8, shape (frames, inputs, columns)
    weights : int8, shape (words, rows, columns)
    latency, flits : cycles from a request to the first flit of its answer; flits per cycle
    """

    inputs: Sequence[Input] = ()
    data: NDArray[np.uint8] | None = None
    weights: NDArray[np.int8] | None = None
    latency: int = 32
    flits: Fraction = Fraction(1)


class StagedWork(NamedTuple):
    """Work of the host within a frame.

    cycles : cycles of each stage; 0 for stage 0
    results : stage of the vector at each address of the host; 0 beyond
    wanted : flits of a frame that the host receives for each stage
    """

    cycles: Sequence[int] = (0,)
    results: Sequence[int] = ()
    wanted: Sequence[int] = ()


NO_WORK = StagedWork()


class HostProcessor:
    """Works for one stage of one frame at a time; stages take turns, each in order of frames."""

    def __init__(self, work: StagedWork, parts: int) -> None:
        self.work, self.parts = work, parts
        self.came: Counter[int] = Counter()  # by address
        self.missing: dict[int, list[int]] = {}  # flits of each stage, by frame
        self.waiting: set[tuple[int, int]] = set()  # frame and stage of works that may begin
        self.ends: dict[tuple[int, int], int] = {}
        self.idle = 0
        self.last = 0  # stage of the last work

    def receive(self, address: int) -> None:
        """Count a flit of a result."""
        frame, vector, work = self.came[address], address // self.parts, self.work
        self.came[address] += 1
        if len(work.cycles) == 1:
            return
        missing = self.missing.setdefault(frame, list(work.wanted))
        missing[work.results[vector] if vector < len(work.results) else 0] -= 1
        for stage in range(1, len(missing)):
            if not any(missing[:stage]) and (frame, stage) not in self.ends:
                self.waiting.add((frame, stage))

    def begin(self, cycle: int) -> None:
        """Begin works in a cycle, for results that arrived before."""
        while self.waiting and self.idle <= cycle:
            first = self.last + 1
            one = min(self.waiting, key=lambda one: (one[1] < first, one[1], one[0]))
            self.waiting.remove(one)
            self.last = one[1]
            self.idle = self.ends[one] = cycle + self.work.cycles[one[1]]

    def has_ended(self, frame: int, stage: int, cycle: int) -> bool:
        return stage == 0 or self.ends.get((frame, stage), cycle + 1) <= cycle


class HostState:
    """The state of a host at a port, as in the simulator of chips."""

    def __init__(
        self, chip: MixedChip, side: HostSide, frames: int, processor: HostProcessor
    ) -> None:
        self.chip, self.side, self.frames, self.processor = chip, side, frames, processor
        self.layout = chip.layout
        self.offered: FlitFields | None = None
        self.credits: dict[tuple[Place, int], int] = {}
        self.requests: deque[tuple[int, deque[FlitFields], int]] = deque()
        self.free = 0
        self.inputs = self._inputs()

    def _inputs(self) -> dict[int, deque[tuple[FlitFields, tuple[Place, int], int, int]]]:
        """Return all input flits of all frames by stage, the last one first, with core and stream,
        the credits that they consume, and their frame."""
        side, parts = self.side, self.layout.parts[Loaded.FM]
        mask = (1 << self.layout.payload) - 1
        found: dict[int, deque[tuple[FlitFields, tuple[Place, int], int, int]]] = {
            stage: deque() for stage in sorted({one.stage for one in side.inputs}, reverse=True)
        }
        if side.inputs and (side.data is None or side.data.shape[:2] != (
            self.frames, len(side.inputs)
        )):  # fmt: skip
            raise HwError(f"host: give data of {self.frames} frames of {len(side.inputs)} vectors")
        for frame in range(self.frames):
            seen = set()
            for number, one in enumerate(side.inputs):
                core, stream, vector, odd, slots, stage, waits = one
                assert side.data is not None
                word = int.from_bytes(side.data[frame, number].tobytes(), "little")
                at = (vector + odd * (frame & 1)) * parts
                for part in range(parts):
                    data = word >> self.layout.payload * part & mask
                    needs = int((core, stream) not in seen) if waits is None else waits
                    seen.add((core, stream))
                    flit = FlitFields(*core, Kind.MAP, stream, at + part, data)
                    found[stage].append((flit, (core, stream), 0 if part else needs, frame))
                    self.credits.setdefault((core, stream), slots)
        return found

    def choose(self, cycle: int) -> None:
        """Choose the flit offered from this cycle on."""
        if self.offered is not None:
            return
        if self.requests:
            begin, flits, whole = self.requests[0]
            if begin + ceil((whole - len(flits)) / self.side.flits) <= cycle:
                self.offered = flits.popleft()
                if not flits:
                    self.requests.popleft()
                return
        for stage, inputs in self.inputs.items():
            if not inputs:
                continue
            flit, pair, needs, frame = inputs[0]
            if not self.processor.has_ended(frame, stage, cycle):
                continue
            if self.credits[pair] < needs:
                continue
            self.credits[pair] -= needs
            inputs.popleft()
            self.offered = flit
            return

    def take(self, flit: FlitFields, cycle: int) -> None:
        """Handle a request, or a credit."""
        side = flit.data & ((1 << SIDE_BITS) - 1), flit.data >> SIDE_BITS & ((1 << SIDE_BITS) - 1)
        rest = flit.data >> 2 * SIDE_BITS
        if not flit.address:
            if (side, flit.stream) not in self.credits:
                raise HwError(
                    f"core {side} sends the host a credit for stream {flit.stream}, which gets "
                    "no input from the host"
                )
            self.credits[side, flit.stream] += rest
            return
        weights = self.side.weights
        if weights is None or rest + flit.address > len(weights):
            raise HwError(
                f"core {side} requests weight words {rest} to "
                f"{rest + flit.address - 1}; the host has {0 if weights is None else len(weights)}"
            )
        size = min(self.layout.payload // 8, self.chip.shape.columns)
        data = weights[rest : rest + flit.address].tobytes()
        answer = deque(
            FlitFields(*side, Kind.WEIGHTS, data=int.from_bytes(data[at : at + size], "little"))
            for at in range(0, len(data), size)
        )
        begin = max(cycle + self.side.latency, self.free)
        self.free = begin + ceil(len(answer) / self.side.flits)
        self.requests.append((begin, answer, len(answer)))

    @property
    def idle(self) -> bool:
        return self.offered is None and not self.requests and not any(self.inputs.values())
