"""A place of a quantised model where an operator of real numbers becomes integer nodes."""

from __future__ import annotations

from typing import NamedTuple

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.requantisation import Requantisation, Rounding
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.quantisation.layers import bounds_of

ROUNDING: Rounding = "even"
Sources = tuple[str, ...]
Made = list[Node] | str
"""Integer nodes, or the reason why they cannot be built."""


class Place(NamedTuple):
    """An operator between Dequantise nodes and a Quantise node.

    data : stored maps that it reads
    activation : activation after it, or None
    result : stored map that it writes
    how : requantisation if the model specifies it directly and not by scales
    """

    node: Node
    data: list[Tensor]
    activation: Node | None
    result: Tensor
    how: Requantisation | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        return self.node.sources + (self.activation.sources if self.activation else ())

    @property
    def bounds(self) -> tuple[int, int]:
        return bounds_of(self.activation, self.result)


def behind(graph: Graph, place: Place) -> tuple[str, ...]:
    """Return the model nodes that a separate requantisation replaces."""
    maker = graph.maker(place.result)
    assert maker is not None
    return place.sources + maker.sources
