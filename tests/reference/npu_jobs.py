"""Reference implementation of NPU instructions that others can delay, cycle by cycle.

Each class has the behaviour of one instruction; queues, registers and banks belong to the core, in
`tests.reference.npu_mesh`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chipsim.npu.timing import cycles_of, matrix_cycles, moved_bits

if TYPE_CHECKING:
    from tests.reference.npu_mesh import Core

UNITS = ("LOAD", "GEMM", "ALU", "STORE")
MAP, WEIGHTS, TOKEN, TO_HOST, REQUEST = 1, 2, 3, 4, 5
STORING, SENDING, STREAMING, HOST = 0, 1, 5, 6  # sources of a node, SENDING is the first of four


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
    """value : address of a part, count of a token or credit, or number of requested words"""

    source: tuple[int, int]
    target: tuple[int, int]
    kind: int
    stream: int
    value: int


class Job:
    """A running instruction.

    `work` is called in every cycle from its start on, and returns whether it ends with that cycle.
    The rest is in `Core`.
    """

    def __init__(self, core: Core, at: int, now: int) -> None:
        self.core, self.at, self.begin = core, at, now
        self.step = core.program[at]
        self.late = 0  # cycles until the path to external memory is free, and has moved all bits

    def move(self, cycles: int) -> None:
        """Take the path to external memory. cycles : of the instruction, without the path"""
        core, f = self.core, Counter(self.step.fields)
        bits = moved_bits(self.step.op, self.step.kind, f, core.shape)
        if bits:
            first = max(self.begin, core.path)
            core.path = first - (-bits // core.shape.load_bits)
            self.late = max(first + cycles, core.path) - self.begin - cycles

    def work(self, now: int) -> bool:
        raise NotImplementedError

    def offers(self, now: int) -> Flit | None:
        return None


class Timed(Job):
    def __init__(self, core: Core, at: int, now: int) -> None:
        super().__init__(core, at, now)
        f, step = Counter(self.step.fields), self.step
        each = [matrix_cycles(f, core.shape)] * f["uops"] if step.op == "GEMM" else []
        self.cycles = cycles_of(step.op, step.kind, f, each, core.shape)
        self.move(self.cycles)

    def work(self, now: int) -> bool:
        return now + 1 - self.begin == self.cycles + self.late


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
            return False  # accepted ones have been removed
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
    """Stage 1 of the pipeline holds a call until its weight word has arrived."""

    def __init__(self, core: Core, at: int, now: int) -> None:
        super().__init__(core, at, now)
        self.words: list[int] = []  # words in stage 1, per cycle
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
        """Keep a word in stage 1 for its calls; with a row port, at least `rows` cycles."""
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
    """One vector, or one flit, per cycle."""

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
            - (step["wrap"] > 0 and x >= step["wrap"]) * step["y_stride"]
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
        if self.local:
            self.move(shape.latency.store + len(self.vectors))

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
        writes = self.local and now >= self.begin + self.core.shape.latency.store + self.late
        if writes and self.left[0] // 2 % 4 not in self.core.banks:
            self.left.popleft()
        return not self.left
