"""Weights and biases as a quantised model stores them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Node
from mapper.compiler.ir.stored import WIDE_WEIGHTS, Stored, is_wide, steps_of
from mapper.compiler.numerics.formulas import half_away


def store_weights(
    graph: Graph, layer: Node, values: NDArray[np.int64], scales: NDArray[np.float32]
) -> None:
    """Replace the weights of a layer by integers with scales, shape (outputs,)."""
    wide = scales.reshape(-1, *(1,) * (values.ndim - 1))
    layer.inputs[1] = replace(layer.inputs[1], value=values.astype(np.float32) * wide)
    graph.quantised[layer.inputs[1]] = Stored(values, scales)


def stored_weights(graph: Graph, node: Node) -> tuple[NDArray[np.int64], NDArray[np.float32]] | str:
    """Return integer weights minus zero points, shape of the kernels, and scales, shape (outputs,).

    Returns the reason as text if there are none.
    """
    tensor = node.inputs[1]
    stored, real = graph.quantised.get(tensor), tensor.numbers
    if stored is None:
        return "its weights are not quantised"
    outputs = real.shape[0]
    if stored.scale.size > 1 and stored.values.shape[stored.axis] != outputs:
        return "its weights have scales along an axis other than the outputs"
    scales = np.broadcast_to(stored.scale, (outputs,))
    wide = scales.reshape(-1, *(1,) * (real.ndim - 1))
    values = np.rint(real / wide).astype(np.int64)
    if not np.array_equal(values.astype(np.float32) * wide, real):
        return "its weights are changed after dequantisation"
    if is_wide(values):
        return WIDE_WEIGHTS
    return values, scales


def stored_bias(graph: Graph, node: Node, unit: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the bias in integers as the model stores it; real numbers round half away from
    zero."""
    if len(node.inputs) < 3:
        return np.zeros(unit.size, np.int64)
    tensor = node.inputs[2]
    stored, real = graph.quantised.get(tensor), tensor.numbers
    if stored is not None and np.allclose(stored.scale, unit, rtol=1e-5, atol=0):
        values = stored.values.astype(np.int64) - stored.zero_point.astype(np.int64)
        return np.broadcast_to(values.reshape(-1), unit.shape)
    return half_away(steps_of(real, unit, node.label))
