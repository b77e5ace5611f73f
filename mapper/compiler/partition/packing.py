"""Where the host changes the layout of maps: packs values in vectors of channels, and unpacks them.

A core reads and writes maps packed. Work of the host between two functions of the cores that goes
element by element can run on the packed layout as well, and then nothing is packed or unpacked
there. Values of the user, a model's inputs and outputs, are never packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mapper.compiler.graph.graph import View
from mapper.compiler.graph.node import Host, Node
from mapper.compiler.partition.functions import Partition

ELEMENTWISE = frozenset(
    {"Abs", "Acos", "Asin", "Atan", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor"}
    | {"HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu"}
    | {"Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"}
    | {"ThresholdedRelu", "Identity", "Gelu", "Swish", "Add", "Sub", "Mul", "Div", "Max", "Min"}
)
"""Operators of ONNX that compute each element by itself; of several maps, if they are alike."""


class Part(NamedTuple):
    """A function of cores, or a node of the host, of a model in the order in which it runs.

    elementwise : of the host's, whether each element of its result is made of those at its place
    """

    name: str
    on_cores: bool
    elementwise: bool = False


class Packing(NamedTuple):
    """A function of cores, and whether values are packed before it and unpacked behind it."""

    name: str
    pack: bool
    unpack: bool


class Lists(NamedTuple):
    """The three lists of a partition: all parts, those of cores, and where layouts change.

    Parts are given with their number among all.
    """

    parts: list[tuple[str, int]]
    functions: list[tuple[str, int]]
    packing: list[Packing]


def parts_of(partition: Partition) -> list[Part]:
    """The functions of a partition and the nodes of the host between them."""
    parts: list[Part] = []
    for name, function in zip(partition.names(), partition.functions, strict=True):
        parts += [_part(node) for node in function.host if isinstance(node.operator, Host)]
        parts.append(Part(name, on_cores=True))
    parts += [_part(node) for node in partition.host if isinstance(node.operator, Host)]
    return parts


def _part(node: Node) -> Part:
    return Part(node.sources[0], on_cores=False, elementwise=is_elementwise(node))


def is_elementwise(node: Node) -> bool:
    """Whether a node of the host computes each element from those at its place alone, so that it
    may see a map in any layout."""
    if not isinstance(node.operator, Host) or node.operator.node.kind not in ELEMENTWISE:
        return False
    made = node.operator.results[0]
    maps = [one for one in node.operator.given if isinstance(one, View)]
    constants = [one for one in node.operator.given if isinstance(one, np.ndarray)]
    alike = all(
        (one.order, one.shape, one.tensor.shape) == (made.order, made.shape, made.tensor.shape)
        for one in maps
    )
    return alike and all(one.size == 1 for one in constants)


def packing_lists(parts: Sequence[Part]) -> Lists:
    """The three lists of some parts, which run one behind the other.

    pack : it is the first function, or there is work between it and the one before that is not
        element by element; unpack likewise with the one behind, or it is the last
    """
    numbers = [number for number, part in enumerate(parts) if part.on_cores]
    packing = []
    for at, number in enumerate(numbers):
        before = parts[numbers[at - 1] + 1 : number] if at else None
        behind = parts[number + 1 : numbers[at + 1]] if at + 1 < len(numbers) else None
        packing.append(
            Packing(parts[number].name, _changes(before), _changes(behind)),
        )
    return Lists(
        [(part.name, number) for number, part in enumerate(parts)],
        [(parts[number].name, number) for number in numbers],
        packing,
    )


def _changes(between: Sequence[Part] | None) -> bool:
    """Whether the layout must be that of the user in some stretch; None is the user's own end."""
    return between is None or any(not part.elementwise for part in between)


def packing_text(lists: Lists) -> str:
    """The three lists, to read."""
    lines = [f"part {number}: {name}" for name, number in lists.parts]
    lines += [f"function of cores, part {number}: {name}" for name, number in lists.functions]
    words = {True: "yes", False: "no"}
    lines += [
        f"{one.name}: pack {words[one.pack]}, unpack {words[one.unpack]}" for one in lists.packing
    ]
    return "\n".join(lines) + "\n"
