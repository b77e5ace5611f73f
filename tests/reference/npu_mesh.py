"""Reference implementation of NPU cores on a mesh: queues, units, flits, hosts, cycle by cycle.

It uses the cycles of instructions without stalls from `chipsim.npu`, which other tests compare with
the hardware. The mesh is `tests.reference.noc`. In every cycle hosts choose the flits they offer,
nodes choose the flits that enter the mesh, the mesh moves, and then cores and hosts work with their
previous state, with the accepted flits and with the arrivals. The rules are in docs/npu.md, "On the
mesh".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from chipsim.chip.npu_shape import NpuShape
from tests.reference.noc import LOCAL
from tests.reference.noc import Twin as MeshTwin
from tests.reference.npu_jobs import (
    HOST,
    MAP,
    REQUEST,
    SENDING,
    STORING,
    STREAMING,
    TO_HOST,
    TOKEN,
    UNITS,
    WEIGHTS,
    AskWeights,
    Flit,
    Job,
    Products,
    Send,
    Step,
    Store,
    Timed,
    Wait,
)

SOURCES = 7


class Arrived(NamedTuple):
    cycle: int
    flit: Flit


class Input(NamedTuple):
    """A flit of a frame's input.

    address : address of a part
    odd : address offset in odd frames
    slots : frames of this input that the core buffers
    stage : work of the host that it waits for, 0 for none
    waits : credits that it consumes; None for one per frame, stream and core
    """

    core: tuple[int, int]
    stream: int
    address: int
    odd: int
    slots: int
    stage: int = 0
    waits: int | None = None


class Arbiter:
    """Round robin over sources; keeps its choice until it is accepted."""

    def __init__(self) -> None:
        self.turn, self.held = 0, -1

    def choose(self, offers: Sequence[Flit | None], ready: bool) -> int:
        """Return the source whose flit is accepted in this cycle, or -1."""
        chosen = self.held
        if chosen < 0:
            for step in range(SOURCES):
                if offers[(self.turn + step) % SOURCES] is not None:
                    chosen = (self.turn + step) % SOURCES
                    break
        if chosen >= 0 and ready:
            self.turn, self.held = (chosen + 1) % SOURCES, -1
            return chosen
        self.held = chosen
        return -1


class Core:
    """A core.

    steps : instructions of the program up to END
    streams : initial stream counts
    """

    def __init__(
        self, place: tuple[int, int], shape: NpuShape, steps: Sequence[Step],
        words: Sequence[int], streams: Sequence[int], port: tuple[int, int], frames: int,
    ) -> None:  # fmt: skip
        self.place, self.shape, self.program = place, shape, steps
        self.words, self.port, self.frames = list(words), port, frames
        self.parts = -(-8 * shape.columns // shape.payload_bits)
        self.streams, self.taken = list(streams), Counter[int]()
        self.registers: list[Flit | None] = [None] * 5
        self.new: dict[int, Flit] = {}
        self.base = self.pointer = self.filled = 0
        self.pointer_set: int | None = None
        self.queues: list[deque[int]] = [deque() for _ in UNITS]
        self.jobs: list[Job | None] = [None] * len(UNITS)
        self.tokens: Counter[tuple[int, int]] = Counter()
        self.at, self.frame, self.first = 0, 0, 0  # first : cycle in which the frame is fetched
        self.banks: set[int] = set()
        self.path = 0  # cycle from which the path to external memory is free
        self.start: list[list[int]] = []
        self.end: list[list[int]] = []
        self.store_base = self._bases()
        self._begin_frame(0)

    def _bases(self) -> list[int]:
        """Return the store base at each instruction, of the second frame as of all later ones."""
        base, found = 0, []
        for _ in range(2):
            found = []
            for step in self.program:
                found.append(base)
                if step.kind == "BASE" and step["space"] == 1:
                    base = step["value"]
        return found

    def _begin_frame(self, first: int) -> None:
        self.at, self.first = 0, first
        self.start.append([-1] * len(self.program))
        self.end.append([-1] * len(self.program))

    def unit_of(self, at: int) -> int:
        step = self.program[at]
        if step.op == "CTRL":
            return step["queue"]
        return UNITS.index({"RQ": "ALU"}.get(step.op, step.op))

    @property
    def done(self) -> bool:
        return self.frame >= self.frames

    def offer(self, source: int, now: int) -> Flit | None:
        if source == STORING:
            job = self.jobs[3]
            return job.offers(now) if job else None
        return self.registers[source - SENDING]

    def accept(self, source: int) -> None:
        if source == STORING:
            job = self.jobs[3]
            assert isinstance(job, Store)
            job.left.popleft()
        else:
            self.registers[source - SENDING] = None

    def job_of(self, at: int, now: int) -> Job:
        step = self.program[at]
        kinds: dict[tuple[str, str], type[Job]] = {
            ("CTRL", "WAIT"): Wait, ("CTRL", "SEND"): Send, ("LOAD", "WSTREAM"): AskWeights,
        }  # fmt: skip
        ops: dict[str, type[Job]] = {"GEMM": Products, "STORE": Store}
        return kinds.get((step.op, step.kind), ops.get(step.op, Timed))(self, at, now)

    def cycle(self, now: int, arrived: Sequence[Flit]) -> None:
        """Run a cycle after accepted flits were removed; arrived : flits of this cycle"""
        if self.done:
            return
        if self.shape.map_vectors:
            self.banks = {flit.value // self.parts // 2 % 4 for flit in arrived if flit.kind == MAP}
        fetching = self.at < len(self.program) and now >= self.first
        works = fetching or any(self.queues) or any(self.jobs)
        if not works and now >= self.first:
            self.frame += 1
            if self.program[-1]["drain"]:
                self.tokens.clear()
            if not self.done:
                self._begin_frame(now + self.shape.latency.restart)
            self._receive(arrived, now)
            return
        levels = [len(queue) for queue in self.queues]
        given: Counter[tuple[int, int]] = Counter()
        base = self.base
        started = []
        for unit, queue in enumerate(self.queues):
            if self.jobs[unit] is None and queue:
                step = self.program[queue[0]]
                asked = [(other, unit) for other in range(4) if step.wait >> other & 1]
                if all(self.tokens[pair] for pair in asked):
                    started.append((unit, asked))
        for unit, asked in started:
            at = self.queues[unit].popleft()
            self.tokens.subtract(asked)
            self.jobs[unit] = self.job_of(at, now)
            self.start[-1][at] = now
            step = self.program[at]
            if step.kind == "BASE" and step["space"] == 2:
                base = step["value"]
        for unit, job in enumerate(self.jobs):
            if job is not None and job.work(now):
                self.jobs[unit] = None
                self.end[-1][job.at] = now + 1
                given.update((unit, o) for o in range(4) if job.step.signal >> o & 1)
        if fetching and levels[self.unit_of(self.at)] < self.shape.queue_places:
            self.queues[self.unit_of(self.at)].append(self.at)
            self.at += 1
        self.tokens.update(given)
        self.base = base
        for stream, count in self.taken.items():
            self.streams[stream] -= count
        self.taken.clear()
        for register, flit in self.new.items():
            self.registers[register] = flit
        self.new.clear()
        self._receive(arrived, now)

    def _receive(self, arrived: Sequence[Flit], now: int) -> None:
        if self.pointer_set is not None:
            self.pointer, self.filled, self.pointer_set = self.pointer_set, 0, None
        for flit in arrived:
            if flit.kind == MAP and flit.value % self.parts == self.parts - 1:
                self.streams[flit.stream] += 1
                if not self.shape.map_vectors:
                    bits = 8 * self.shape.columns
                    self.path = max(self.path, now + 1) - (-bits // self.shape.load_bits)
            elif flit.kind == TOKEN:
                self.streams[flit.stream] += flit.value
            elif flit.kind == WEIGHTS:
                self.filled += 1
                if self.filled == self.shape.rows * self.parts:
                    self.filled, self.pointer = 0, self.pointer + 1


class Processor:
    """Work of the host between the stages of a frame, one at a time; stages take turns.

    cycles : work of each stage; wanted : flits of a frame's results of each stage
    stage_of : stage of the result at an address, in flits
    """

    def __init__(
        self, cycles: Sequence[int], wanted: Sequence[int], stage_of: dict[int, int]
    ) -> None:
        self.cycles, self.wanted, self.stage_of = cycles, wanted, stage_of
        self.arrived: Counter[tuple[int, int]] = Counter()  # by stage and frame
        self.queued: list[tuple[int, int]] = []  # frame and stage of the works that may start
        self.known: set[tuple[int, int]] = set()
        self.works: tuple[int, int] | None = None
        self.last = 0  # stage of the last work
        self.left = 0
        self.finished: set[tuple[int, int]] = set()

    def result(self, address: int, frame: int) -> None:
        self.arrived[self.stage_of.get(address, 0), frame] += 1

    def cycle(self, frames: int) -> None:
        """Run the cycle after results have arrived; the work of a cycle ends with it."""
        if self.works is not None:
            self.left -= 1
        self._finish()
        ready = [
            (frame, stage)
            for frame in range(frames)
            for stage in range(1, len(self.cycles))
            if (frame, stage) not in self.known
            and all(self.arrived[low, frame] == self.wanted[low] for low in range(stage))
        ]
        self.queued += ready
        self.known |= set(ready)
        while self.works is None and self.queued:
            stages = [*range(self.last + 1, len(self.cycles)), *range(1, self.last + 1)]
            self.works = min(self.queued, key=lambda one: (stages.index(one[1]), one[0]))
            self.queued.remove(self.works)
            self.last = self.works[1]
            self.left = self.cycles[self.works[1]]
            self._finish()

    def _finish(self) -> None:
        if self.works is not None and self.left == 0:
            self.finished.add(self.works)
            self.works = None

    def may_send(self, stage: int, frame: int) -> bool:
        return stage == 0 or (frame, stage) in self.finished


class Host:
    """A host port: answers to requests, and the inputs of each stage in the order of frames."""

    def __init__(
        self, place: tuple[int, int], shape: NpuShape, inputs: Sequence[Input],
        link: tuple[int, Fraction], frames: int, processor: Processor,
    ) -> None:  # fmt: skip
        self.place, self.frames, self.processor = place, frames, processor
        self.inputs: dict[int, list[Input]] = {}
        for one in inputs:
            self.inputs.setdefault(one.stage, []).append(one)
        self.frame, self.at = Counter[int](), Counter[int]()
        self.latency, self.rate = link
        self.flits = shape.rows * -(-8 * shape.columns // shape.payload_bits)  # flits per word
        self.credits = Counter({(one.core, one.stream): one.slots for one in inputs})
        self.answers: deque[tuple[int, Flit]] = deque()  # (first cycle, flit)
        self.free = 0
        self.offered: Flit | None = None

    def choose(self, now: int) -> None:
        if self.offered is not None:
            return
        if self.answers and self.answers[0][0] <= now:
            self.offered = self.answers.popleft()[1]
            return
        for stage in sorted(self.inputs, reverse=True):
            if not self._may_send(stage) or not self.processor.may_send(stage, self.frame[stage]):
                continue
            one = self.inputs[stage][self.at[stage]]
            self.credits[one.core, one.stream] -= self._needs(stage)
            address = one.address + one.odd * (self.frame[stage] % 2)
            self.offered = Flit(self.place, one.core, MAP, one.stream, address)
            self.at[stage] += 1
            if self.at[stage] == len(self.inputs[stage]):
                self.frame[stage], self.at[stage] = self.frame[stage] + 1, 0
            return

    def may(self) -> bool:
        """Return whether it has a flit, now or after work that has its results."""
        if self.offered is not None or self.answers:
            return True
        return any(
            self._may_send(stage)
            and (stage == 0 or (self.frame[stage], stage) in self.processor.known)
            for stage in self.inputs
        )

    def _may_send(self, stage: int) -> bool:
        """Return whether the next flit of a stage exists and has its credit."""
        if self.frame[stage] == self.frames:
            return False
        one = self.inputs[stage][self.at[stage]]
        return self.credits[one.core, one.stream] >= self._needs(stage)

    def _needs(self, stage: int) -> int:
        """Return the credits that the next input flit consumes."""
        inputs, at = self.inputs[stage], self.at[stage]
        if inputs[at].waits is not None:
            return inputs[at].waits
        return int(all(one[:2] != inputs[at][:2] for one in inputs[:at]))

    def take(self, now: int, flit: Flit, asks: bool) -> None:
        """Receive a flit; asks : True for a weight request, False for a credit"""
        if not asks:
            self.credits[flit.source, flit.stream] += flit.value
            return
        count = flit.value * self.flits
        begin = max(now + self.latency, self.free)
        for number in range(count):
            self.answers.append(
                (begin + -(-number // self.rate), Flit(self.place, flit.source, WEIGHTS, 0, 0))
            )
        self.free = begin + -(-count // self.rate)


class Twin:
    """A chip.

    cores, hosts : by place
    processor : work of the host; results : flits of a frame that go to the host
    delivered : every flit, in the order of cycles and nodes
    completed : cycle of completion of each frame
    """

    def __init__(
        self, size: tuple[int, int, int], cores: Sequence[Core], hosts: Sequence[Host],
        processor: Processor, frames: int,
    ) -> None:  # fmt: skip
        width, height, depth = size
        self.mesh = MeshTwin(width, height, depth, [])
        self.cores = {core.place: core for core in cores}
        self.hosts = {host.place: host for host in hosts}
        self.arbiters = {at: Arbiter() for at in self.mesh.routers}
        self.flits: list[Flit] = []
        self.asks: dict[int, bool] = {}
        self.delivered: list[Arrived] = []
        self.processor, self.frames = processor, frames
        self.results = sum(processor.wanted)
        self.written: Counter[int] = Counter()
        self.came: Counter[int] = Counter()
        self.completed = [-1] * frames

    def cycle(self, now: int) -> None:
        width = self.mesh.width
        for host in self.hosts.values():
            host.choose(now)
        for place, arbiter in self.arbiters.items():
            core, host_here = self.cores.get(place), self.hosts.get(place)
            offers = [core.offer(source, now) if core else None for source in range(HOST)]
            offers.append(host_here.offered if host_here else None)
            ready = len(self.mesh.routers[place].fifo[LOCAL]) < self.mesh.depth
            source = arbiter.choose(offers, ready)
            if source < 0:
                continue
            flit = offers[source]
            assert flit is not None
            if source == HOST:
                assert host_here is not None
                host_here.offered = None
            else:
                assert core is not None
                core.accept(source)
            self.asks[len(self.flits)] = source == STREAMING
            source_node, target_node = (y * width + x for x, y in (place, flit.target))
            self.mesh.waiting[source_node].append(len(self.flits))
            self.mesh.packets.append((now, source_node, target_node))
            self.mesh.delivered.append(-1)
            self.mesh.taken.append(0)
            self.flits.append(flit)
        flying = [at for at, cycle in enumerate(self.mesh.delivered) if cycle < 0]
        self.mesh.step()
        here = sorted(
            (self.mesh.packets[at][2], at) for at in flying if self.mesh.delivered[at] == now
        )
        self.delivered += [Arrived(now, self.flits[at]) for _, at in here]
        for place, core in self.cores.items():
            core.cycle(now, [self.flits[at] for _, at in here if self._is(at, place, False)])
        for place, host in self.hosts.items():
            for _, at in here:
                if self._is(at, place, True):
                    self._take(now, host, at)
        self.processor.cycle(self.frames)

    def _is(self, at: int, place: tuple[int, int], to_host: bool) -> bool:
        flit = self.flits[at]
        return flit.target == place and (flit.kind in (TO_HOST, REQUEST)) == to_host

    def _take(self, now: int, host: Host, at: int) -> None:
        flit = self.flits[at]
        if flit.kind == REQUEST:
            host.take(now, flit, self.asks[at])
            return
        frame = self.written[flit.value]
        self.written[flit.value] += 1
        self.processor.result(flit.value, frame)
        self.came[frame] += 1
        if self.came[frame] == self.results:
            self.completed[frame] = now + 1

    def run(self, most: int) -> int:
        """Run to the end of all frames, for at most `most` cycles; return the number of cycles."""
        hosts = self.hosts.values()
        for now in range(most):
            done = all(core.done and not any(core.registers) for core in self.cores.values())
            if done and -1 not in self.mesh.delivered and not any(map(Host.may, hosts)):
                return now
            self.cycle(now)
        return most
