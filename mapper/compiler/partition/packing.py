"""Where the host changes the layout of maps: packs values in vectors of channels, and unpacks them.

A core reads and writes maps packed. Work of the host between two functions of the cores that goes
element by element runs on the packed layout as well, and nothing is packed or unpacked there: the
host's plan follows the lists that are made here. Values of the user, a model's inputs and outputs,
are never packed, nor is what later functions or work behind them take: where such a value is made
or taken between two functions, it counts as work that is not element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mapper.compiler.graph.graph import View
from mapper.compiler.graph.node import Host, Node, Quantise
from mapper.compiler.graph.tensor import Tensor
from mapper.compiler.partition.functions import Function, Partition

ELEMENTWISE = frozenset(
    {"Abs", "Acos", "Asin", "Atan", "Ceil", "Celu", "Clip", "Cos", "Elu", "Erf", "Exp", "Floor"}
    | {"HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu"}
    | {"Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"}
    | {"ThresholdedRelu", "Identity", "Gelu", "Swish", "Add", "Sub", "Mul", "Div", "Max", "Min"}
)
"""Operators of ONNX that compute each element by itself; of several maps, if they are alike."""


IN_VECTORS = ("int8", "int16")
"""Types of maps whose vectors the host works on as they lie; not bits, nor sums of 32 bits."""


class Part(NamedTuple):
    """A function of cores, or work of the host, of a model in the order in which it runs.

    elementwise : of the host's, whether each element of its result is made of those at its place,
        and all that it takes is there in vectors
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
    """The functions of a partition and the work of the host between them."""
    parts: list[Part] = []
    before: Function | None = None
    for number, name in enumerate(partition.names()):
        function = partition.functions[number]
        if before is None:
            parts += [_part(node) for node in function.host if isinstance(node.operator, Host)]
        else:
            parts += _between(before, function, _elsewhere(partition, number))
        parts.append(Part(name, on_cores=True))
        before = function
    parts += [_part(node) for node in partition.host if isinstance(node.operator, Host)]
    return parts


def _part(node: Node) -> Part:
    return Part(node.sources[0], on_cores=False, elementwise=is_elementwise(node))


def _between(before: Function, function: Function, elsewhere: set[Tensor]) -> list[Part]:
    """The work between two functions, nodes and then values that must not be packed.

    elsewhere : what is taken there and by the user
    """
    parts: list[Part] = []
    packed = {tensor for tensor in before.results if tensor.type in IN_VECTORS}
    seen = set(before.results)
    for node in function.host:
        alike = is_elementwise(node) or _stores_alone(node)
        fits = alike and all(one in packed for one in node.inputs)
        if fits:
            packed |= set(node.outputs)
        if isinstance(node.operator, Host):
            parts.append(Part(node.sources[0], on_cores=False, elementwise=fits))
        seen |= set(node.outputs)
    loose = [one for one in seen if one in elsewhere]
    loose += [one for one in function.inputs if one not in packed]
    return parts + [Part(name, on_cores=False) for name in sorted({one.name for one in loose})]


def _elsewhere(partition: Partition, number: int) -> set[Tensor]:
    """What the user gets, and what is taken behind a function, by the host or for cores."""
    later = partition.functions[number + 1 :]
    hosted = [*partition.host, *(node for one in later for node in one.host)]
    taken = [tensor for node in hosted for tensor in node.inputs]
    return {*partition.outputs, *taken, *(tensor for one in later for tensor in one.inputs)}


def _stores_alone(node: Node) -> bool:
    """Whether a node stores real numbers by a scale and nothing else, pixel by pixel."""
    operator = node.operator
    alone = isinstance(operator, Quantise) and operator.levels is None
    return alone and node.output.type in IN_VECTORS and not node.output.planes


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
        stop = parts[number + 1 : numbers[at + 1]] if at + 1 < len(numbers) else None
        packing.append(
            Packing(parts[number].name, _changes(before), _changes(stop)),
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
