"""Interfaces shared by all kinds of synthetic networks.

Each purpose has separate streams of random numbers, derived only from the seed (`draws`). So the
network does not depend on the threads that draw it, on their memory, or on whether its ids are
shuffled.
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
    """Destination of a network in several files; files : number, at most one per block."""

    path: Path
    files: int


class NetworkSpec(Protocol):
    """Settings of a synthetic network: a frozen dataclass that validates itself.

    `edges` and `attributes` return the same result for the same draws.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def neurons(self) -> int: ...

    @property
    def synapses(self) -> int:
        """Upper bound of the synapses that `edges` yields, used for progress."""

    def edges(self, draws: Draws) -> Iterator[Part]:
        """Yield functions that each return at most `draws.CHUNK` edges: (source, target, weight),
        arrays of shape (edges,). If chunks of draws have separate streams, any thread may call
        any of them; otherwise call them in order. An uncalled one costs next to nothing.
        """

    def attributes(self, draws: Draws) -> Attributes:
        """Return vertex attributes by name: values of shape (neurons,), and labels or None."""


class Helpers(NamedTuple):
    """Processes that share the folder of the network.

    ranges : takes a function, a count and arguments; splits 0 .. count-1 into ranges, calls
        ``function(range, *arguments)`` in any process and yields the results in order; checks
        that all processes see arguments that are a `Path`
    memory : bytes per call
    """

    ranges: Callable[..., Iterator[Any]]
    memory: int


def require(good: bool, kind: str, name: str, value: object, wanted: str) -> None:
    """Raise `BadInputError` with the setting, its invalid value and the valid ones."""
    if not good:
        raise BadInputError(f"{kind}: {name} is {value}; it must be {wanted}")


def require_number(kind: str, name: str, value: float, low: float, high: float) -> None:
    """Raise `BadInputError` unless `value` is finite and in low .. high."""
    good = math.isfinite(value) and low <= value <= high
    require(good, kind, name, value, f"{low:g} to {high:g}" if high < math.inf else f">= {low:g}")


def require_size(kind: str, neurons: int) -> None:
    if not 0 < neurons <= MAX_NEURONS:
        raise BadInputError(
            f"{kind}: has {neurons} neurons; change the sizes to get 1 to {MAX_NEURONS}"
        )


def renamed(names: NDArray[np.int32] | None, part: Part) -> Edges:
    """Return the edges of a part, with ids renamed."""
    source, target, weight = part()
    return (source, target, weight) if names is None else (names[source], names[target], weight)
