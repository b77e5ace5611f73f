"""Random layers around tables and products: activations, gates, attention, and host nodes between
layers.
"""

from __future__ import annotations

import math

import numpy as np

from tests.compiler.random_layers import (
    Network,
    UnfitError,
    Value,
    conv,
    hosted,
    step,
)

ELEMENTWISE = ("Tanh", "Sigmoid", "Exp", "Softplus", "Elu", "Abs", "Neg", "HardSigmoid", "Erf")
FUNCTIONS = {
    **dict.fromkeys(ELEMENTWISE, 1), "Selu": 6, "Softsign": 1, "Sin": 7, "Atan": 7, "Floor": 1,
    "Round": 11, "ThresholdedRelu": 10, "Celu": 12, "HardSwish": 14, "Mish": 18, "Gelu": 20,
}  # fmt: skip
"""First opset of each operator of one number."""


@step()
def table(net: Network, x: Value) -> None:
    """Add a function of one number: one node, or the nodes that exporters write."""
    kind = net.choice("one", "one", "silu", "hard swish", "gelu", "mish", "square")
    if kind == "one":
        known = [name for name, first in FUNCTIONS.items() if first <= net.opset]
        net.add(net.choice(*known), [x.name], x.shape)
    elif kind == "square":
        two = net.constant(np.float32(2))
        net.add("Pow", [x.name, two], x.shape)
    else:
        composed(net, x, kind)


def composed(net: Network, x: Value, kind: str) -> Value:
    """Add an activation of several nodes; return its result."""

    def number(value: float) -> str:
        return net.constant(np.float32(value))

    def add(kind: str, *inputs: str) -> str:
        return net.add(kind, list(inputs), x.shape).name

    if kind == "silu":
        factor = add("Sigmoid", x.name)
    elif kind == "mish":
        factor = add("Tanh", add("Softplus", x.name))
    elif kind == "hard swish":
        factor = add("Clip", add("Add", x.name, number(3)), number(0), number(6))
        factor = add("Div", factor, number(6))
    else:
        factor = add("Add", add("Erf", add("Div", x.name, number(math.sqrt(2)))), number(1))
        factor = add("Mul", factor, number(0.5))
    return net.add("Mul", net.choice([x.name, factor], [factor, x.name]), x.shape)


@step(4)
def gate(net: Network, x: Value) -> None:
    """Add squeeze and excitation."""
    if x.shape[1] < 2:
        raise UnfitError
    channels, inner = x.shape[1], net.choice(1, 2, 8)
    kind = net.choice("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean")
    if kind == "ReduceMean" and net.opset >= 18:
        kind = "GlobalAveragePool"
    more = {"axes": [2, 3], "keepdims": 1} if kind == "ReduceMean" else {}
    y = net.add(kind, [x.name], (1, channels, 1, 1), **more)
    y = net.add("Conv", [y.name, net.weights(inner, channels, 1, 1)], (1, inner, 1, 1))
    y = composed(net, y, "silu") if net.chance(0.3) else net.add("Relu", [y.name], y.shape)
    y = net.add("Conv", [y.name, net.weights(channels, inner, 1, 1)], (1, channels, 1, 1))
    y = net.add(net.choice("Sigmoid", "HardSigmoid", "Tanh"), [y.name], y.shape)
    net.add("Mul", net.choice([x.name, y.name], [y.name, x.name]), x.shape)


@step(4)
def product(net: Network, x: Value) -> None:
    """Multiply a map with a layer of it, with one number per pixel, or with itself."""
    kind = net.choice("layer", "pixel", "itself")
    other = x
    if kind != "itself":
        outputs = x.shape[1] if kind == "layer" else 1
        w = net.weights(outputs, x.shape[1], 1, 1)
        other = net.add("Conv", [x.name, w], (1, outputs, *x.shape[2:]))
        if net.chance(0.5):
            other = net.add("Sigmoid", [other.name], other.shape)
    net.add("Mul", net.choice([x.name, other.name], [other.name, x.name]), x.shape)


@step(4)
def attention(net: Network, x: Value) -> None:
    """Add softmax(q k) v of the pixels, or the normalisation of a transformer."""
    channels, pixels = x.shape[1], math.prod(x.shape[2:])
    if pixels > 64:
        raise UnfitError
    flat = net.add(
        "Reshape", [x.name, net.constant(np.array([1, channels, pixels]))], (1, channels, pixels)
    )
    rows = net.add("Transpose", [flat.name], (1, pixels, channels), perm=[0, 2, 1])
    if net.opset >= 17 and net.chance(0.5):
        parts = [net.vector(channels, 0.5, 1.5), net.vector(channels)]
        net.add("LayerNormalization", [rows.name, *parts], rows.shape)
        return
    q, v = (
        net.add("MatMul", [rows.name, net.weights(channels, channels)], rows.shape)
        for _ in range(2)
    )
    scores = net.add("MatMul", [q.name, flat.name], (1, pixels, pixels))
    scores = net.add("Softmax", [scores.name], scores.shape, axis=-1)
    net.add("MatMul", [scores.name, v.name], rows.shape)


@step(4)
def host_between(net: Network, x: Value) -> None:
    """Add a node between two convolutions."""
    before, made = net.values, [x]
    for layer in (conv, hosted, conv):
        net.values = made[-1:]
        if not layer(net):
            break
        made += net.values[1:]
    net.values = [*before, *made[1:]]
