"""Contents of a core's small memories: micro-ops, parameters, weights, packet headers.

Programs with many layers reload some of them while they run (LOAD TABLE). Contents that do not fit
are stored after the feature maps and loaded just before the instruction that needs them, replacing
the oldest words. Nothing is kept from the previous frame.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.encoding import encode_micro_ops, encode_scales
from hw.npu.isa.table import ROUNDINGS, MicroOp
from hw.npu.shape import PARAMETER_LANES
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.memory.planner import blocks_of
from mapper.compiler.program.inputs import Span
from mapper.compiler.stages import stage
from mapper.errors import DoesNotFitError

PARAMETER_BYTES = 4 * PARAMETER_LANES


MICRO_OPS, PARAMETERS = "micro-op", "parameter"
"""Names of the memories that a program may reload while it runs."""


class TableFullError(DoesNotFitError):
    """A small memory is too small to hold the data of all layers at once. memory : its name"""

    def __init__(self, message: str, memory: str) -> None:
        super().__init__(message)
        self.memory = memory


class _Record(NamedTuple):
    """Words of a requantisation, and their bytes. how : kept so that no other one has its id"""

    how: Requantisation
    key: tuple[bytes, ...]
    words: list[NDArray[np.int64]]


class Tables:
    """Contents of small memories, loaded before the first frame or while the program runs. Equal
    lists of micro-ops or headers, and equal parameters, are stored once.

    reloaded : memories that are loaded while the program runs, by name
    used : words of these that the next instruction needs; bias : words that the layer needs
    """

    def __init__(self, shape: NpuShape, bounded: bool = True) -> None:
        """bounded : raise an error if a memory is too small"""
        self.shape, self.bounded = shape, bounded
        self.micro_ops: list[MicroOp] = []
        self.parameters: list[NDArray[np.int64]] = []
        self.weights: list[NDArray[np.int64]] = []
        self.headers: list[int] = []
        self.reloaded: dict[str, Reloaded] = {}
        self.used: dict[str, list[Span]] = {MICRO_OPS: [], PARAMETERS: []}
        self.bias: list[Span] = []
        self._known: dict[Any, int] = {}
        self._records: dict[tuple[int, ...], _Record] = {}

    def words(self, memory: str) -> int:
        """Return the used words of a small memory; the full size of a reloaded one."""
        micro_ops = memory == MICRO_OPS
        if memory in self.reloaded:
            return self.shape.micro_ops if micro_ops else self.shape.parameter_words
        return len(self.micro_ops) if micro_ops else len(self.parameters)

    def _require(self, used: int, have: int, memory: str, label: str) -> None:
        if used > have and self.bounded:
            raise TableFullError(
                f"{label}: {memory} memory: {used:,} words needed, a core has {have:,} "
                f"({used - have:,} short); use a larger core, or more cores",
                memory,
            )

    def add_micro_ops(self, ops: list[MicroOp], label: str) -> int:
        """Add a list of micro-ops and return the address of its first one."""
        key = tuple(ops)
        if MICRO_OPS in self.reloaded:
            return self._reload(MICRO_OPS, key, encode_micro_ops(ops), label).first
        if key not in self._known:
            self._known[key] = len(self.micro_ops)
            self.micro_ops += ops
            self._require(len(self.micro_ops), self.shape.micro_ops, MICRO_OPS, label)
        return self._known[key]

    def add_parameters(self, words: list[NDArray[np.int64]], label: str) -> int:
        """Add words of PARAMETER_LANES numbers each; return the address of the first one."""
        with stage("parameters"):
            return self._add_words(tuple(word.tobytes() for word in words), words, label)

    def _add_words(self, key: tuple[bytes, ...], words: list[NDArray[np.int64]], label: str) -> int:
        if PARAMETERS in self.reloaded:
            data = np.array(words).astype(np.int32).astype("<i4").tobytes()
            return self._reload(PARAMETERS, key, data, label).first
        if key not in self._known:
            self._known[key] = len(self.parameters)
            self.parameters += words
            self._require(len(self.parameters), self.shape.parameter_words, PARAMETERS, label)
        return self._known[key]

    def add_headers(self, headers: list[int], label: str) -> int:
        """Add a list of packet headers and return the address of its first one.

        Raises `DoesNotFitError`: headers cannot be reloaded while a program runs.
        """
        key = ("headers", *headers)
        if key not in self._known:
            self._known[key] = len(self.headers)
            self.headers += headers
            used, have = len(self.headers), self.shape.headers
            if used > have and self.bounded:
                raise DoesNotFitError(
                    f"{label}: header memory: {used:,} headers needed, a core has {have:,} "
                    f"({used - have:,} short); let the host run im2col with --few-channels host, "
                    "or use a larger core"
                )
        return self._known[key]

    def _reload(self, memory: str, key: Any, data: bytes, label: str) -> Span:
        """Return words that the next instruction needs; bias words are held for the layer."""
        held = self.used[memory] + (self.bias if memory == PARAMETERS else [])
        found = self.reloaded[memory].use(key, data, held, label)
        self.used[memory].append(found)
        return found

    def add_words(self, words: NDArray[np.int64], label: str) -> int:
        """Add weight words, shape (words, rows, columns); return the address of the first one."""
        first = len(self.weights)
        self.weights += list(words)
        self._require(len(self.weights), self.shape.weight_words, "weight", label)
        return first

    def add_bias(self, bias: NDArray[np.int64], label: str) -> int:
        words = lanes_of(bias, self.shape.rows)
        self.bias = []  # the previous layer's bias may be overwritten
        first = self.add_parameters([word for block in words for word in block], label)
        self.bias = self.used[PARAMETERS][-1:]
        return first

    def add_table(self, entries: NDArray[np.int64], label: str) -> int:
        """Add the table of a `Lookup`; return the address of its first word.

        A table in memory begins with the entry of 0, as its index is the low byte of a number.
        """
        wide = np.int16 if self.shape.multiplier == "dual" else np.int8
        data = (
            np.roll(entries, len(entries) // 2)
            .astype(wide)
            .astype(np.dtype(wide).newbyteorder("<"))
        )
        words = np.frombuffer(data.tobytes(), "<i4").reshape(-1, PARAMETER_LANES)
        return self.add_parameters(list(words.astype(np.int64)), label)

    def add_record(
        self, how: Requantisation, channels: int, first: int, stop: int, label: str
    ) -> int:
        """Add the record of a requantisation for a range of output blocks; return its address.

        Tiles of a layer share its records: these are looked up by the identity of `how`.
        """
        place = id(how), channels, first, stop
        found = self._records.get(place)
        if found is None:
            words = self._record(how, channels, first, stop)
            found = _Record(how, tuple(word.tobytes() for word in words), words)
            self._records[place] = found
        with stage("parameters"):
            return self._add_words(found.key, found.words, label)

    def _record(
        self, how: Requantisation, channels: int, first: int, stop: int
    ) -> list[NDArray[np.int64]]:
        offset = np.broadcast_to(np.asarray(how.offset, np.int64), (channels,))
        flags = int(bool(offset.any())) | 2 * (how.negative is not None)
        head = np.zeros(PARAMETER_LANES, np.int64)
        rounding = ROUNDINGS.index(how.rounding)
        head[:6] = how.zero_point, how.low, how.high, how.shift, rounding, flags
        rows = self.shape.rows
        groups = [scale_words(how.factor, channels, rows)]
        if flags & 1:
            groups.append(lanes_of(offset, rows))
        if how.negative is not None:
            groups.append(scale_words(how.negative, channels, rows))
        words = [head]
        for block in range(first, stop):
            words += [word for group in groups for word in group[block]]
        return words


def lanes_of(values: NDArray[np.int64], rows: int) -> list[list[NDArray[np.int64]]]:
    """Return per-channel numbers as parameter words of each output block, one lane per row.

    Lanes without a channel are 0.
    """
    blocks, words = blocks_of(values.size, rows), blocks_of(rows, PARAMETER_LANES)
    whole = np.zeros(blocks * rows, np.int64)
    whole[: values.size] = values
    wide = np.zeros((blocks, words * PARAMETER_LANES), np.int64)
    wide[:, :rows] = whole.reshape(blocks, rows)
    return [list(block) for block in wide.reshape(blocks, words, PARAMETER_LANES)]


def scale_words(factor: Multiplier, channels: int, rows: int) -> list[list[NDArray[np.int64]]]:
    """Return multipliers and shifts as words: m0 above 6 bits of n."""
    scales = encode_scales(factor.m0, factor.n).astype(np.int64)
    return lanes_of(np.broadcast_to(scales, (channels,)), rows)


LARGE = 8
"""Words larger than this fraction of a memory (1 / LARGE) start at 0 to avoid gaps."""
Load = Callable[[str, int, int, int], None]
"""Adds a load: memory name, first word there, first source vector, number of vectors."""


def replaced(lying: dict[Hashable, Span], key: Hashable, place: Span) -> dict[Hashable, Span]:
    """Return the words in a memory after others are loaded: all that these do not overwrite."""
    return {name: one for name, one in lying.items() if one.meet(place).size <= 0} | {key: place}


class ReloadArea:
    """Data stored after the feature maps, starting at a vector; padded to whole vectors."""

    def __init__(self, first: int, columns: int) -> None:
        self.first, self.columns = first, columns
        self.data = bytearray()
        self._known: dict[Hashable, Span] = {}

    @property
    def stop(self) -> int:
        return self.first + len(self.data) // self.columns

    def add(self, key: Hashable, data: bytes) -> Span:
        """Store bytes, without duplicates, and return their vectors."""
        if key not in self._known:
            vectors = -(-len(data) // self.columns)
            self._known[key] = Span(self.stop, self.stop + vectors)
            self.data += data.ljust(vectors * self.columns, b"\0")
        return self._known[key]


class Reloaded:
    """A small memory that is reloaded while the program runs.

    name, most : its name and number of words; word : bytes per word
    """

    def __init__(self, name: str, most: int, word: int, area: ReloadArea, load: Load) -> None:
        self.name, self.most, self._word = name, most, word
        self._area, self._load = area, load
        self._lying: dict[Hashable, Span] = {}
        self._next = 0

    def use(self, key: Hashable, data: bytes, held: Iterable[Span], label: str) -> Span:
        """Return the address of words; load them unless they are in memory.

        held : words that must not be overwritten
        Raises `DoesNotFitError` that names the layer.
        """
        if key in self._lying:
            return self._lying[key]
        source = self._area.add((self.name, key), data)
        size = -(-source.size * self._area.columns // self._word)
        place = Span(0, size).moved(self._room(size, list(held), label))
        self._lying = replaced(self._lying, key, place)
        self._next = place.stop
        self._load(self.name, place.first, source.first, source.size)
        return place

    def _room(self, size: int, held: list[Span], label: str) -> int:
        """Return a free address after the most recent words, wrapping around, that does not overlap
        `held`. Large words at the start of a layer begin at 0 to keep the rest contiguous."""
        at, wrapped = self._next if held or size <= self.most // LARGE else 0, False
        while True:
            if at + size > self.most:
                if wrapped:
                    need = size + sum(one.size for one in held)
                    raise DoesNotFitError(
                        f"{label}: {self.name} memory: {need:,} words needed at once, a core has "
                        f"{self.most:,} ({max(1, need - self.most):,} short); use a larger core"
                    )
                at, wrapped = 0, True
                continue
            over = [one for one in held if one.meet(Span(at, at + size)).size > 0]
            if not over:
                return at
            at = max(one.stop for one in over)
