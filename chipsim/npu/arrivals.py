"""Weight words that come from the host: when each is there, and how long products wait for them.

A request (WSTREAM) ends as soon as it is out, and its words arrive in order. A product of an
instruction with `dyn` waits until its word has arrived; those behind it wait with it. The cycle
simulator and the compiler's timeline take both from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.host import FLITS, LATENCY, ChipHost
from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.npu.timing import matrix_cycles

FINEST = 1 << 16
"""Flits in a cycle are a fraction with a denominator of at most this."""
LOAD, GEMM = 0, 1  # numbers of queues
MICRO_OP_BYTES, WORD_BIT, WORD_MASK = 8, 24, 0xFFF  # of a micro-op in the maps, and its weight word
Fetch = Callable[[int, int], bytes]
"""Some vectors of the maps before the first frame, by the first address and their number."""


class HostLink(NamedTuple):
    """How weights come to a core with its own maps: cycles until the first flit of a request, and
    flits in a cycle."""

    latency: int = LATENCY
    flits: float = FLITS

    @classmethod
    def of(cls, host: ChipHost | None) -> HostLink:
        """That of a chip, which may say nothing of its host."""
        return cls() if host is None else cls(host.latency, host.flits)


class Asked(NamedTuple):
    """Words that WSTREAM asks for: the address of the first, and how many."""

    first: int
    words: int


class Taken(NamedTuple):
    """Words that products wait for.

    words : addresses, in the order of the products
    after : cycles from the first product until the one that takes each, if none waits
    """

    words: NDArray[np.int64]
    after: NDArray[np.int64]


class Arriving(NamedTuple):
    """Words on their way. begin : the cycle in which the first one leaves; each : cycles of one"""

    asked: Asked
    begin: int
    each: Fraction

    def wait(self, taken: Taken, start: int) -> int:
        """Cycles by which products end later that start in a cycle.

        Raises `ChipError` if one takes a word that does not come.
        """
        place = taken.words - self.asked.first
        last = int(place.max(initial=-1))
        if last >= self.asked.words:
            raise ChipError(
                f"deadlock: a product waits for weight word {self.asked.first + last}; of those "
                f"that were asked for last, {self.asked.first + self.asked.words - 1} is the last"
            )
        some = place >= 0  # words below were there before
        there = -(-(place[some] + 1) * self.each.numerator // self.each.denominator)
        late = self.begin + there - start - taken.after[some]
        return max(0, int(late.max(initial=0)))


class HostWords:
    """The way of the words from the host, which all cores share: first come, first served."""

    def __init__(self, shape: NpuShape, host: HostLink | None = None) -> None:
        host = host or HostLink()
        flits = -(-8 * shape.rows * shape.columns // shape.payload_bits)
        self._each = flits / Fraction(host.flits).limit_denominator(FINEST)
        self._latency, self._free = host.latency, 0

    def ask(self, asked: Asked, now: int) -> Arriving:
        found = Arriving(asked, max(now + self._latency, self._free), self._each)
        self._free = found.begin - int(-self._each * asked.words // 1)
        return found


class WordOrder:
    """Which weight words instructions ask for and take, one after the other as the program has
    them: micro-ops may be loaded again while it runs."""

    def __init__(self, shape: NpuShape, words: Sequence[int] | NDArray[np.int32], fetch: Fetch):
        """words : the weight word of each micro-op before the first frame"""
        self._shape, self._fetch = shape, fetch
        self._words = np.zeros(max(shape.micro_ops, len(words)), np.int64)
        self._words[: len(words)] = words
        self._base = self._apart = 0

    def follow(self, op: str, kind: str, f: Mapping[str, int]) -> Asked | Taken | None:
        """What the next instruction asks for or takes."""
        if op == "CTRL":
            if kind == "BASE" and (f["queue"], f["space"]) == (LOAD, 0):
                self._base = f["value"]
            if kind == "DIST" and f["queue"] == GEMM:
                self._apart = f["wgt"]
        if op == "LOAD" and kind == "WSTREAM":
            return Asked(f["dst"], f["words"])
        if op == "LOAD" and kind == "TABLE" and f["memory"] == 0:
            data = self._fetch(self._base + f["src"], f["vectors"])
            ops = np.frombuffer(data[: len(data) // MICRO_OP_BYTES * MICRO_OP_BYTES], "<u8")
            words = (ops >> np.uint64(WORD_BIT) & np.uint64(WORD_MASK)).astype(np.int64)
            room = self._words[f["dst"] : f["dst"] + words.size]
            room[:] = words[: room.size]
        if op == "GEMM" and f["dyn"]:
            return self._taken(kind, f)
        return None

    def _taken(self, kind: str, f: Mapping[str, int]) -> Taken:
        """Each word once for as long as it stays; of two words of a product the later one."""
        first = self._words[f["uop"] : f["uop"] + f["uops"]]
        more = {"INT16": 1, "DUAL_KERNEL": self._apart}.get(kind, 0)
        whole = matrix_cycles(f, self._shape)
        if not f["n_out"] * f["n_in"]:
            first = first[:0]
        outer = f["n_out"] if f["wgt_out"] or f["wgt_in"] else 1
        inner = f["n_in"] if f["wgt_in"] else 1
        overhead = self._shape.loop_overhead
        row = (whole - overhead) // max(1, f["n_out"])  # cycles from one row of a loop to the next
        step = (row - overhead) // max(1, f["n_in"])
        o, i = np.arange(outer)[:, None], np.arange(inner)
        words = (more + o * f["wgt_out"] + i * f["wgt_in"]).ravel()
        after = (overhead + o * row + i * step).ravel()
        begins = np.arange(first.size) * whole
        return Taken((first[:, None] + words).ravel(), (begins[:, None] + after).ravel())
