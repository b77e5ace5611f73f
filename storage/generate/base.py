"""What every kind of synthetic network has in common, and the way it becomes a file.

The random numbers of each purpose come from a stream of their own, derived from the seed alone.
So the network does not depend on how its edges are cut into chunks, nor on whether its ids are
shuffled. One thread draws them; what comes after, all but the drawing, is done by the others.
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

if TYPE_CHECKING:
    from storage.store.meta import NetworkMeta

CHUNK = 1 << 18  # edges a chunk; a few arrays of this length stay in the cache of a core
MAX_NEURONS = 2**31 - 1

Weight = NDArray[np.int64] | NDArray[np.float64]
Edges = tuple[NDArray[np.int64], NDArray[np.int64], Weight]
Attributes = dict[str, tuple[NDArray[Any], list[str] | None]]
Progress = Callable[[float], None]


class NetworkSpec(Protocol):
    """The settings of one synthetic network: a frozen dataclass that checks itself.

    `edges` and `attributes` give the same answer for generators made from the same seed; they
    never advance `rng`, only derive streams from it, so that one may be passed to both.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def neurons(self) -> int: ...

    @property
    def synapses(self) -> int:
        """Synapses that `edges` gives in total, at most: the measure of progress."""

    def edges(self, rng: np.random.Generator) -> Iterator[Edges]:
        """Chunks of (source, target, weight), each array of shape (edges,)."""

    def attributes(self, rng: np.random.Generator) -> Attributes:
        """Vertex attributes by name: values of shape (neurons,), and their labels or None."""


def stream(rng: np.random.Generator, purpose: int) -> np.random.Generator:
    """The generator of one purpose: depends on the seed of `rng`, not on what was drawn."""
    seed = rng.bit_generator.seed_seq
    if not isinstance(seed, np.random.SeedSequence):
        raise BadInputError("the random generator has no seed sequence; use numpy's default_rng")
    key = (*seed.spawn_key, purpose)
    return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))


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


def ranges(count: int, step: int = 0) -> Iterator[tuple[int, int]]:
    """(first, last + 1) of consecutive chunks of ``0 .. count-1``; `step` 0 is `CHUNK`."""
    step = step or CHUNK
    for first in range(0, count, step):
        yield first, min(first + step, count)


def spike_rates(rng: np.random.Generator, neurons: int, mean: float) -> NDArray[np.int64]:
    """1 + floor(Exp(mean)) per neuron, shape (neurons,)."""
    return 1 + rng.exponential(mean, neurons).astype(np.int64)


_NETWORK, _NAMES = 0, 1


def generate(
    spec: NetworkSpec,
    path: Path,
    seed: int = 0,
    shuffle: bool = False,
    *,
    memory: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> NetworkMeta:
    """Write the network of `spec` to `path`; the same arguments give the same bytes.

    shuffle : rename ids at random; the network and its attributes stay the same otherwise
    memory : bytes for all that grows with the network; the writer's default if None
    progress : called with the fraction of the edges made so far, 0 .. 1
    """
    from storage.store.writer import DEFAULT_MEMORY, NetworkWriter

    if seed < 0:
        raise BadInputError(f"seed is {seed}; it must be a whole number >= 0")
    root = np.random.default_rng(seed)
    network = stream(root, _NETWORK)
    names = stream(root, _NAMES).permutation(spec.neurons) if shuffle else None
    with NetworkWriter(
        path,
        spec.neurons,
        memory=memory or DEFAULT_MEMORY,
        threads=threads,
    ) as writer:
        done, total = 0, max(spec.synapses, 1)
        for source, target, weight in spec.edges(network):
            done += source.size
            if names is not None:
                source, target = names[source], names[target]
            writer.add(source, target, weight)
            if progress is not None:
                progress(min(done / total, 1.0))
        for name, (values, labels) in spec.attributes(network).items():
            if names is not None:
                renamed = np.empty_like(values)
                renamed[names] = values
                values = renamed
            writer.set_attribute(name, values, labels)
        made = {"generator": spec.kind, **asdict(spec), "seed": seed, "shuffle": shuffle}
        return writer.finish(made)
