"""What every kind of synthetic network has in common.

The random numbers of each purpose come from streams of their own, derived from the seed alone
(`draws`). So the network does not depend on the threads that draw it, on the memory they have,
nor on whether its ids are shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.generate.draws import Draws

MAX_NEURONS = 2**31 - 1

Ids = NDArray[np.signedinteger[Any]]
Weight = NDArray[np.signedinteger[Any]] | NDArray[np.float64]
Edges = tuple[Ids, Ids, Weight]
Part = Callable[[], Edges]
Attributes = dict[str, tuple[NDArray[Any], list[str] | None]]
Progress = Callable[[float], None]


class Folder(NamedTuple):
    """Where a network of several files goes; files : how many, at most one for each block."""

    path: Path
    files: int


class NetworkSpec(Protocol):
    """The settings of one synthetic network: a frozen dataclass that checks itself.

    `edges` and `attributes` give the same answer for the same draws.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def neurons(self) -> int: ...

    @property
    def synapses(self) -> int:
        """Synapses that `edges` gives in total, at most: the measure of progress."""

    def edges(self, draws: Draws) -> Iterator[Part]:
        """What makes the edges, at most `draws.CHUNK` at a time: (source, target, weight), each
        array of shape (edges,). Any thread may call any of them, if chunks of draws have streams
        of their own; else they have to be called in order. What isn't called costs next to nothing.
        """

    def attributes(self, draws: Draws) -> Attributes:
        """Vertex attributes by name: values of shape (neurons,), and their labels or None."""


class Helpers(NamedTuple):
    """Processes that see the folder of the network.

    ranges : called with a work, a count and arguments, yields ``work(range, *arguments)`` of ranges
        that have 0 .. count-1 once, in their order, whoever does them; checks that all see
        arguments that are a `Path`
    memory : bytes that each call may take
    """

    ranges: Callable[..., Iterator[Any]]
    memory: int


def require(good: bool, kind: str, name: str, value: object, wanted: str) -> None:
    """Raise `BadInputError` naming the setting, its bad value and what would do."""
    if not good:
        raise BadInputError(f"{kind}: {name} is {value}; it must be {wanted}")


def require_number(kind: str, name: str, value: float, low: float, high: float) -> None:
    """`value` must lie in low .. high, and be finite."""
    good = math.isfinite(value) and low <= value <= high
    require(good, kind, name, value, f"{low:g} to {high:g}" if high < math.inf else f">= {low:g}")


def require_size(kind: str, neurons: int) -> None:
    if not 0 < neurons <= MAX_NEURONS:
        raise BadInputError(
            f"{kind}: {neurons} neurons; 1 to {MAX_NEURONS} can be stored, change the sizes"
        )


def renamed(names: NDArray[np.int32] | None, part: Part) -> Edges:
    """The edges of a part, between neurons as they are called."""
    source, target, weight = part()
    return (source, target, weight) if names is None else (names[source], names[target], weight)
