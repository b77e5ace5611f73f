"""Stored padding: borders around feature maps in memory, preset once instead of written by loads.

A region has one border, common to all its parts; on each side it is as wide as the widest overhang
of its readers' windows. Windows with less overhang start further inside. A border holds a single
value: the zero point if any reader requires it, otherwise the value that its readers share. Readers
of another value (e.g. max pooling next to a convolution), and sides of a part that are inside its
region, are padded by loads, as without a border.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Conv, Node, Pool
from mapper.compiler.ir.tensor import NO_PAD, Pad, Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.regions import Place, Places

SIDES = ("top", "bottom", "left", "right")


class Border(NamedTuple):
    """Width of the border around a region, and the value of its bytes."""

    pad: Pad
    value: int


class Reader(NamedTuple):
    """A node whose windows reach over the edges of a feature map: overhang and padding value."""

    node: Node
    tensor: Tensor
    pad: Pad
    value: int


def padding_value(node: Node) -> int:
    """Return the padding value of a node: the smallest for max pooling, else the zero point."""
    data = node.inputs[0]
    if isinstance(node.operator, Pool) and node.operator.kind == "max":
        return data.low
    return data.zero_point


def borders_of(macros: Sequence[Macro], places: Places, log: CompileLog) -> dict[Tensor, Border]:
    """Return the border of each map that owns a region and needs one; log paddings that loads still
    write."""
    wanted: dict[Tensor, dict[int, Pad]] = {}
    readers = list(_readers(macros))
    for one in readers:
        owner, pad = one.tensor, one.pad
        if one.tensor in places:
            owner, pad = places[one.tensor].owner, outer(one.pad, one.tensor, places[one.tensor])
        if pad != one.pad:
            inside = ", ".join(
                side for side, a, b in zip(SIDES, pad, one.pad, strict=True) if a < b
            )
            log.add(
                f"{one.node.label}: loads write its padding ({inside}): {one.tensor.name} is "
                f"inside {owner.name} there"
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
            log.add(
                f"{one.node.label}: loads write its padding of {one.value}: the border of "
                f"{owner.name} holds {found[owner].value}"
            )
    return found


def outer(pad: Pad, tensor: Tensor, place: Place) -> Pad:
    """Return the padding of a part on sides at the edge of its region; 0 on other sides."""
    owner = place.owner
    if (place.columns, place.row_step, place.column_step) != (1, 1, 1):
        return NO_PAD
    return Pad(
        pad.top if place.row == 0 else 0,
        pad.bottom if place.row + tensor.height == owner.height else 0,
        pad.left if place.column == 0 else 0,
        pad.right if place.column + tensor.width == owner.width else 0,
    )


def _readers(macros: Sequence[Macro]) -> Iterator[Reader]:
    """Yield the readers of padding: only the first node of a macro node reads from memory."""
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
