"""Cycle-accurate run of a small chip of NPU cores, with its hosts, in Amaranth's simulator.

Cycle 0 is the cycle of the first fetch. Hosts accept one flit per cycle and offer one: answers to
weight requests when due, else the next flit of the input, in order; the first flit of a frame to a
core and stream consumes a credit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from amaranth.hdl import Cat
from amaranth.sim import Simulator
from numpy.typing import NDArray

from hw.errors import HwError, check_count
from hw.npu.chip import STARTING, MixedChip, Place
from hw.npu.flit import SIDE_BITS, Kind, Loaded
from hw.npu.isa.table import UNITS
from hw.npu.loading import FlitFields

PATIENCE = 5_000
"""Maximum number of cycles in which nothing moves."""


class Input(NamedTuple):
    """A vector of a frame's input.

    core : destination core
    stream : stream that counts the vector
    vector : address
    odd : address offset in odd frames
    slots : frames of the input to this core and stream that the core buffers
    """

    core: Place
    stream: int
    vector: int
    odd: int = 0
    slots: int = 1


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


class Delivered(NamedTuple):
    """A flit that left the mesh."""

    cycle: int
    node: int
    flit: FlitFields


class NpuRun(NamedTuple):
    """Result of a run.

    results : for each frame, vectors by their address
    completed : for each frame, the cycle after the arrival of its last result; without results,
        after the cores had ended it
    deliveries : all flits from cycle 0 on, in order
    started, ended : for each core, by unit: cycles of starts, and cycles after ends
    idle : for each core, first cycle after each frame
    loaded : cycles until the flits before the frames had arrived
    memories : for each core, words by the name of the memory
    """

    results: list[dict[int, NDArray[np.int8]]]
    completed: list[int]
    deliveries: list[Delivered]
    started: dict[Place, list[list[int]]]
    ended: dict[Place, list[list[int]]]
    idle: dict[Place, list[int]]
    loaded: int
    memories: dict[Place, dict[str, list[int]]]


class NpuSimulator:
    """A chip that is elaborated once; each run starts with its initial memory contents."""

    def __init__(self, chip: MixedChip) -> None:
        self.chip = chip
        self._simulator = Simulator(chip)
        self._simulator.add_clock(1e-8)
        self._simulator.add_testbench(self._bench)
        self._job: _Job | None = None

    def run(
        self,
        hosts: Sequence[HostSide],
        frames: int = 1,
        firsts: Mapping[Place, int] | None = None,
        before: Sequence[FlitFields] = (),
        patience: int = PATIENCE,
    ) -> NpuRun:
        """Run a number of frames on all cores; 0 if flits start them.

        hosts : host at each port of the chip
        firsts : first instruction of the frames of a core, if not 0
        before : flits that the first host sends before the cores start

        Raises `HwError` if nothing moves any more but work is left.
        """
        check_count("frames", frames, 0, (1 << 16) - 1)
        if len(hosts) != len(self.chip.parts.hosts):
            raise HwError(
                f"{len(hosts)} hosts for a chip with {len(self.chip.parts.hosts)} host ports"
            )
        if self._job is not None:
            self._simulator.reset()
        job = self._job = _Job(self.chip, hosts, frames, firsts or {}, before, patience)
        self._simulator.run()
        return job.found()

    async def _bench(self, ctx: Any) -> None:
        assert self._job is not None
        await self._job.run(ctx)


class _Host:
    """The state of a host, as in the simulator of chips."""

    def __init__(self, chip: MixedChip, side: HostSide, frames: int) -> None:
        self.chip, self.side, self.frames = chip, side, frames
        self.layout = chip.layout
        self.offered: FlitFields | None = None
        self.credits: dict[tuple[Place, int], int] = {}
        self.requests: deque[tuple[int, deque[FlitFields], int]] = deque()
        self.free = 0
        self.inputs = self._inputs()

    def _inputs(self) -> deque[tuple[FlitFields, tuple[Place, int] | None]]:
        """Return all input flits of all frames, with the credit that they consume."""
        side, parts = self.side, self.layout.parts[Loaded.FM]
        mask = (1 << self.layout.payload) - 1
        found: deque[tuple[FlitFields, tuple[Place, int] | None]] = deque()
        if side.inputs and (side.data is None or side.data.shape[:2] != (
            self.frames, len(side.inputs)
        )):  # fmt: skip
            raise HwError(f"host: give data of {self.frames} frames of {len(side.inputs)} vectors")
        for frame in range(self.frames):
            seen = set()
            for number, (core, stream, vector, odd, slots) in enumerate(side.inputs):
                assert side.data is not None
                word = int.from_bytes(side.data[frame, number].tobytes(), "little")
                at = (vector + odd * (frame & 1)) * parts
                for part in range(parts):
                    data = word >> self.layout.payload * part & mask
                    pair = None if (core, stream) in seen else (core, stream)
                    seen.add((core, stream))
                    found.append((FlitFields(*core, Kind.MAP, stream, at + part, data), pair))
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
        if self.inputs:
            flit, pair = self.inputs[0]
            if pair is not None:
                if not self.credits[pair]:
                    return
                self.credits[pair] -= 1
            self.inputs.popleft()
            self.offered = flit

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
        return self.offered is None and not self.requests and not self.inputs


class _Job:
    """One run."""

    def __init__(
        self, chip: MixedChip, hosts: Sequence[HostSide], frames: int,
        firsts: Mapping[Place, int],
        before: Sequence[FlitFields], patience: int,
    ) -> None:  # fmt: skip
        self.chip, self.frames, self.firsts, self.patience = chip, frames, firsts, patience
        self.before = deque(before)
        self.hosts = [_Host(chip, side, frames) for side in hosts]
        self.deliveries: list[Delivered] = []
        self.started: dict[Place, list[list[int]]] = {p: [[] for _ in UNITS] for p in chip.npus}
        self.ended: dict[Place, list[list[int]]] = {p: [[] for _ in UNITS] for p in chip.npus}
        self.idle: dict[Place, list[int]] = {place: [] for place in chip.npus}
        self.loaded = self.flying = 0
        self.memories: dict[Place, dict[str, list[int]]] = {}

    async def run(self, ctx: Any) -> None:
        chip: Any = self.chip
        mesh, npus = self.chip.mesh, list(self.chip.npus.values())
        leaves = Cat(port.valid & port.ready for port in mesh.local_out)
        seen = Cat(
            leaves, Cat(port.valid & port.ready for port in mesh.local_in),
            Cat(port.valid for port in mesh.local_in), Cat(host.i.ready for host in chip.hosts),
            chip.active, Cat(npu.busy for npu in npus),
            Cat(Cat(npu.started, npu.ended) for npu in npus),
        )  # fmt: skip
        widths = [mesh.nodes, mesh.nodes, mesh.nodes, len(self.hosts), len(npus), len(npus),
                  8 * len(npus)]  # fmt: skip
        for host in chip.hosts:
            ctx.set(host.o.ready, 1)
        cycle: int | None = None if self.before else -STARTING
        busy_before = still = clock = 0
        while True:
            if cycle == -STARTING:
                ctx.set(chip.begin.valid, self.frames > 0)
                ctx.set(chip.begin.payload, self.frames)
                for number, place in enumerate(self.chip.npus):
                    ctx.set(chip.firsts[number], self.firsts.get(place, 0))
                self.loaded = clock
            elif cycle is not None and cycle == 1 - STARTING:
                ctx.set(chip.begin.valid, 0)
            self._offer(ctx, cycle)
            word = ctx.get(seen)
            parts = []
            for width in widths:
                parts.append(word & ((1 << width) - 1))
                word >>= width
            left, entered, wants, ready, active, busy, events = parts
            for number, host in enumerate(self.hosts):
                if ready >> number & 1:
                    host.offered = None
            at = -1 if cycle is None else cycle
            for node in range(mesh.nodes):
                if left >> node & 1:
                    self._deliver(ctx.get(mesh.local_out[node].payload), node, at)
            self.flying += entered.bit_count() - left.bit_count()
            for number, place in enumerate(self.chip.npus):
                each = events >> 8 * number
                for unit in range(len(UNITS)):
                    if each >> unit & 1:
                        self.started[place][unit].append(at)
                    if each >> 4 + unit & 1:
                        self.ended[place][unit].append(at + 1)
                if (busy_before & ~busy) >> number & 1:
                    self.idle[place].append(at)
            busy_before = busy
            still = 0 if left or entered or events else still + 1
            quiet = not (wants or self.flying or active or self.before) and all(
                host.idle for host in self.hosts
            )
            if cycle is None:
                if not (wants or self.flying or self.before or self.hosts[0].offered):
                    cycle = -STARTING - 1
            elif quiet and cycle >= 0:
                break
            if still > self.patience:
                raise HwError(self._stuck(at, active))
            await ctx.tick()
            clock += 1
            cycle = None if cycle is None else cycle + 1
        for place, npu in self.chip.npus.items():
            self.memories[place] = {
                name: [ctx.get(memory[at]) for at in range(memory.depth)]
                for name, memory in npu.memories.by_name().items()
            }

    def _offer(self, ctx: Any, cycle: int | None) -> None:
        chip: Any = self.chip
        for number, host in enumerate(self.hosts):
            if cycle is not None and cycle >= 0:
                host.choose(cycle)
            elif number == 0 and host.offered is None and self.before:
                host.offered = self.before.popleft()
            port = chip.hosts[number].i
            ctx.set(port.valid, host.offered is not None)
            if host.offered is not None:
                ctx.set(port.payload, host.offered._asdict())

    def _deliver(self, found: Any, node: int, cycle: int) -> None:
        flit = FlitFields(*(int(found[name]) for name in FlitFields._fields))
        if cycle >= 0:
            self.deliveries.append(Delivered(cycle, node, flit))
        if flit.kind == Kind.REQUEST:
            y, x = divmod(node, self.chip.mesh.width)
            self.hosts[list(self.chip.parts.hosts).index((x, y))].take(flit, cycle)

    def _stuck(self, cycle: int, active: int) -> str:
        names = [str(p) for number, p in enumerate(self.chip.npus) if active >> number & 1]
        what = f"cores {', '.join(names)} have frames left" if names else "hosts have input left"
        return f"chip: nothing has moved for {self.patience} cycles, up to cycle {cycle}; {what}"

    def found(self) -> NpuRun:
        parts = self.chip.layout.parts[Loaded.FM]
        columns, payload = self.chip.shape.columns, self.chip.layout.payload
        size = min(payload // 8, columns)
        writes: dict[int, int] = {}
        results: list[dict[int, NDArray[np.int8]]] = [{} for _ in range(self.frames)]
        completed = [-1] * self.frames
        for cycle, _, flit in self.deliveries:
            if flit.kind != Kind.TO_HOST:
                continue
            frame = writes.get(flit.address, 0)
            writes[flit.address] = frame + 1
            if frame >= self.frames:
                continue
            vector, part = divmod(flit.address, parts)
            whole = results[frame].setdefault(vector, np.zeros(columns, np.int8))
            data = (flit.data & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            whole[size * part : size * (part + 1)] = np.frombuffer(data, np.int8)
            completed[frame] = max(completed[frame], cycle + 1)
        if not any(results):
            completed = [max(each[frame] for each in self.idle.values()) for frame in
                         range(self.frames)]  # fmt: skip
        return NpuRun(
            results, completed, self.deliveries, self.started, self.ended, self.idle, self.loaded,
            self.memories,
        )  # fmt: skip
