"""Replays the addresses of an encoded program and proves that its tokens enforce a correct order.

Independent of the compiler: instructions and micro-ops are decoded from the program's bytes. In
program order every vector that is read was written in this frame or preset. Between units, an
instruction that reads or overwrites a place follows the instructions that wrote or read it: by
tokens (vector clocks), not by timing. Every address is inside its memory, and no unit waits for a
token that is never sent.

Leftovers of a tile must not be read by another one: when a load overwrites part of an earlier load,
the rest of the earlier data becomes invalid. The same applies to results, and to sums that became
results. Every result is stored, and every layer stores its complete feature maps and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa.table import UNITS
from mapper.compiler.artifacts.checks.areas import MapPlace
from mapper.compiler.artifacts.checks.touches import Cells, Instruction
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError


class Declared(NamedTuple):
    """stored : contents of the feature memory when layers end; empty if unknown
    maps : feature maps that loads may read; empty if unknown"""

    stored: Sequence[CompleteMap] = ()
    maps: Sequence[MapPlace] = ()


NOTHING_DECLARED = Declared()
NOTHING_COMES: Mapping[int, Cells] = MappingProxyType({})


def check_program(
    program: list[Instruction], image: Image, shape: NpuShape, presets: Sequence[Cells],
    where: str, declared: Declared = NOTHING_DECLARED, comes: Mapping[int, Cells] = NOTHING_COMES,
) -> None:  # fmt: skip
    """Check the instructions of a core.

    presets : vectors of feature maps that the host writes before each function of the program
    where : file name for errors
    declared : feature maps declared by the manifest
    comes : vectors that other cores or the host send while it runs, in order, by stream, shape
        (count, slots)
    Raises `CheckFailedError` with the instruction and the place.
    """
    memory = Replay(shape, image, where)
    memory.preset("FM", image.preset)
    memory.forget(program)
    layers = Layers(declared.stored, memory.known["FM"].size, where)
    drained, coming = True, iter(presets)
    taken = dict.fromkeys(comes, 0)
    for one in program:
        if drained:
            memory.preset("FM", next(coming, np.zeros(0, np.int64)))
        memory.step(one)
        layers.step(one)
        if one.name == "CTRL.WAIT" and one.fields["stream"] in comes:
            stream, first = one.fields["stream"], taken[one.fields["stream"]]
            taken[stream] += one.fields["count"]
            memory.arrive(one, comes[stream][first : taken[stream]])
        drained = one.drains
        if drained:
            memory.require_stored(f"{where}: instruction {one.number}")
            memory.drain()
    if not drained:
        memory.require_balance()


class Replay:
    """State of a core's memories during replay: last writer and last reader of each place."""

    def __init__(self, shape: NpuShape, image: Image, where: str) -> None:
        sizes = {
            "FM": shape.map_vectors or image.map_vectors, "INP": shape.input_vectors,
            "ACC": shape.entries, "OUT": shape.entries, "WM": shape.weight_words,
            "PM": shape.parameter_words, "UM": shape.micro_ops, "HM": shape.headers, "WQ": 1,
        }  # fmt: skip
        units = len(UNITS)
        self.where = where
        self.known = {name: np.zeros(size, bool) for name, size in sizes.items()}
        self.wrote = {name: np.full((units, size), -1, np.int64) for name, size in sizes.items()}
        self.read = {name: np.full((units, size), -1, np.int64) for name, size in sizes.items()}
        self.clock = np.full((units, units), -1, np.int64)  # steps that each unit knows to be done
        self.given: dict[tuple[int, int], list[NDArray[np.int64]]] = {}  # clocks of sent tokens
        self.taken: dict[tuple[int, int], int] = {}
        self.count = [0] * units
        self.made = {name: np.full(sizes[name], -1, np.int64) for name in ("INP", "ACC", "OUT")}
        self.waiting = np.zeros(sizes["OUT"], bool)  # results not stored yet
        self._windows = -1, -1, -1  # last load of windows, its first vector, its end
        self._first: dict[int, int] = {}  # first load of a sequence of consecutive window loads
        self.preset("WM", np.arange(len(image.weights)))
        self.preset("PM", np.arange(len(image.parameters)))
        self.preset("UM", np.arange(len(image.micro_ops) // 8))
        self.preset("HM", np.arange(len(image.headers) // 8))

    def preset(self, memory: str, places: Cells) -> None:
        """Mark places as valid before a frame."""
        self.require_inside(memory, places, f"{self.where}: preset contents")
        self.known[memory][places] = True

    def arrive(self, one: Instruction, cells: Cells) -> None:
        """Mark arrived vectors as valid; only loads read them, and loads follow the wait."""
        what = f"{self.where}: instruction {one.number} ({one.name})"
        if UNITS[one.unit] != "LOAD":
            raise CheckFailedError(
                f"{what}: waits for feature maps in the queue of {UNITS[one.unit]}"
            )
        self.preset("FM", cells.ravel())

    def forget(self, program: list[Instruction]) -> None:
        """Mark all places that the program writes as not preset: they change in every frame."""
        for one in program:
            for memory, places in one.writes:
                self.require_inside(memory, places, f"{self.where}: instruction {one.number}")
                self.known[memory][places] = False

    def require_inside(self, memory: str, places: Cells, what: str) -> None:
        size = self.known[memory].size
        if places.size and (int(places.min()) < 0 or int(places.max()) >= size):
            worst = int(places.max()) if int(places.max()) >= size else int(places.min())
            raise CheckFailedError(f"{what}: {memory}[{worst}] is outside its {size} places")

    def step(self, one: Instruction) -> None:
        """Replay an instruction; raises `CheckFailedError`."""
        what = f"{self.where}: instruction {one.number} ({one.name})"
        unit, here = one.unit, self.count[one.unit]
        for other in range(len(UNITS)):
            if one.wait >> other & 1:
                self._take(unit, other, what)
        for memory, places in one.reads:
            self.require_inside(memory, places, f"{what}: reads")
            if not self.known[memory][places].all():
                place = int(places[np.argmin(self.known[memory][places])])
                raise CheckFailedError(f"{what}: reads {memory}[{place}], which was never written")
            if one.table and (self.wrote[memory][:, places] >= 0).any():
                raise CheckFailedError(f"{what}: loads a table from overwritten vectors")
            self._require_order(unit, self.wrote[memory][:, places], what, f"reads {memory}")
        for memory, places in one.writes:
            self.require_inside(memory, places, f"{what}: writes")
            self._require_order(unit, self.wrote[memory][:, places], what, f"writes {memory}")
            self._require_order(unit, self.read[memory][:, places], what, f"overwrites {memory}")
        self._begin(one, what)
        for memory, places in one.reads:
            self.read[memory][unit, places] = here
        for memory, places in one.writes:
            self.wrote[memory][unit, places] = here
            self.known[memory][places] = True
        self.clock[unit, unit] = here
        self.count[unit] += 1
        for other in range(len(UNITS)):
            if one.signal >> other & 1:
                self.given.setdefault((unit, other), []).append(self.clock[unit].copy())

    def _begin(self, one: Instruction, what: str) -> None:
        """Invalidate the rest of data that an instruction overwrites in part: an earlier load,
        earlier results, or the sums that they came from."""
        results = any(memory == "OUT" for memory, _ in one.writes)
        for memory, places in one.reads:
            if memory == "OUT":
                self.waiting[places] = False
            elif memory == "INP" and self._loads(places) > 1:
                raise CheckFailedError(f"{what}: uses inputs of several loads")
            elif memory == "ACC" and one.unit == UNITS.index("GEMM"):
                done = places[self.made["ACC"][places] >= 0]
                if done.size:
                    raise CheckFailedError(f"{what}: adds to ACC[{done[0]}], which holds a result")
            elif memory == "ACC" and (results or one.name.startswith("STORE.PARTIAL")):
                self.made["ACC"][places] = one.number
        for memory, places in one.writes:
            if memory not in self.made or (memory == "ACC" and results):
                continue
            made = self.made[memory]
            before = np.unique(made[places])
            if one.name == "LOAD.WIN" and places.size:
                first = self._follow(one, places)
                before = before[[self._first.get(each, each) != first for each in before.tolist()]]
            gone = np.isin(made, before[before >= 0])
            gone[places] = False
            self.known[memory][gone] = False
            made[gone] = -1
            made[places] = -1 if memory == "ACC" else one.number
            if memory == "OUT":
                self.require_stored(what, places)
                self.waiting[places] = True

    def _follow(self, one: Instruction, places: Cells) -> int:
        """Return the first load of the sequence of window loads: this load continues it if it
        starts after windows of the previous one, or over its unused windows after a row's end."""
        last, begin, stop = self._windows
        follows = begin < int(places[0]) <= stop
        first = self._first[last] if follows else one.number
        self._first[one.number] = first
        self._windows = one.number, int(places[0]), int(places[-1]) + 1
        return first

    def _loads(self, places: Cells) -> int:
        """Return the number of loads that inputs come from; consecutive rows of windows are one."""
        numbers = np.unique(self.made["INP"][places]).tolist()
        return len({self._first.get(number, number) for number in numbers})

    def require_stored(self, what: str, places: Cells | None = None) -> None:
        """Raise if a result at some places, or anywhere, would be lost."""
        left = np.flatnonzero(self.waiting) if places is None else places[self.waiting[places]]
        if left.size:
            raise CheckFailedError(f"{what}: OUT[{int(left[0])}] holds a result that is not stored")

    def _take(self, unit: int, other: int, what: str) -> None:
        """Consume a token from another unit and merge its knowledge of completed steps."""
        number = self.taken.get((other, unit), 0)
        tokens = self.given.get((other, unit), [])
        if number >= len(tokens):
            raise CheckFailedError(
                f"{what}: waits for a token of {UNITS[other]} that no earlier instruction sends"
            )
        self.taken[other, unit] = number + 1
        np.maximum(self.clock[unit], tokens[number], out=self.clock[unit])

    def _require_order(self, unit: int, last: NDArray[np.int64], what: str, does: str) -> None:
        """Raise if another unit's step on a place may still be running."""
        if not last.size:
            return
        latest = last.max(1)
        for other in range(len(UNITS)):
            if other != unit and latest[other] > self.clock[unit, other]:
                raise CheckFailedError(
                    f"{what}: {does} without waiting for {UNITS[other]}, whose step "
                    f"{latest[other]} uses the same places"
                )

    def drain(self) -> None:
        """End a frame: units are idle, no tokens are left, all steps are known to be done."""
        self.clock[:] = np.array(self.count) - 1
        self.given.clear()
        self.taken.clear()

    def require_balance(self) -> None:
        """Raise if a token is left over, which the next frame would consume by mistake."""
        for (unit, other), tokens in self.given.items():
            left = len(tokens) - self.taken.get((unit, other), 0)
            if left:
                raise CheckFailedError(
                    f"{self.where}: {left} tokens from {UNITS[unit]} to {UNITS[other]} are left "
                    "over at the end of a frame without a drain"
                )


class CompleteMap(NamedTuple):
    """A feature map that must be complete at the end of a layer.

    end : first instruction after the layer
    cells : vectors of the map
    joined : several layers, or the host, write a part each
    """

    name: str
    end: int
    cells: Cells
    joined: bool = False


class Layers:
    """Tracks the stores of a program; size : vectors of the feature memory"""

    def __init__(self, stored: Iterable[CompleteMap], size: int, where: str) -> None:
        self.where = where
        self.ends: dict[int, list[CompleteMap]] = {}
        for one in stored:
            self.ends.setdefault(one.end, []).append(one)
        self._written = np.full(size, -1, np.int64)  # instruction of the layer that wrote it

    def step(self, one: Instruction) -> None:
        """Record the stores of an instruction, and check them if it is the last one of a layer.

        Raises `CheckFailedError` that names the feature map or the instruction.
        """
        if not self.ends:
            return
        for memory, cells in one.writes:
            if memory == "FM":
                self._written[cells] = one.number
        ended = self.ends.get(one.number + 1)
        if ended is None:
            return
        allowed = np.zeros(self._written.size, bool)
        for stored in ended:
            allowed[stored.cells] = True
            left = stored.cells[self._written[stored.cells] < 0]
            if left.size and not stored.joined:
                raise CheckFailedError(
                    f"{self.where}: {left.size} vectors of {stored.name} are not stored by the end "
                    f"of its layer, instruction {one.number}; the first one is FM[{left[0]}]"
                )
        other = np.flatnonzero((self._written >= 0) & ~allowed)
        if other.size:
            raise CheckFailedError(
                f"{self.where}: instruction {self._written[other[0]]}: stores to FM[{other[0]}], "
                "which is outside the feature maps of its layer"
            )
        self._written[:] = -1


def joined(name: str, owners: dict[str, str | None], cells: dict[str, Cells]) -> bool:
    """Return whether a map contains others of its region that are written separately."""
    region = owners[name] or name
    mine = cells[name]
    return any(
        other != name
        and (owners[other] or other) == region
        and cells[other].size < mine.size
        and bool(np.isin(cells[other], mine).all())
        for other in cells
    )


def stored_maps(
    names: Sequence[tuple[str, int]], owners: dict[str, str | None], cells: dict[str, Cells]
) -> list[CompleteMap]:
    """Return the feature maps that layers store.

    names : feature maps and the ends of their layers, in any order
    owners : owner of the region of each map
    cells : vectors of the maps that layers or the host write
    """
    return [CompleteMap(name, end, cells[name], joined(name, owners, cells)) for name, end in names]
