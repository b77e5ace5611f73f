"""Which values of a partly quantised model result from integers alone.

The cores have the same integers there. Other values depend on real numbers that cores round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
NORMALISATION = "BatchNormalization"  # its factors are quotients, which are rounded
ACTIVATIONS = (
    "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "PRelu", "Relu", "Selu",
    "Sigmoid", "Softplus", "Softsign", "Tanh",
)  # fmt: skip


class Integers:
    """The nodes of a model in which integer operators were replaced by `plain_model`."""

    def __init__(self, graph: Any, given: str) -> None:
        """given : name of the model's input"""
        from onnx import numpy_helper

        self._input = given
        self._kinds = {name: node.op_type for node in graph.node for name in node.output}
        self._taken = {name: list(node.input) for node in graph.node for name in node.output}
        wanted = {name for node in graph.node if _is_scaling(node) for name in node.input[1:]}
        self._scalings = {
            one.name: numpy_helper.to_array(one) for one in graph.initializer if one.name in wanted
        }

    def are(self, name: str, known: Collection[str]) -> bool:
        """Return whether a quantised value results from integers alone.

        It does if one layer, with or without an activation, computes it from known values or other
        such values, and from quantised weights.
        """
        if self._kinds[name] != "QuantizeLinear":
            return self._kinds[name] == "DequantizeLinear" and self._is_whole(
                self._taken[name][0], known
            )
        value = self._taken[name][0]
        if value == self._input or self._is_whole(value, known) or self._is_layer(value, known):
            return True
        inner, *rest = self._taken[value]
        alone = sum(inputs.count(inner) for inputs in self._taken.values()) == 1
        return (
            self._kinds[value] in ACTIVATIONS and alone and self._is_layer(inner, known)
            and all(map(self._is_constant, rest))
        )  # fmt: skip

    def _is_whole(self, value: str, known: Collection[str]) -> bool:
        if value in known or self._is_constant(value):
            return True
        return value in self._taken and self.are(value, known) and not self._keeps_scale(value)

    def _is_layer(self, value: str, known: Collection[str]) -> bool:
        kind, inputs = self._kinds.get(value), self._taken.get(value, [])
        if kind is None or kind == NORMALISATION or (kind in WEIGHTED and self._is_real(inputs[1])):
            return False
        return all(self._is_whole(one, known) for one in inputs)

    def _keeps_scale(self, name: str) -> bool:
        """Return whether a value is quantised as an input of its layer: then compile may omit its
        rounding."""
        if self._kinds[name] != "QuantizeLinear":
            return False
        value, *how = self._taken[name]
        return any(
            self._kinds.get(one) == "DequantizeLinear" and self._same(self._taken[one][1:], how)
            for one in (value, *self._taken.get(value, ()))
        )

    def _same(self, names: Sequence[str], others: Sequence[str]) -> bool:
        return all(
            one == other
            or (
                {one, other} <= set(self._scalings)
                and np.array_equal(self._scalings[one], self._scalings[other])
            )
            for one, other in zip(names, others, strict=False)
        )

    def _is_constant(self, value: str) -> bool:
        origin = {value, *computed_by(self._taken, value)}
        return self._input not in origin.union(*(self._taken.get(one, ()) for one in origin))

    def _is_real(self, weights: str) -> bool:
        """Return whether weights are constants in real numbers."""
        kinds = {self._kinds.get(one) for one in (weights, *computed_by(self._taken, weights))}
        return self._is_constant(weights) and "DequantizeLinear" not in kinds


def computed_by(taken: Mapping[str, Sequence[str]], name: str) -> set[str]:
    """Return the names of the values that a value is computed from, up to those that no node
    makes.

    taken : inputs of the node that makes a value, by the name of the value
    """
    found: set[str] = set()
    waiting = list(taken.get(name, ()))
    while waiting:
        one = waiting.pop()
        if one in taken and one not in found:
            found.add(one)
            waiting += taken[one]
    return found


def _is_scaling(node: Any) -> bool:
    return node.op_type in ("QuantizeLinear", "DequantizeLinear")
