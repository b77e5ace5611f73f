"""Parts of a network that a file format cannot hold, and vice versa: counted and reported."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.store.network import ID, RATE, SIZE, NetworkFile

IDS, NAMES, SIZES, RATES, ATTRIBUTES = "ids", "names", "sizes", "rates", "attributes"
DIRECTIONS, UNDIRECTED, FRACTIONS, REPEATED = "directions", "undirected", "fractions", "repeated"
SYNAPTIC = "synaptic"
KINDS = (
    IDS, NAMES, SIZES, RATES, ATTRIBUTES, DIRECTIONS, UNDIRECTED, FRACTIONS, REPEATED, SYNAPTIC,
)  # fmt: skip
"""Losses found from the network's metadata; exporters count those found in the synapses."""
HELD = {
    IDS: "ids",
    NAMES: "names",
    SIZES: "sizes",
    RATES: "rates",
    ATTRIBUTES: "other attributes",
    DIRECTIONS: "directions",
    UNDIRECTED: "undirected edges",
    FRACTIONS: "fractions",
}
"""Names in the table of formats; repeated synapses and synaptic weights fit in no format."""


WEIGHTS_NEGATIVE = "weights_negative"
"""Provenance key: number of negative weights; their traffic has no sign."""
WEIGHTS_MISSING = "weights_missing"
"""Provenance key: number of synapses that weigh 1 because the file has weights only for others."""
ASSUMED = "assumed"
"""Provenance key: a note on facts that the file does not state, such as directions."""


Weight = TypeVar("Weight", NDArray[Any], NDArray[Any] | None)


@dataclass(slots=True)
class Magnitudes:
    """Turns weights into traffic: the sign marks inhibition and does not affect traffic.

    kept : leave weights unchanged, for a writer that keeps the signs
    negative : number of weights below 0
    """

    kept: bool = False
    negative: int = 0

    def of(self, weight: Weight) -> Weight:
        """Return weights without their signs, unless signs are kept."""
        if weight is None:
            return weight
        count = int(np.count_nonzero(weight < 0))
        self.negative += count
        if not count or self.kept:
            return weight
        magnitude: NDArray[Any] = np.abs(weight)
        return magnitude

    @property
    def facts(self) -> dict[str, int]:
        """Return the entries for the provenance; empty if no weight is negative."""
        return {WEIGHTS_NEGATIVE: self.negative} if self.negative else {}


@dataclass(frozen=True, slots=True)
class Loss:
    """A part of a network that is missing from an exported file.

    kind : in a word; count : of neurons, synapses or attributes
    text : the missing part, and its treatment
    """

    kind: str
    count: int
    text: str


def find_losses(net: NetworkFile, holds: Collection[str]) -> Iterator[Loss]:
    """Yield the losses of a network among the `KINDS` that a format does not hold."""
    for kind in KINDS:
        loss = None if kind in holds else _FINDERS[kind](net)
        if loss is not None:
            yield loss


def beyond_size(net: NetworkFile, written: Collection[str]) -> list[Loss]:
    """Return the losses of attributes other than ids and sizes that were not written."""
    found = [None if RATE in written else _rates(net), _attributes(net, written)]
    return [loss for loss in found if loss is not None]


def isolated(count: int) -> list[Loss]:
    """Return the loss of neurons without synapses, for formats that list only edges."""
    text = f"no neurons without synapses: {count:,} dropped"
    return [Loss("isolated", count, text)] if count else []


def _ids(net: NetworkFile) -> Loss | None:
    if ID not in net.meta.attributes or net.meta.attributes[ID].labels is not None:
        return None
    ids = net.attribute(ID)
    count = int(np.count_nonzero(ids.values != np.arange(net.vertices)))
    return _of_neurons(IDS, count)


def _names(net: NetworkFile) -> Loss | None:
    if ID not in net.meta.attributes or net.meta.attributes[ID].labels is None:
        return None
    return _of_neurons(NAMES, net.vertices)


def _sizes(net: NetworkFile) -> Loss | None:
    return _of_neurons(SIZES, int(np.count_nonzero(net.vertex_sizes() != 1)))


def _rates(net: NetworkFile) -> Loss | None:
    return _of_neurons(RATES, net.vertices) if RATE in net.meta.attributes else None


def _of_neurons(kind: str, count: int) -> Loss | None:
    text = f"no {kind}: dropped for {count:,} neurons"
    return Loss(kind, count, text) if count else None


def _attributes(net: NetworkFile, written: Collection[str] = ()) -> Loss | None:
    names = [name for name in net.meta.attributes if name not in (ID, SIZE, RATE, *written)]
    text = f"no other attributes: {', '.join(names)} dropped"
    return Loss(ATTRIBUTES, len(names), text) if names else None


def _directions(net: NetworkFile) -> Loss | None:
    count = net.meta.synapses
    text = f"no directions: dropped for {count:,} synapses, opposite weights added"
    return Loss(DIRECTIONS, count, text) if count and not net.undirected else None


def _undirected(net: NetworkFile) -> Loss | None:
    count = net.meta.synapses
    text = f"no undirected edges: {count:,} written once, as synapses"
    return Loss(UNDIRECTED, count, text) if count and net.undirected else None


def _fractions(net: NetworkFile) -> Loss | None:
    count, unit = net.meta.synapses, net.meta.weight_unit
    text = f"no fractions: weights of {count:,} synapses are integers in units of {unit:g}"
    return Loss(FRACTIONS, count, text) if count and unit != 1 else None


def _repeated(net: NetworkFile) -> Loss | None:
    count = net.meta.repeated
    text = f"no repeated synapses: {count:,} merged, their weights added"
    return Loss(REPEATED, count, text) if count else None


def _synaptic(net: NetworkFile) -> Loss | None:
    count = 0 if net.meta.synaptic is None else net.meta.synapses + net.meta.synaptic.self_loops
    text = f"no synaptic weights: dropped for {count:,} synapses, only traffic is written"
    return Loss(SYNAPTIC, count, text) if count else None


_FINDERS = {
    IDS: _ids,
    NAMES: _names,
    SIZES: _sizes,
    RATES: _rates,
    ATTRIBUTES: _attributes,
    DIRECTIONS: _directions,
    UNDIRECTED: _undirected,
    FRACTIONS: _fractions,
    REPEATED: _repeated,
    SYNAPTIC: _synaptic,
}
