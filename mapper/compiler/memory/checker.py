"""Replays the addresses of an encoded program, and proves that its tokens keep them in order.

Knows nothing of the compiler: instructions and micro-ops are decoded from the program's bytes. In
the order of the program every vector that is read was written in this frame, or is preset. Between
units, whatever reads or overwrites a place is behind the one that wrote it or still reads it: by
tokens (vector clocks), not by luck. Every address is inside its memory, and no unit waits for a
token that nobody gives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from hw.npu.isa import UNITS
from mapper.compiler.codegen.image import Image
from mapper.compiler.memory.touches import Cells, Instruction, instructions_of
from mapper.errors import CheckFailedError


def check_image(image: Image, shape: NpuShape, presets: Sequence[Cells], where: str) -> int:
    """Check the program of a core; returns the number of its instructions.

    presets : the vectors of maps that the host writes before each function of the program
    where : the file, for errors
    Raises `CheckFailedError` that names the instruction and the place.
    """
    memory = Replay(shape, image, where)
    count = len(image.instructions) // 16
    program = list(instructions_of(image, shape, where))
    memory.preset("FM", image.preset)
    memory.forget(program)
    drained, coming = True, iter(presets)
    for one in program:
        if drained:
            memory.preset("FM", next(coming, np.zeros(0, np.int64)))
        memory.step(one)
        drained = one.drains
        if drained:
            memory.drain()
    if not drained:
        memory.require_balance()
    return count


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
        self.preset("WM", np.arange(len(image.weights)))
        self.preset("PM", np.arange(len(image.parameters)))
        self.preset("UM", np.arange(len(image.micro_ops) // 8))
        self.preset("HM", np.arange(len(image.headers) // 8))

    def preset(self, memory: str, places: Cells) -> None:
        """Places that hold something before a frame."""
        self.require_inside(memory, places, f"{self.where}: preset contents")
        self.known[memory][places] = True

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
