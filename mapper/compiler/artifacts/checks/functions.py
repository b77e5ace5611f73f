"""Checks of models whose functions are on different cores, from manifest and programs.

A core computes a single function, and data flows to later functions only: from the host to cores,
from cores to cores, and from cores to the host. Then no core waits for work of the host that waits
for a result of the same core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mapper.compiler.artifacts.checks.touches import Cells, Instruction
from mapper.errors import CheckFailedError

Place = tuple[int, int]


class Computed(NamedTuple):
    """A core of a model.

    spans : first instruction and end of each function
    brought : function before which the host sends the vectors of a stream, and the vectors
    inputs : for each function, vectors of the maps that the host writes before it
    where : file name for errors
    """

    program: Sequence[Instruction]
    spans: Sequence[tuple[int, int]]
    brought: Mapping[int, tuple[int, Cells]]
    inputs: Sequence[Cells]
    where: str

    @property
    def function(self) -> int:
        """The only function with instructions; raises `CheckFailedError` if there are others."""
        mine = [at for at, (first, stop) in enumerate(self.spans) if first < stop]
        if len(mine) != 1 or tuple(self.spans[mine[0]]) != (0, len(self.program)):
            raise CheckFailedError(
                f"{self.where}: functions {mine} with instructions {[*self.spans]}; a core "
                "computes one function, with all its instructions"
            )
        return mine[0]


def check_functions(
    cores: Mapping[Place, Computed], received: Sequence[Cells], results: Sequence[Cells]
) -> None:
    """Check the order of data; raises `CheckFailedError` with the instruction or the stream.

    received : for each function, vectors of the host that hold its results
    results : for each function, vectors of the host that it reads after the function
    """
    functions = {place: core.function for place, core in cores.items()}
    needed = _functions_at(received)
    for number, cells in enumerate(results):
        if cells.max(initial=-1) >= needed.size or (needed[cells] > number).any():
            raise CheckFailedError(
                f"results of function {number}: the host reads vectors that it does not wait for"
            )
    for place, core in cores.items():
        function = functions[place]
        for stream, (number, cells) in core.brought.items():
            if number > function or np.setdiff1d(cells, core.inputs[number]).size:
                raise CheckFailedError(
                    f"{core.where}: stream {stream} has vectors that the host does not write "
                    f"before function {number}"
                )
        for one in core.program:
            what = f"{core.where}: instruction {one.number} ({one.name}) of function {function}"
            to = one.fields.get("x", 0), one.fields.get("y", 0)
            if one.name == "STORE.REMOTE" and functions[to] < function:
                raise CheckFailedError(f"{what}: sends to a core of function {functions[to]}")
            if one.name in ("STORE.HOST", "STORE.PARTIAL_HOST"):
                early = one.sends[needed[one.sends] < function]
                if early.size:
                    raise CheckFailedError(
                        f"{what}: sends the host vector {early[0]}, a result of function "
                        f"{needed[early[0]]}"
                    )


def _functions_at(received: Sequence[Cells]) -> Cells:
    """Return the function of each vector of the host."""
    stop = 1 + max((int(cells.max(initial=-1)) for cells in received), default=-1)
    found = np.zeros(stop, np.int64)
    for number, cells in enumerate(received):
        found[cells] = number
    return found


def runs_of(runs: Sequence[Sequence[Any]]) -> Cells:
    """Return the vectors of runs, each given by its first vector and their number."""
    cells = [np.arange(first, first + count) for first, count, *_ in runs]
    return np.concatenate([np.zeros(0, np.int64), *cells])
