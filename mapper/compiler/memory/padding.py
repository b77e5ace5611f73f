"""Padding that lies around maps in memory, preset once, instead of being written by every load.

A region has one border, common to all its parts: on each side as wide as the widest window of its
readers reaches. A window that reaches less far begins further in. All of a border holds one value:
the zero point, if any reader wants it, else what the readers agree on. A reader that wants another
one, as max pooling beside a convolution, and sides of a part that lie inside of its region, are
padded by loads, as without a border.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mapper.compiler.graph.macro import Macro
from mapper.compiler.graph.node import Conv, Node, Pool
from mapper.compiler.graph.tensor import NO_PAD, Pad, Tensor
from mapper.compiler.memory.regions import Place, Places

SIDES = ("top", "bottom", "left", "right")


class Border(NamedTuple):
    """Pixels around a region, and what their bytes hold."""

    pad: Pad
    value: int


class Reader(NamedTuple):
    """A node whose windows reach over the edges of a map in memory, how far, and what is there."""

    node: Node
    tensor: Tensor
    pad: Pad
    value: int


def padding_value(node: Node) -> int:
    """What the padding of a node's map holds: the least of all for max pooling, else zero."""
    data = node.inputs[0]
    if isinstance(node.operator, Pool) and node.operator.kind == "max":
        return data.low
    return data.zero_point


def borders_of(macros: Sequence[Macro], places: Places) -> tuple[dict[Tensor, Border], list[str]]:
    """The border of each map that owns a region whose readers need one, and the log: what is padded
    by loads all the same."""
    wanted: dict[Tensor, dict[int, Pad]] = {}
    told, readers = [], list(_readers(macros))
    for one in readers:
        owner, pad = one.tensor, one.pad
        if one.tensor in places:
            owner, pad = places[one.tensor].owner, outer(one.pad, one.tensor, places[one.tensor])
        if pad != one.pad:
            inside = ", ".join(
                side for side, a, b in zip(SIDES, pad, one.pad, strict=True) if a < b
            )
            told.append(
                f"{one.node.label}: loads write its padding ({inside}), for {one.tensor.name} lies "
                f"inside of {owner.name} there"
            )
        values = wanted.setdefault(owner, {})
        values[one.value] = _widest(values.get(one.value, NO_PAD), pad)
    found = {}
    for owner, values in wanted.items():
        value = owner.zero_point if owner.zero_point in values else next(iter(values))
        if values[value] != NO_PAD:
            found[owner] = Border(values[value], value)
    for one in readers:
        owner = places[one.tensor].owner if one.tensor in places else one.tensor
        if owner in found and found[owner].value != one.value:
            told.append(
                f"{one.node.label}: loads write its padding of {one.value}, for the border of "
                f"{owner.name} holds {found[owner].value}"
            )
    return found, told


def outer(pad: Pad, tensor: Tensor, place: Place) -> Pad:
    """The sides of a part on which nothing of its region is in the way."""
    owner = place.owner
    if place.columns > 1:
        return NO_PAD
    return Pad(
        pad.top if place.row == 0 else 0,
        pad.bottom if place.row + tensor.height == owner.height else 0,
        pad.left if place.column == 0 else 0,
        pad.right if place.column + tensor.width == owner.width else 0,
    )


def _readers(macros: Sequence[Macro]) -> Iterator[Reader]:
    """Macro nodes read maps with padding where they begin; what is behind works in accumulators."""
    for macro in macros:
        node = macro.nodes[0]
        if isinstance(node.operator, Conv | Pool):
            data, made, window = node.inputs[0], node.output, node.operator.window
            stop = [
                (count - 1) * stride - before + reach - length
                for count, stride, before, reach, length in zip(
                    (made.height, made.width), window.stride, (window.pad.top, window.pad.left),
                    window.reach, (data.height, data.width), strict=True,
                )
            ]  # fmt: skip
            pad = Pad(window.pad.top, max(0, stop[0]), window.pad.left, max(0, stop[1]))
            if pad != NO_PAD:
                yield Reader(node, data, pad, padding_value(node))


def _widest(one: Pad, other: Pad) -> Pad:
    return Pad(*map(max, one, other))


NO_BORDERS: Mapping[Tensor, Border] = {}
