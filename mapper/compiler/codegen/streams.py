"""Weights that come from the host while layers work, into the dynamic part of the weight memory.

A stream brings the words of some output blocks and a part of what they are made from. The first
product that takes them waits for each word (`dyn`); later ones know that they are there. The next
stream is asked for when the products that wait for the one before are done, for there is one count
of words that have arrived; it may arrive while others still work with words that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa import Instruction, form_of
from mapper.compiler.codegen.steps import Touch
from mapper.errors import DoesNotFitError

if TYPE_CHECKING:
    from mapper.compiler.codegen.builder import ProgramBuilder

WEIGHTS_SPACE = 2  # of CTRL.BASE: the first weight word that may be written
MOST_WORDS = next(f.most for f in form_of("LOAD", "WSTREAM").fields if f.name == "words")
ASKED = Touch("WQ", np.zeros(1, np.int64))
"""The one stream that may be on its way."""

Words = NDArray[np.int64]


class Lying(NamedTuple):
    """Where words lie; fresh : they may be on their way still."""

    first: int
    size: int
    fresh: bool

    @property
    def cells(self) -> NDArray[np.int64]:
        return np.arange(self.first, self.first + self.size)


class Streams:
    """The dynamic part, words from first to behind, and what the host keeps for it.

    words : in the host's memory, shape (rows, columns) each
    """

    def __init__(self, first: int, stop: int, host_first: int = 0) -> None:
        self.first, self.stop, self.host_first = first, stop, host_first
        self.words: list[Words] = []
        self._next = first
        self._begun = False
        self._resident: dict[Hashable, Lying] = {}
        self._host: dict[Hashable, int] = {}

    @property
    def size(self) -> int:
        return self.stop - self.first

    def begin_layer(self, words: int) -> None:
        """Let a layer that fits the dynamic part as a whole lie in it without a gap."""
        if words <= self.size and self._next + words > self.stop:
            self._next = self.first

    def bring(self, core: ProgramBuilder, key: Hashable, make: Callable[[], Words]) -> Lying:
        """Words that are there, or are asked for now; make : them, shape (words, rows, columns)."""
        found = self._resident.get(key)
        if found is not None:
            return found._replace(fresh=False)
        made = make()
        count = len(made)
        if count > min(self.size, MOST_WORDS):
            raise DoesNotFitError(
                f"{core.macro.label}: weight memory: {count:,} words needed at once, a core has "
                f"{self.size:,} for weights of the host ({count - self.size:,} short); take a core "
                "with more"
            )
        if key not in self._host:
            self._host[key] = self.host_first + len(self.words)
            self.words += list(made)
        first = self._next if self._next + count <= self.stop else self.first
        self._next = first + count
        here = Lying(first, count, fresh=True)
        self._resident = {
            name: one
            for name, one in self._resident.items()
            if one.first >= self._next or one.first + one.size <= first
        } | {key: here}
        if not self._begun:
            self._begun = True
            fields = {"queue": 0, "space": WEIGHTS_SPACE, "value": self.first}
            core.step("LOAD", Instruction("CTRL", "BASE", fields=fields), [], [])
        fields = {"dst": first, "words": count, "host": self._host[key]}
        core.step(
            "LOAD", Instruction("LOAD", "WSTREAM", fields=fields),
            [], [Touch("WM", here.cells), ASKED],
        )  # fmt: skip
        return here
