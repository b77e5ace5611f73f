"""ONNX nodes that replace one node of an operator without a kernel in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TO_EVEN = np.float32(1.5 * 2**23)
"""Added and subtracted again, it rounds numbers below 2^22, halves to even, in any opset."""
STANDARD = ("", "ai.onnx")
"""Names of the domain of the operators of ONNX."""
MICROSOFT = "com.microsoft"
"""Domain of ONNX Runtime; some operators share names, inputs and outputs with the standard."""


def version_of(opsets: Iterable[tuple[str, int]]) -> int:
    """Return the version of the operators of ONNX; opsets : domains and versions"""
    return next((version for domain, version in opsets if domain in STANDARD), 1)


class Expanded:
    """Nodes that replace one without a kernel in ONNX Runtime."""

    def __init__(
        self, proto: Any, constants: Mapping[str, Array], prefix: str, version: int
    ) -> None:
        """prefix : of the names of values; version : opset of the new nodes"""
        self.proto, self.constants, self.prefix = proto, constants, prefix
        self.version = version
        self.nodes: list[Any] = []
        self.made: dict[str, Array] = {}
        self.attributes = {one.name: _value(one) for one in proto.attribute}

    def constant(self, value: Any) -> str:
        name = f"{self.prefix}.c{len(self.made)}"
        self.made[name] = np.asarray(value)
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **more: Any) -> str:
        from onnx import helper

        name = output or f"{self.prefix}.v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **more))
        return name

    def known(self, place: int) -> Array:
        """Return a constant input; raise `KeyError` if it is not constant."""
        return self.constants[self.proto.input[place]]

    def number(self, name: str) -> float:
        """Return an attribute that is a number, or a tensor of one number; raise `KeyError` if it
        is missing."""
        from onnx import TensorProto, numpy_helper

        found = self.attributes[name]
        whole = numpy_helper.to_array(found) if isinstance(found, TensorProto) else found
        return float(np.asarray(whole).reshape(()))

    def reduced(self, kind: str, value: str, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add a reduction, whose axes are an input in newer opsets."""
        given = [int(axis) for axis in axes]
        if self.version < (13 if kind == "ReduceSum" else 18):
            return self.node(kind, value, axes=given, keepdims=keepdims)
        return self.node(kind, value, self.constant(np.array(given)), keepdims=keepdims)

    def rounded(self, value: str, mode: str) -> str:
        match mode.upper():
            case "FLOOR":
                return self.node("Floor", value)
            case "CEIL":
                return self.node("Ceil", value)
            case "ROUND_TO_ZERO" | "DOWN":
                whole = self.node("Floor", self.node("Abs", value))
                return self.node("Mul", self.node("Sign", value), whole)
            case _:
                large = self.constant(TO_EVEN)
                return self.node("Sub", self.node("Add", value, large), large)

    def mode(self, usual: str) -> str:
        found = self.attributes.get("rounding_mode", usual.encode())
        return str(found.decode())


def _value(attribute: Any) -> Any:
    from onnx import helper

    return helper.get_attribute_value(attribute)
