"""Replays the addresses of an encoded program, and proves that its tokens keep them in order.

Knows nothing of the compiler: instructions and micro-ops are decoded from the program's bytes. In
the order of the program every vector that is read was written in this frame, or is preset. Between
units, whatever reads or overwrites a place is behind the one that wrote it or still reads it: by
tokens (vector clocks), not by luck. Every address is inside its memory, and no unit waits for a
token that nobody gives.

What a tile leaves behind is not there for another one: once a load overwrites a part of an earlier
one, what is left of that is nothing that may be read; likewise of results, and of sums that became
results. Every result is stored, and every layer stores its maps, whole, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import UNITS
from mapper.compiler.codegen.image import Image
from mapper.compiler.memory.areas import MapPlace
from mapper.compiler.memory.layers import Layers, Stored
from mapper.compiler.memory.touches import Cells, Instruction
from mapper.errors import CheckFailedError


class Declared(NamedTuple):
    """stored : what is in the feature memory when layers have ended
    maps : that loads bring parts of; none of both if that is not known"""

    stored: Sequence[Stored] = ()
    maps: Sequence[MapPlace] = ()


NOTHING_DECLARED = Declared()
NOTHING_COMES: Mapping[int, Cells] = MappingProxyType({})


def check_program(
    program: list[Instruction], image: Image, shape: NpuShape, presets: Sequence[Cells],
    where: str, declared: Declared = NOTHING_DECLARED, comes: Mapping[int, Cells] = NOTHING_COMES,
) -> None:  # fmt: skip
    """Check the instructions of a core.

    presets : the vectors of maps that the host writes before each function of the program
    where : the file, for errors
    declared : what the manifest says of maps
    comes : what other cores, or the host, send while it runs, in order, by the stream that counts
        it, shape (count, slots)
    Raises `CheckFailedError` that names the instruction and the place.
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
    """Memories of a core while a program is replayed: who wrote and who read each place last."""

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
        self.clock = np.full((units, units), -1, np.int64)  # what each unit knows to be done
        self.given: dict[tuple[int, int], list[NDArray[np.int64]]] = {}  # clocks of tokens
        self.taken: dict[tuple[int, int], int] = {}
        self.count = [0] * units
        self.made = {name: np.full(sizes[name], -1, np.int64) for name in ("INP", "ACC", "OUT")}
        self.waiting = np.zeros(sizes["OUT"], bool)  # results that nobody has stored
        self._windows = -1, -1, -1  # the last load of windows, its first vector, the one behind
        self._first: dict[int, int] = {}  # of loads of windows that follow each other
        self.preset("WM", np.arange(len(image.weights)))
        self.preset("PM", np.arange(len(image.parameters)))
        self.preset("UM", np.arange(len(image.micro_ops) // 8))
        self.preset("HM", np.arange(len(image.headers) // 8))

    def preset(self, memory: str, places: Cells) -> None:
        """Places that hold something before a frame."""
        self.require_inside(memory, places, f"{self.where}: preset contents")
        self.known[memory][places] = True

    def arrive(self, one: Instruction, cells: Cells) -> None:
        """What a unit has waited for is there: loads alone read it, and come behind the wait."""
        what = f"{self.where}: instruction {one.number} ({one.name})"
        if UNITS[one.unit] != "LOAD":
            raise CheckFailedError(f"{what}: waits for maps in the queue of {UNITS[one.unit]}")
        self.preset("FM", cells.ravel())

    def forget(self, program: list[Instruction]) -> None:
        """What is overwritten in a frame is not preset in the next one."""
        for one in program:
            for memory, places in one.writes:
                self.require_inside(memory, places, f"{self.where}: instruction {one.number}")
                self.known[memory][places] = False

    def require_inside(self, memory: str, places: Cells, what: str) -> None:
        size = self.known[memory].size
        if places.size and (int(places.min()) < 0 or int(places.max()) >= size):
            worst = int(places.max()) if int(places.max()) >= size else int(places.min())
            raise CheckFailedError(f"{what}: {memory}[{worst}], which has {size} places")

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
                raise CheckFailedError(f"{what}: reads {memory}[{place}], which nothing wrote")
            if one.table and (self.wrote[memory][:, places] >= 0).any():
                raise CheckFailedError(f"{what}: loads a table from maps that were overwritten")
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
        """Let what an instruction overwrites in part be gone: all of an earlier load, of earlier
        results, or of the sums that these came from."""
        results = any(memory == "OUT" for memory, _ in one.writes)
        for memory, places in one.reads:
            if memory == "OUT":
                self.waiting[places] = False
            elif memory == "INP" and self._loads(places) > 1:
                raise CheckFailedError(f"{what}: takes inputs of several loads")
            elif memory == "ACC" and one.unit == UNITS.index("GEMM"):
                done = places[self.made["ACC"][places] >= 0]
                if done.size:
                    raise CheckFailedError(f"{what}: adds to ACC[{done[0]}], which is a result")
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
        """The load of windows that this one continues: it begins behind windows of that, or over
        those behind the end of a row that nobody wants."""
        last, begin, stop = self._windows
        follows = begin < int(places[0]) <= stop
        first = self._first[last] if follows else one.number
        self._first[one.number] = first
        self._windows = one.number, int(places[0]), int(places[-1]) + 1
        return first

    def _loads(self, places: Cells) -> int:
        """How many loads brought inputs; rows of windows one behind the other count as one."""
        numbers = np.unique(self.made["INP"][places]).tolist()
        return len({self._first.get(number, number) for number in numbers})

    def require_stored(self, what: str, places: Cells | None = None) -> None:
        """Raise if a result, or one of some, would be lost."""
        left = np.flatnonzero(self.waiting) if places is None else places[self.waiting[places]]
        if left.size:
            raise CheckFailedError(f"{what}: OUT[{int(left[0])}] holds a result that is not stored")

    def _take(self, unit: int, other: int, what: str) -> None:
        """A token from another unit: what that one knew is known here, too."""
        number = self.taken.get((other, unit), 0)
        tokens = self.given.get((other, unit), [])
        if number >= len(tokens):
            raise CheckFailedError(
                f"{what}: waits for a token of {UNITS[other]} that no earlier instruction gives"
            )
        self.taken[other, unit] = number + 1
        np.maximum(self.clock[unit], tokens[number], out=self.clock[unit])

    def _require_order(self, unit: int, last: NDArray[np.int64], what: str, does: str) -> None:
        """Raise if another unit's step on a place may not be done yet."""
        if not last.size:
            return
        latest = last.max(1)
        for other in range(len(UNITS)):
            if other != unit and latest[other] > self.clock[unit, other]:
                raise CheckFailedError(
                    f"{what}: {does} without waiting for {UNITS[other]}, step {latest[other]} of "
                    "which uses the same places"
                )

    def drain(self) -> None:
        """All units are idle, and no token is left: all that was done is known to all."""
        self.clock[:] = np.array(self.count) - 1
        self.given.clear()
        self.taken.clear()

    def require_balance(self) -> None:
        """Raise if a token is left that the next frame would take for its own."""
        for (unit, other), tokens in self.given.items():
            left = len(tokens) - self.taken.get((unit, other), 0)
            if left:
                raise CheckFailedError(
                    f"{self.where}: {left} tokens of {UNITS[unit]} for {UNITS[other]} are left at "
                    "the end of a frame, which ends without a drain"
                )
