"""Plain-Python twin of NPU cores on a mesh: every queue, unit, flit and host, cycle by cycle.

Of `chipsim.npu` it takes the cycles of instructions that nothing delays, which are compared with
the hardware elsewhere. The mesh is the twin of `tests.twins.noc`. In every cycle hosts choose what
they offer, nodes choose what enters the mesh, the mesh moves, and then cores and hosts work with
what they had before, with what was accepted, and with what came. The rules are those of
docs/npu.md, "On the mesh".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.timing import cycles_of, matrix_cycles
from tests.twins.noc import LOCAL
from tests.twins.noc import Twin as MeshTwin

UNITS = ("LOAD", "GEMM", "ALU", "STORE")
MAP, WEIGHTS, TOKEN, TO_HOST, REQUEST = 1, 2, 3, 4, 5
STORING, SENDING, STREAMING, HOST = 0, 1, 5, 6  # sources of a node, SENDING one of four
SOURCES = 7


class Step(NamedTuple):
    """An instruction."""

    op: str
    kind: str
    wait: int
    signal: int
    fields: Mapping[str, int]

    def __getitem__(self, name: Any) -> Any:
        return self.fields.get(name, 0)


class Flit(NamedTuple):
    """value : address of a part, count of a token or credit, or words that are asked for"""

    source: tuple[int, int]
    target: tuple[int, int]
    kind: int
    stream: int
    value: int


class Arrived(NamedTuple):
    cycle: int
    flit: Flit


class Input(NamedTuple):
    """A flit of a frame's input. address : of a part; odd : what odd frames add to it; slots : of
    such frames, in the core"""

    core: tuple[int, int]
    stream: int
    address: int
    odd: int
    slots: int


class Arbiter:
    """Round robin over sources; keeps its choice until it is taken."""

    def __init__(self) -> None:
        self.turn, self.held = 0, -1

    def choose(self, offers: Sequence[Flit | None], ready: bool) -> int:
        """The source whose flit is taken in this cycle, or -1."""
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


class Job:
    """An instruction at work; `work` is called in every cycle from its start on, and says whether
    it ends with that cycle. Everything else is as `Core` has it."""

    def __init__(self, core: Core, at: int, now: int) -> None:
        self.core, self.at, self.begin = core, at, now
        self.step = core.program[at]

    def work(self, now: int) -> bool:
        raise NotImplementedError

    def offers(self, now: int) -> Flit | None:
        return None


class Timed(Job):
    def work(self, now: int) -> bool:
        shape = self.core.shape
        f = Counter(self.step.fields)
        each = [matrix_cycles(f, shape)] * f["uops"] if self.step.op == "GEMM" else []
        return now + 1 - self.begin == cycles_of(self.step.op, self.step.kind, f, each, shape)


class Wait(Job):
    def work(self, now: int) -> bool:
        stream, count = self.step["stream"], self.step["count"]
        if self.core.streams[stream] < count:
            return False
        self.core.taken[stream] += count
        return True


class Send(Job):
    def work(self, now: int) -> bool:
        step, register = self.step, self.core.unit_of(self.at)
        if self.core.registers[register] is not None:
            return False  # accepted ones are gone by now
        kind = REQUEST if step["host"] else TOKEN
        self.core.new[register] = Flit(
            self.core.place, (step["x"], step["y"]), kind, step["stream"], step["count"]
        )
        return True


class AskWeights(Job):
    sent = -1

    def work(self, now: int) -> bool:
        core, register = self.core, STREAMING - SENDING
        if now == self.begin:
            core.pointer_set = self.step["dst"]
        if self.sent < 0 and (core.registers[register] is None or not self.step["words"]):
            self.sent = now
            if self.step["words"]:
                core.new[register] = Flit(core.place, core.port, REQUEST, 0, self.step["words"])
        return self.sent >= 0 and now + 1 - self.sent == core.shape.latency.stream


class Products(Job):
    """Stage 1 of the pipeline holds a call until its weight word is there."""

    def __init__(self, core: Core, at: int, now: int) -> None:
        super().__init__(core, at, now)
        self.words: list[int] = []  # of stage 1, cycle by cycle
        f = Counter(self.step.fields)
        for micro_op in range(f["uop"], f["uop"] + f["uops"]):
            first = core.words[micro_op]
            word: list[int] = []
            slot: tuple[int, ...] = ()
            for outer in range(f["n_out"]):
                for inner in range(f["n_in"]):
                    in_slot: tuple[int, ...] = (outer,) if f["wgt_out"] else ()
                    if f["wgt_in"]:
                        in_slot = outer, inner
                    if in_slot != slot:
                        self._fill(word)
                        word, slot = [], in_slot
                    word.append(first + outer * f["wgt_out"] + inner * f["wgt_in"])
            self._fill(word)
        self.place, self.done = 0, -1

    def _fill(self, word: list[int]) -> None:
        """A word stays in stage 1 for its calls, by rows at least as long as it has rows."""
        least = self.core.shape.rows if self.core.shape.weight_port == "row" else 1
        if word:
            self.words += word + [word[-1]] * (least - len(word))

    def work(self, now: int) -> bool:
        core = self.core
        bound = max(core.base, core.pointer) if self.step["dyn"] else 1 << 16
        if now >= self.begin + 2 and self.words[self.place : self.place + 1] < [bound]:
            self.place = min(self.place + 1, len(self.words))
        if self.done < 0 and now >= self.begin + 1 and self.place == len(self.words):
            self.done = now
        return self.done >= 0 and now - self.done == core.shape.latency.matrix - 2


class Store(Job):
    """One vector a cycle, or one flit."""

    def __init__(self, core: Core, at: int, now: int) -> None:
        super().__init__(core, at, now)
        step, shape = self.step, core.shape
        base = core.store_base[at] + step["dst"]
        if step["pp"] and core.frame % 2:
            base += 1 << (step["pp"] + 2)
        times = 1 + step["up"]
        width = (8 if shape.multiplier == "dual" else 4) if "PARTIAL" in step.kind else 1
        self.vectors = [
            base + (y * times + dy) * step["y_stride"] + (x * times + dx) * step["x_stride"]
            + c * width + part
            for c in range(step["c_size"])
            for y in range(step["y_size"])
            for x in range(step["x_size"])
            for part in range(width)
            for dy in range(times)
            for dx in range(times)
        ]  # fmt: skip
        self.local = step.kind in ("LOCAL", "PARTIAL")
        parts = 1 if self.local else core.parts
        self.left = deque(v * parts + p for v in self.vectors for p in range(parts))

    def offers(self, now: int) -> Flit | None:
        if self.local or not self.left or now < self.begin + self.core.shape.latency.store:
            return None
        step = self.step
        kind = MAP if step.kind == "REMOTE" else TO_HOST
        target = (step["x"], step["y"])
        return Flit(self.core.place, target, kind, step["stream"], self.left[0])

    def work(self, now: int) -> bool:
        if not self.vectors:
            return now + 1 == self.begin + self.core.shape.latency.store
        writes = self.local and now >= self.begin + self.core.shape.latency.store
        if writes and self.left[0] // 2 % 4 not in self.core.banks:
            self.left.popleft()
        return not self.left


class Core:
    """steps : of the program up to END; streams : what they have counted at first."""

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
        self.start: list[list[int]] = []
        self.end: list[list[int]] = []
        self.store_base = self._bases()
        self._begin_frame(0)

    def _bases(self) -> list[int]:
        """The base of stores at each instruction: that of the second frame, as all but the first
        have it."""
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
        """After what was accepted is gone; `arrived` : in this cycle"""
        if self.done:
            return
        self.banks = {flit.value // self.parts // 2 % 4 for flit in arrived if flit.kind == MAP}
        fetching = self.at < len(self.program) and now >= self.first
        works = fetching or any(self.queues) or any(self.jobs)
        if not works and now >= self.first:
            self.frame += 1
            if self.program[-1]["drain"]:
                self.tokens.clear()
            if not self.done:
                self._begin_frame(now + self.shape.latency.restart)
            self._receive(arrived)
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
        self._receive(arrived)

    def _receive(self, arrived: Sequence[Flit]) -> None:
        if self.pointer_set is not None:
            self.pointer, self.filled, self.pointer_set = self.pointer_set, 0, None
        for flit in arrived:
            if flit.kind == MAP and flit.value % self.parts == self.parts - 1:
                self.streams[flit.stream] += 1
            elif flit.kind == TOKEN:
                self.streams[flit.stream] += flit.value
            elif flit.kind == WEIGHTS:
                self.filled += 1
                if self.filled == self.shape.rows * self.parts:
                    self.filled, self.pointer = 0, self.pointer + 1


class Host:
    """A host port: answers to requests, and the input of frames in order."""

    def __init__(
        self, place: tuple[int, int], shape: NpuShape, inputs: Sequence[Input],
        link: tuple[int, Fraction], frames: int,
    ) -> None:  # fmt: skip
        self.place, self.inputs, self.frames = place, inputs, frames
        self.latency, self.rate = link
        self.flits = shape.rows * -(-8 * shape.columns // shape.payload_bits)  # of a word
        self.credits = Counter({(one.core, one.stream): one.slots for one in inputs})
        self.answers: deque[tuple[int, Flit]] = deque()  # and from when on
        self.free = 0
        self.frame = self.at = 0
        self.offered: Flit | None = None

    def choose(self, now: int) -> None:
        if self.offered is not None:
            return
        if self.answers and self.answers[0][0] <= now:
            self.offered = self.answers.popleft()[1]
        elif self.inputs and self.frame < self.frames:
            one = self.inputs[self.at]
            pair = (one.core, one.stream)
            if self._is_first():
                if not self.credits[pair]:
                    return
                self.credits[pair] -= 1
            address = one.address + one.odd * (self.frame % 2)
            self.offered = Flit(self.place, one.core, MAP, one.stream, address)
            self.at += 1
            if self.at == len(self.inputs):
                self.frame, self.at = self.frame + 1, 0

    def may(self) -> bool:
        """Whether it has a flit, now or later."""
        if self.offered is not None or self.answers:
            return True
        if not self.inputs or self.frame == self.frames:
            return False
        one = self.inputs[self.at]
        return not self._is_first() or self.credits[one.core, one.stream] > 0

    def _is_first(self) -> bool:
        """Whether the next flit of the input is the first of its frame to a core and stream."""
        pair = self.inputs[self.at][:2]
        return all(one[:2] != pair for one in self.inputs[: self.at])

    def take(self, now: int, flit: Flit, asks: bool) -> None:
        """asks : it is a request for words; else a credit"""
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
    """A chip. cores, hosts : by place; results : flits of a frame that go to the host

    delivered : every flit, in the order of cycles and nodes
    completed : of each frame
    """

    def __init__(
        self, size: tuple[int, int, int], cores: Sequence[Core], hosts: Sequence[Host],
        results: int, frames: int,
    ) -> None:  # fmt: skip
        width, height, depth = size
        self.mesh = MeshTwin(width, height, depth, [])
        self.cores = {core.place: core for core in cores}
        self.hosts = {host.place: host for host in hosts}
        self.arbiters = {at: Arbiter() for at in self.mesh.routers}
        self.flits: list[Flit] = []
        self.asks: dict[int, bool] = {}
        self.delivered: list[Arrived] = []
        self.results, self.frames = results, frames
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
        self.came[frame] += 1
        if self.came[frame] == self.results:
            self.completed[frame] = now + 1

    def run(self, most: int) -> int:
        """To the end of all frames, in `most` cycles at most; returns how many it were."""
        hosts = self.hosts.values()
        for now in range(most):
            done = all(core.done and not any(core.registers) for core in self.cores.values())
            if done and -1 not in self.mesh.delivered and not any(map(Host.may, hosts)):
                return now
            self.cycle(now)
        return most
