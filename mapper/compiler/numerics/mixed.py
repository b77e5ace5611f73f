"""Execution of graphs that mix real numbers and stored integers."""

from __future__ import annotations

from mapper.compiler.ir.node import Dequantise, Host, Node, Operator
from mapper.compiler.numerics.execute import Data, Rule, Rules
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.formulas import dequantise
from mapper.compiler.numerics.reference import INTEGER


def _either(kind: type[Operator]) -> Rule:
    """Return a rule that selects the floating-point or integer rule by the type of the input."""

    def rule(node: Node, inputs: list[Data]) -> Data | list[Data]:
        real = node.inputs[0].type == "float32"
        return (FLOATING if real else INTEGER)[kind](node, inputs)

    return rule


def _real(node: Node, inputs: list[Data]) -> Data:
    data = node.inputs[0]
    return dequantise(inputs[0], data.scale, data.zero_point)


MIXED: Rules = {
    **INTEGER,
    **FLOATING,
    **{kind: _either(kind) for kind in FLOATING if kind in INTEGER},
    Host: INTEGER[Host],
    Dequantise: _real,
}
"""Rules for real numbers and integers; nodes that convert between them are explicit."""
