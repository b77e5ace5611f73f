"""Cycle-accurate run of a small chip of NPU cores, with its hosts, in Amaranth's simulator.

Cycle 0 is the cycle of the first fetch. Hosts accept one flit per cycle and offer one: answers to
weight requests when due, else the next flit of the input, in order; the first flit of a frame to a
core and stream consumes a credit. The input of the last stage that may be sent goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from amaranth.hdl import Cat
from amaranth.sim import Simulator
from numpy.typing import NDArray

from hw.errors import HwError, check_count
from hw.npu.chip import STARTING, MixedChip, Place
from hw.npu.flit import Kind, Loaded
from hw.npu.host import NO_WORK, HostProcessor, HostSide, HostState, StagedWork
from hw.npu.isa.table import UNITS
from hw.npu.loading import FlitFields

PATIENCE = 5_000
"""Maximum number of cycles in which nothing moves."""


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
        work: StagedWork = NO_WORK,
    ) -> NpuRun:
        """Run a number of frames on all cores; 0 if flits start them.

        hosts : host at each port of the chip
        firsts : first instruction of the frames of a core, if not 0
        before : flits that the first host sends before the cores start
        work : work of the host within a frame

        Raises `HwError` if nothing moves any more but work is left.
        """
        check_count("frames", frames, 0, (1 << 16) - 1)
        if len(hosts) != len(self.chip.parts.hosts):
            raise HwError(
                f"{len(hosts)} hosts for a chip with {len(self.chip.parts.hosts)} host ports"
            )
        if self._job is not None:
            self._simulator.reset()
        job = self._job = _Job(self.chip, hosts, frames, firsts or {}, before, patience, work)
        self._simulator.run()
        return job.found()

    async def _bench(self, ctx: Any) -> None:
        assert self._job is not None
        await self._job.run(ctx)


class _Job:
    """One run."""

    def __init__(
        self, chip: MixedChip, hosts: Sequence[HostSide], frames: int,
        firsts: Mapping[Place, int],
        before: Sequence[FlitFields], patience: int, work: StagedWork,
    ) -> None:  # fmt: skip
        self.chip, self.frames, self.firsts, self.patience = chip, frames, firsts, patience
        self.before = deque(before)
        self.processor = HostProcessor(work, chip.layout.parts[Loaded.FM])
        self.hosts = [HostState(chip, side, frames, self.processor) for side in hosts]
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
        if cycle is not None:
            self.processor.begin(cycle)
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
        if flit.kind == Kind.TO_HOST:
            self.processor.receive(flit.address)
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
