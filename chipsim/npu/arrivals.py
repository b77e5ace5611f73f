"""Arrival of weight words from the host, and the resulting stalls of products.

A request (WSTREAM) ends once it is sent; its words arrive in order. A product of an instruction
with `dyn` stalls until its word has arrived, and the following products stall with it. The cycle
simulator and the compiler's timeline share this model.
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
"""Largest denominator of the fraction that represents flits per cycle."""
LOAD, GEMM = 0, 1  # queue numbers
MICRO_OP_BYTES, WORD_BIT, WORD_MASK = 8, 24, 0xFFF  # of micro-ops in maps
Fetch = Callable[[int, int], bytes]
"""Returns vectors of the feature maps before the first frame, by first address and count."""


class HostLink(NamedTuple):
    """Weight transfer to a core with its own feature memory.

    latency : cycles from a request to its first flit
    flits : flits per cycle
    """

    latency: int = LATENCY
    flits: float = FLITS

    @classmethod
    def of(cls, host: ChipHost | None) -> HostLink:
        """Return the link of a chip, with defaults if the chip has no host table."""
        return cls() if host is None else cls(host.latency, host.flits)


class Asked(NamedTuple):
    """Weight words requested by WSTREAM: address of the first, and count."""

    first: int
    words: int


class Taken(NamedTuple):
    """Weight words that products read.

    words : addresses, in the order of the products
    after : cycles from the first product to the one that reads each word, without stalls
    """

    words: NDArray[np.int64]
    after: NDArray[np.int64]


class Arriving(NamedTuple):
    """Weight words in transit.

    begin : cycle in which the first word leaves
    each : cycles per word
    """

    asked: Asked
    begin: int
    each: Fraction

    def wait(self, taken: Taken, start: int) -> int:
        """Return the stall in cycles of products that start in a given cycle.

        Raises `ChipError` if a product reads a word that never arrives.
        """
        place = taken.words - self.asked.first
        last = int(place.max(initial=-1))
        if last >= self.asked.words:
            raise ChipError(
                f"deadlock: a product waits for weight word {self.asked.first + last}; the last "
                f"request ends at word {self.asked.first + self.asked.words - 1}"
            )
        some = place >= 0  # words below were loaded earlier
        there = -(-(place[some] + 1) * self.each.numerator // self.each.denominator)
        late = self.begin + there - start - taken.after[some]
        return max(0, int(late.max(initial=0)))


class HostWords:
    """Channel for weight words from the host, shared by all cores: first come, first served."""

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
    """Weight words that instructions request and read, in program order.

    Micro-ops may be reloaded while the program runs, so instructions must be passed in order.
    """

    def __init__(self, shape: NpuShape, words: Sequence[int] | NDArray[np.int32], fetch: Fetch):
        """words : the weight word of each micro-op before the first frame"""
        self._shape, self._fetch = shape, fetch
        self._words = np.zeros(max(shape.micro_ops, len(words)), np.int64)
        self._words[: len(words)] = words
        self._base = self._apart = 0

    @property
    def state(self) -> tuple[int, int, bytes]:
        """All that the words of later instructions depend on."""
        return self._base, self._apart, self._words.tobytes()

    def follow(self, op: str, kind: str, f: Mapping[str, int]) -> Asked | Taken | None:
        """Return the words that the next instruction requests or reads."""
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
        """Return each word once per stay; of two words of a product, the later one."""
        first = self._words[f["uop"] : f["uop"] + f["uops"]]
        more = {"INT16": 1, "DUAL_KERNEL": self._apart}.get(kind, 0)
        whole = matrix_cycles(f, self._shape)
        if not f["n_out"] * f["n_in"]:
            first = first[:0]
        outer = f["n_out"] if f["wgt_out"] or f["wgt_in"] else 1
        inner = f["n_in"] if f["wgt_in"] else 1
        overhead = self._shape.loop_overhead
        row = (whole - overhead) // max(1, f["n_out"])  # cycles per iteration of the outer loop
        step = (row - overhead) // max(1, f["n_in"])
        o, i = np.arange(outer)[:, None], np.arange(inner)
        words = (more + o * f["wgt_out"] + i * f["wgt_in"]).ravel()
        after = (overhead + o * row + i * step).ravel()
        begins = np.arange(first.size) * whole
        return Taken((first[:, None] + words).ravel(), (begins[:, None] + after).ravel())
