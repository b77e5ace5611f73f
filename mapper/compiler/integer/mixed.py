"""Running graphs of which some nodes compute real numbers, others stored integers."""

from __future__ import annotations

from mapper.compiler.graph.execute import Data, Rule, Rules
from mapper.compiler.graph.floating import FLOATING
from mapper.compiler.graph.node import Dequantise, Host, Node, Operator
from mapper.compiler.integer.formulas import dequantise
from mapper.compiler.integer.reference import INTEGER


def _either(kind: type[Operator]) -> Rule:
    """The rule for real numbers where a node takes some, and the one for integers elsewhere."""

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
"""Of integers as of real numbers: nodes between both say so."""
