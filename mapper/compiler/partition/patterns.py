"""Functions of the cores as operators, at two levels with bit-identical results.

Quantised operators include scales and zero points: q.conv2d, q.bias_add, q.requantize, q.relu and
similar ones. They are lowered to operators with the arithmetic of a core: conv2d_zp pads with the
zero point and multiplies stored integers, bias_add_zp includes the zero point in the bias,
round_rshift and round_multiply scale, followed by add, max and min.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Conv, Node, Requantise
from mapper.compiler.ir.requantisation import Requantisation
from mapper.compiler.partition.functions import Partition
from mapper.compiler.program.inputs import constants_of

TARGET = "npu"
RELATIVES = {"pool": "q.pool", "add": "q.add", "clamp": "q.relu", "concat": "q.concat"}
"""Names of operators that are the same at both levels, by kind of node."""


class QOperator(NamedTuple):
    """An operator; its values are identified by tensor names.

    given : constant numbers and arrays, by name
    """

    kind: str
    inputs: tuple[str, ...]
    output: str
    given: dict[str, Any]


class OperatorGroup(NamedTuple):
    """Operators that a core runs together. nodes : nodes of the model"""

    nodes: tuple[str, ...]
    operators: list[QOperator]


class QFunction(NamedTuple):
    """A function that is extracted for a target."""

    name: str
    target: str
    groups: list[OperatorGroup]


def quantised_functions(partition: Partition) -> list[QFunction]:
    """Return the functions of cores as quantised operators, in groups."""
    return [
        QFunction(name, TARGET, [_group(one) for one in partition.macros[f.first : f.stop]])
        for name, f in zip(partition.names(), partition.functions, strict=True)
    ]


def lowered(functions: Sequence[QFunction]) -> list[QFunction]:
    """Lower functions of quantised operators to operators of cores."""
    return [
        function._replace(
            groups=[
                group._replace(operators=[low for one in group.operators for low in _lower(one)])
                for group in function.groups
            ]
        )
        for function in functions
    ]


def _group(macro: Macro) -> OperatorGroup:
    around = [[one] if one else [] for one in (macro.windows, macro.sign)]
    nodes = [*around[0], *macro.nodes, *around[1]]
    return OperatorGroup(macro.sources, [one for node in nodes for one in _quantised(node)])


def _quantised(node: Node) -> list[QOperator]:
    name = node.output.name
    taken = tuple(tensor.name for tensor in node.inputs if tensor.value is None)
    if isinstance(node.operator, Conv):
        data, (weights, bias) = node.inputs[0], constants_of(node)
        zero_point = data.zero_point if data.type != "bits" else 0
        sums = weights.reshape(len(weights), -1).sum(1).astype(np.int64)
        how = {"weights": weights, "zero_point": zero_point, "operator": node.operator}
        return [
            QOperator("q.conv2d", taken, f"{name}.products", how),
            QOperator(
                "q.bias_add", (f"{name}.products",), name, {
                    "bias": bias + zero_point * sums, "zero_point": zero_point,
                    "sums": sums,
                },
            ),
        ]  # fmt: skip
    if isinstance(node.operator, Requantise):
        how = {"how": node.operator.how, "scale": node.output.scale}
        return [QOperator("q.requantize", taken, name, how)]
    return [QOperator(RELATIVES.get(node.kind, f"q.{node.kind}"), taken, name, {"node": node})]


def _lower(one: QOperator) -> list[QOperator]:
    if one.kind == "q.conv2d":
        return [one._replace(kind="conv2d_zp")]
    if one.kind == "q.bias_add":
        given = one.given
        bias = {"bias": given["bias"] - given["zero_point"] * given["sums"]}
        return [one._replace(kind="bias_add_zp", given=bias)]
    if one.kind == "q.requantize":
        return _scaled(one, one.given["how"])
    return [one]


def _scaled(one: QOperator, how: Requantisation) -> list[QOperator]:
    """Return the operators of a requantisation; negative sums may have a separate factor."""
    steps: list[tuple[str, dict[str, Any]]] = []
    if np.any(how.shift):
        steps.append(("round_rshift", {"n": how.shift, "rounding": how.rounding}))
    factor: dict[str, Any] = {"m0": how.factor.m0, "offset": how.offset}
    shift: dict[str, Any] = {"n": how.factor.n, "rounding": how.rounding}
    if how.negative is not None:
        factor["negative_m0"], shift["negative_n"] = how.negative.m0, how.negative.n
    steps += [
        ("round_multiply", factor),
        ("round_rshift", shift),
        ("add", {"value": how.zero_point}),
        ("max", {"value": how.low}),
        ("min", {"value": how.high}),
    ]
    made, before = [], one.inputs
    for at, (kind, given) in enumerate(steps):
        output = one.output if at + 1 == len(steps) else f"{one.output}.{at}"
        made.append(QOperator(kind, before, output, given))
        before = (output,)
    return made


def functions_text(functions: Sequence[QFunction]) -> str:
    """Return a line per operator, by group and function."""
    lines = []
    for function in functions:
        lines.append(f"function {function.name}, target {function.target}")
        for group in function.groups:
            lines.append(f"  group of {', '.join(group.nodes)}")
            for one in group.operators:
                given = ", ".join(_said(name, value) for name, value in one.given.items())
                lines.append(f"    {one.kind:<14} {one.output} <- {', '.join(one.inputs)}  {given}")
    return "\n".join(lines) + "\n"


def _said(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 4:
        return f"{name} {value.dtype}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{name} {value.tolist()}"
    if isinstance(value, Node):
        return f"{name} {value.label}"
    return f"{name} {value}"
