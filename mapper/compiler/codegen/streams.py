"""Weights streamed from the host during computation, into the dynamic part of the weight memory.

A stream loads the words of some output blocks and a part of their inputs. The first product that
uses them waits for each word (`dyn`); later products know that the words have arrived. There is
only one arrival counter, so the next stream is requested when the products that wait for the
previous one are done. It may arrive while other products use words already in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hw.npu.isa.table import Instruction
from mapper.compiler.ir.macro import Macro
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.steps import Touch, control, most_of
from mapper.compiler.program.tables import replaced
from mapper.errors import DoesNotFitError

WEIGHTS_SPACE = 2  # space of CTRL.BASE: the first weight word that may be overwritten
MOST_WORDS = most_of("LOAD", "WSTREAM")["words"]
ASKED = Touch("WQ", np.zeros(1, np.int64))
"""Token for the single stream that may be in transit."""

Words = NDArray[np.int64]


class StepSink(Protocol):
    """Program of a core that receives instructions; macro : the macro node that they belong to."""

    macro: Macro

    def step(
        self, instruction: Instruction, reads: Sequence[Touch] = (), writes: Sequence[Touch] = ()
    ) -> None:
        """Add an instruction with the cells that it accesses."""


class Streams:
    """The dynamic part of the weight memory, words first to stop, and the host's copy.

    words : weight words in the host's memory, shape (rows, columns) each
    """

    def __init__(self, first: int, stop: int, host_first: int = 0) -> None:
        self.first, self.stop, self.host_first = first, stop, host_first
        self.words: list[Words] = []
        self._next = first
        self._begun = False
        self._resident: dict[Hashable, Span] = {}
        self._host: dict[Hashable, int] = {}

    @property
    def size(self) -> int:
        return self.stop - self.first

    def begin_layer(self, words: int) -> None:
        """Start at the first word if a layer that fits as a whole would otherwise wrap around."""
        if words <= self.size and self._next + words > self.stop:
            self._next = self.first

    def bring(self, core: StepSink, key: Hashable, make: Callable[[], Words]) -> tuple[Span, bool]:
        """Return the location of words, and whether they may still be in transit; request them
        unless they are in memory.

        make : returns the words, shape (words, rows, columns)
        """
        found = self._resident.get(key)
        if found is not None:
            return found, False
        made = make()
        count = len(made)
        if count > min(self.size, MOST_WORDS):
            raise DoesNotFitError(
                f"{core.macro.label}: weight memory: {count:,} words needed at once, a core has "
                f"{self.size:,} for weights of the host ({count - self.size:,} short); use a "
                "larger core"
            )
        if key not in self._host:
            self._host[key] = self.host_first + len(self.words)
            self.words += list(made)
        first = self._next if self._next + count <= self.stop else self.first
        self._next = first + count
        here = Span(first, self._next)
        self._resident = replaced(self._resident, key, here)
        if not self._begun:
            self._begun = True
            core.step(control("LOAD", "BASE", space=WEIGHTS_SPACE, value=self.first))
        fields = {"dst": first, "words": count, "host": self._host[key]}
        writes = [Touch("WM", here.cells), ASKED]
        core.step(Instruction("LOAD", "WSTREAM", fields=fields), [], writes)
        return here, True
