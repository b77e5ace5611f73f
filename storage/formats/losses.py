"""What an exported file has no place for, and what a network has none for: counted, and said."""

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
"""What is looked for in the network; what only its synapses tell, exporters count themselves."""
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
"""How the table of formats calls them; repeated synapses and synaptic weights are in none."""


WEIGHTS_NEGATIVE = "weights_negative"
"""Key of a network's provenance: how many weights are negative; their traffic has no sign."""
WEIGHTS_MISSING = "weights_missing"
"""How many synapses weigh 1 because the file has a weight for others, but none for them."""


Weight = TypeVar("Weight", NDArray[Any], NDArray[Any] | None)


@dataclass(slots=True)
class Magnitudes:
    """Turns weights into traffic: the sign says whether a synapse inhibits, and changes none.

    kept : weights are to stay as they are, for a writer that keeps the signs
    negative : number of weights below 0
    """

    kept: bool = False
    negative: int = 0

    def of(self, weight: Weight) -> Weight:
        """Some weights without their signs, unless these are kept."""
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
        """What is said in the provenance of a network; nothing if none is negative."""
        return {WEIGHTS_NEGATIVE: self.negative} if self.negative else {}


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that a network has and a file of it has not.

    kind : in a word; count : of neurons, synapses or attributes
    text : what the format has not, and what became of it
    """

    kind: str
    count: int
    text: str


def find_losses(net: NetworkFile, holds: Collection[str]) -> Iterator[Loss]:
    """What a network has of the `KINDS` that a format does not hold."""
    for kind in KINDS:
        loss = None if kind in holds else _FINDERS[kind](net)
        if loss is not None:
            yield loss


def beyond_size(net: NetworkFile, written: Collection[str]) -> list[Loss]:
    """Of the attributes besides ids and sizes, the loss of those that were not written."""
    found = [None if RATE in written else _rates(net), _attributes(net, written)]
    return [loss for loss in found if loss is not None]


def isolated(count: int) -> list[Loss]:
    """The loss of neurons without synapses, for formats that list edges alone."""
    text = f"no neurons without synapses: {count:,} left out"
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
    text = f"no {kind}: those of {count:,} neurons left out"
    return Loss(kind, count, text) if count else None


def _attributes(net: NetworkFile, written: Collection[str] = ()) -> Loss | None:
    names = [name for name in net.meta.attributes if name not in (ID, SIZE, RATE, *written)]
    text = f"no further attributes: {', '.join(names)} left out"
    return Loss(ATTRIBUTES, len(names), text) if names else None


def _directions(net: NetworkFile) -> Loss | None:
    count = net.meta.synapses
    text = f"no directions: those of {count:,} synapses left out, the two of a pair added up"
    return Loss(DIRECTIONS, count, text) if count and not net.undirected else None


def _undirected(net: NetworkFile) -> Loss | None:
    count = net.meta.synapses
    text = f"no undirected edges: {count:,} written once, as synapses"
    return Loss(UNDIRECTED, count, text) if count and net.undirected else None


def _fractions(net: NetworkFile) -> Loss | None:
    count, unit = net.meta.synapses, net.meta.weight_unit
    text = f"no fractions: weights of {count:,} synapses are counted in units of {unit:g}"
    return Loss(FRACTIONS, count, text) if count and unit != 1 else None


def _repeated(net: NetworkFile) -> Loss | None:
    count = net.meta.repeated
    text = f"no numbers of synapses: {count:,} repeated ones are in the weights only"
    return Loss(REPEATED, count, text) if count else None


def _synaptic(net: NetworkFile) -> Loss | None:
    count = 0 if net.meta.synaptic is None else net.meta.synapses + net.meta.synaptic.self_loops
    text = f"no synaptic weights beside the traffic: those of {count:,} synapses left out"
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
