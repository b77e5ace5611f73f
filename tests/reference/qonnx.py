"""Reference implementation of low-bit QONNX models in float64, node by node, without integers."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def run(model: Any, x: Array) -> dict[str, Array]:
    """Return all values of a model by name, for frames of its one input."""
    from onnx import helper, numpy_helper

    values: dict[str, Any] = {
        one.name: numpy_helper.to_array(one).astype(np.float64) for one in model.graph.initializer
    }
    given = [one.name for one in model.graph.input if one.name not in values]
    values[given[0]] = x.astype(np.float64)
    for node in model.graph.node:
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        inputs = [values[name] for name in node.input]
        values[node.output[0]] = one_node(node.op_type, inputs, attributes)
    return values


def one_node(kind: str, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    a = inputs[0]
    b = inputs[1] if len(inputs) > 1 else None
    if kind == "Shape":
        return np.array(a.shape)
    if kind == "Gather":
        return np.array(a[int(b)])
    if kind == "Unsqueeze":
        return np.array(a).reshape(1)
    if kind == "Concat":
        return np.concatenate([np.atleast_1d(one) for one in inputs])
    if kind == "Reshape":
        return a.reshape(len(a), -1)
    if kind == "Transpose":
        return a.T
    if kind == "MatMul":
        return a @ b
    if kind == "BatchNormalization":
        _, gamma, beta, mean, variance = inputs
        axes = (1, -1) + (1,) * (a.ndim - 2)
        gamma, beta, mean, variance = (one.reshape(axes) for one in (gamma, beta, mean, variance))
        return gamma * (a - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5)) + beta
    if kind == "BipolarQuant":
        return np.where(a >= 0, b, -b)
    if kind == "Quant":
        return quant(*inputs, **attributes)
    if kind == "Relu":
        return np.maximum(a, 0)
    arithmetic = {"Mul": np.multiply, "Sub": np.subtract, "Add": np.add, "Div": np.divide,
                  "Pow": np.power}  # fmt: skip
    return arithmetic[kind](a, b)


def quant(
    x: Any, scale: Any, zero: Any, bits: Any, signed: int = 1, narrow: int = 0,
    rounding_mode: bytes = b"ROUND",
) -> Any:  # fmt: skip
    levels = 2 ** int(bits)
    least = (-levels // 2 + narrow) if signed else 0
    most = (levels // 2 - 1) if signed else levels - 1 - narrow
    rounded = {b"ROUND": np.round, b"FLOOR": np.floor, b"CEIL": np.ceil}[rounding_mode]
    whole = rounded(np.minimum(np.maximum(x / scale + zero, least), most))
    return (whole - zero) * scale
