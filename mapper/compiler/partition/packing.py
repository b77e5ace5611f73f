"""Layout changes by the host: packing values in vectors of channels, and unpacking them.

Cores read and write packed feature maps. Elementwise host nodes between two functions of the cores
also run on the packed layout, without packing or unpacking; the host plan follows the lists that
are built here. User-visible values (model inputs and outputs) are never packed, nor are values that
later functions or host nodes read: if such a value is computed or read between two functions, it
counts as a node that is not elementwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Host, Node, Quantise
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.partition.functions import Function, Partition

ELEMENTWISE = frozenset(
    {
        "Abs",
        "Acos",
        "Asin",
        "Asinh",
        "Atan",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
    }
    | {"HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg", "Reciprocal", "Relu"}
    | {"Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"}
    | {"ThresholdedRelu", "Identity", "Gelu", "Swish", "Add", "Sub", "Mul", "Div", "Max", "Min"}
)
"""ONNX operators that compute each element separately; with several inputs: of the same shape."""


IN_VECTORS = ("int8", "int16")
"""Types that the host can process in packed vectors; not bits, nor 32-bit sums."""


class ExecutionPart(NamedTuple):
    """A function of cores, or a host node, in order of execution.

    elementwise : for host nodes: each element of the result depends only on the elements at its
        position, and all inputs are available in vectors
    """

    name: str
    on_cores: bool
    elementwise: bool = False


class PackedFunction(NamedTuple):
    """A function of cores; pack, unpack : layout changes before and after it."""

    name: str
    pack: bool
    unpack: bool


class PackingLists(NamedTuple):
    """The three lists of a partition: all parts, functions of cores, and layout changes.

    Parts are listed with their index.
    """

    parts: list[tuple[str, int]]
    functions: list[tuple[str, int]]
    packing: list[PackedFunction]


def in_parts(partition: Partition) -> PackingLists:
    """Return lists with a layout change around every function: for maps in parts on several cores,
    which are not stored in the vectors of a whole map."""
    return PackingLists([], [], [PackedFunction(name, True, True) for name in partition.names()])


def parts_of(partition: Partition) -> list[ExecutionPart]:
    """Return the functions of a partition and the host nodes between them."""
    parts: list[ExecutionPart] = []
    before: Function | None = None
    for number, name in enumerate(partition.names()):
        function = partition.functions[number]
        if before is None:
            parts += [_part(node) for node in function.host if isinstance(node.operator, Host)]
        else:
            parts += _between(before, function, _elsewhere(partition, number))
        parts.append(ExecutionPart(name, on_cores=True))
        before = function
    parts += [_part(node) for node in partition.host if isinstance(node.operator, Host)]
    return parts


def _part(node: Node) -> ExecutionPart:
    return ExecutionPart(node.sources[0], on_cores=False, elementwise=is_elementwise(node))


def _between(before: Function, function: Function, elsewhere: set[Tensor]) -> list[ExecutionPart]:
    """Return the host nodes between two functions, followed by values that must not be packed.

    elsewhere : values that are used later or by the user
    """
    parts: list[ExecutionPart] = []
    packed = {tensor for tensor in before.results if tensor.type in IN_VECTORS}
    seen = set(before.results)
    for node in function.host:
        alike = is_elementwise(node) or _stores_alone(node)
        fits = alike and all(one in packed for one in node.inputs)
        if fits:
            packed |= set(node.outputs)
        if isinstance(node.operator, Host):
            parts.append(ExecutionPart(node.sources[0], on_cores=False, elementwise=fits))
        seen |= set(node.outputs)
    loose = [one for one in seen if one in elsewhere]
    loose += [one for one in function.inputs if one not in packed]
    return parts + [
        ExecutionPart(name, on_cores=False) for name in sorted({one.name for one in loose})
    ]


def _elsewhere(partition: Partition, number: int) -> set[Tensor]:
    """Return model outputs, and values that the host or cores read after a function."""
    later = partition.functions[number + 1 :]
    hosted = [*partition.host, *(node for one in later for node in one.host)]
    taken = [tensor for node in hosted for tensor in node.inputs]
    return {*partition.outputs, *taken, *(tensor for one in later for tensor in one.inputs)}


def _stores_alone(node: Node) -> bool:
    """Return whether a node quantises by a scale only, pixel by pixel."""
    operator = node.operator
    alone = isinstance(operator, Quantise) and operator.levels is None
    return alone and node.output.type in IN_VECTORS and not node.output.planes


def is_elementwise(node: Node) -> bool:
    """Return whether a host node computes each element only from the elements at its position, so
    that any layout is possible."""
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


def packing_lists(parts: Sequence[ExecutionPart]) -> PackingLists:
    """Return the three lists of parts in order of execution.

    pack : True for the first function, or if a host node between it and the previous one is not
        elementwise; unpack : the same for the next function, or for the last one
    """
    numbers = [number for number, part in enumerate(parts) if part.on_cores]
    packing = []
    for at, number in enumerate(numbers):
        before = parts[numbers[at - 1] + 1 : number] if at else None
        stop = parts[number + 1 : numbers[at + 1]] if at + 1 < len(numbers) else None
        packing.append(
            PackedFunction(parts[number].name, _changes(before), _changes(stop)),
        )
    return PackingLists(
        [(part.name, number) for number, part in enumerate(parts)],
        [(parts[number].name, number) for number in numbers],
        packing,
    )


def _changes(between: Sequence[ExecutionPart] | None) -> bool:
    """Return whether the layout must be unpacked in between; None stands for the user's end."""
    return between is None or any(not part.elementwise for part in between)


def packing_text(lists: PackingLists) -> str:
    """Return the three lists as text."""
    lines = [f"part {number}: {name}" for name, number in lists.parts]
    lines += [f"function of cores, part {number}: {name}" for name, number in lists.functions]
    words = {True: "yes", False: "no"}
    lines += [
        f"{one.name}: pack {words[one.pack]}, unpack {words[one.unpack]}" for one in lists.packing
    ]
    return "\n".join(lines) + "\n"
