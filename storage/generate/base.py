"""What every kind of synthetic network has in common, and the way it becomes a file.

The random numbers of each purpose come from streams of their own, derived from the seed alone
(`draws`). So the network does not depend on the threads that draw it, on the memory they have,
nor on whether its ids are shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.generate.draws import VERSIONS, Draws

if TYPE_CHECKING:
    from storage.store.meta import NetworkMeta

MAX_NEURONS = 2**31 - 1

Ids = NDArray[np.signedinteger[Any]]
Weight = NDArray[np.signedinteger[Any]] | NDArray[np.float64]
Edges = tuple[Ids, Ids, Weight]
Part = Callable[[], Edges]
Attributes = dict[str, tuple[NDArray[Any], list[str] | None]]
Progress = Callable[[float], None]


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
        of their own; else they have to be called in order.
        """

    def attributes(self, draws: Draws) -> Attributes:
        """Vertex attributes by name: values of shape (neurons,), and their labels or None."""


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


def generate(
    spec: NetworkSpec,
    path: Path,
    seed: int = 0,
    shuffle: bool = False,
    *,
    draws: int = max(VERSIONS),
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NetworkMeta:
    """Write the network of `spec` to `path`; the same arguments give the same bytes, whatever the
    memory and the number of threads.

    shuffle : rename ids at random; the network and its attributes stay the same otherwise
    draws : 2 has a stream of random numbers for each `draws.CHUNK` of a purpose, which all
        threads draw from; 1 has one of a purpose, and makes the networks of earlier versions
    memory : bytes for all that grows with the synapses; the writer's default if None
    progress : called with the fraction of the edges made so far, 0 .. 1
    Raises `BadInputError` for a seed below 0 or draws of another version.
    """
    from storage.store.writer import DEFAULT_MEMORY, NetworkWriter

    drawn = Draws(seed, draws)
    names = drawn.names(spec.neurons) if shuffle else None

    def made(part: Part) -> Edges:
        source, target, weight = part()
        return (source, target, weight) if names is None else (names[source], names[target], weight)

    with NetworkWriter(
        path,
        spec.neurons,
        memory=memory or DEFAULT_MEMORY,
        threads=threads,
    ) as writer:
        done, total = 0, max(spec.synapses, 1)
        for count in writer.add_made(spec.edges(drawn), made, in_order=not drawn.by_chunk):
            done += count
            if progress is not None:
                progress(min(done / total, 1.0))
        for name, (values, labels) in spec.attributes(drawn).items():
            if names is not None:
                renamed = np.empty_like(values)
                renamed[names] = values
                values = renamed
            writer.set_attribute(name, values, labels)
        said = {"generator": spec.kind, **asdict(spec), "seed": seed, "shuffle": shuffle}
        if drawn.by_chunk:
            said["draws"] = draws
        return writer.finish(said)
