"""Small models and compilations of the golden manifest; see scripts/golden.py.

Weights and samples are small multiples of powers of two, so sums of products are exact in 32-bit
floating point in any order, and results do not depend on the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper, save

SAMPLES = 8  # calibration and simulation images
OPSET = 17

Array = NDArray[Any]


class Compilation(NamedTuple):
    """A `mapper compile` of a model. options : options except those common to all"""

    model: str
    options: str
    sample: bool = False


class Network:
    """A model with the input x and the output y, built node by node."""

    def __init__(self, channels: int, side: int, seed: int) -> None:
        self.shape = (1, channels, side, side)
        self.random = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its result."""
        output = name or f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weights(self, *shape: int, most: int = 4, unit: float = 0.25) -> Array:
        """Return multiples of a unit between -most and most units."""
        return (self.random.integers(-most, most + 1, shape) * unit).astype(np.float32)

    def signs(self, *shape: int) -> Array:
        """Return -1 and 1."""
        return self.random.choice(np.float32([-1, 1]), shape)

    def conv(
        self, data: str, inputs: int, outputs: int, size: int = 3, group: int = 1, **attributes: Any
    ) -> str:
        """Add a convolution with a bias; the default padding keeps the side of the feature map."""
        weight = self.constant(self.weights(outputs, inputs // group, size, size))
        bias = self.constant(self.weights(outputs))
        attributes = {"pads": [size // 2] * 4, "group": group} | attributes
        return self.add("Conv", data, weight, bias, **attributes)

    def dense(self, data: str, inputs: int, outputs: int) -> str:
        weight, bias = self.weights(inputs, outputs), self.weights(outputs)
        return self.add("Gemm", data, self.constant(weight), self.constant(bias))

    def pooled(self, data: str) -> str:
        """Add the mean of each channel, as a row."""
        return self.add("Flatten", self.add("GlobalAveragePool", data))

    def model(self, result: str) -> ModelProto:
        self.add("Identity", result, name="y")
        graph = helper.make_graph(
            self._nodes,
            "golden",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


# The models: each function adds nodes to a network and returns the name of its result


def _chain(net: Network) -> str:
    """Strides, padding on one side, dilation."""
    first = net.add("Relu", net.conv("x", 3, 12, strides=[2, 2]))
    second = net.add("Relu", net.conv(first, 12, 20, pads=[0, 0, 1, 1]))
    return net.conv(second, 20, 5, pads=[2] * 4, dilations=[2, 2])


def _depthwise(net: Network) -> str:
    """Depthwise-separable convolutions: one kernel per channel, then 1x1; twice."""
    first = net.add("Relu", net.conv("x", 8, 8, group=8))
    second = net.add("Clip", net.conv(first, 8, 16, 1), net.constant(np.float32(0)),
                     net.constant(np.float32(6)))  # fmt: skip
    third = net.add("Relu", net.conv(second, 16, 16, 5, group=16, strides=[2, 2]))
    return net.conv(third, 16, 8, 1)


def _grouped(net: Network) -> str:
    return net.conv(net.add("LeakyRelu", net.conv("x", 8, 16, group=4), alpha=0.25), 16, 8, group=2)


def _pools(net: Network) -> str:
    """All kinds of pooling, and a final dense layer."""
    first = net.add("Relu", net.conv("x", 4, 12))
    second = net.add("MaxPool", first, kernel_shape=[2, 2], strides=[2, 2])
    third = net.add("Relu", net.conv(second, 12, 12))
    fourth = net.add("AveragePool", third, kernel_shape=[2, 2], strides=[2, 2])
    return net.dense(net.pooled(fourth), 12, 10)


def _residual(net: Network) -> str:
    first = net.add("Relu", net.conv("x", 4, 16))
    branch = net.conv(net.add("Relu", net.conv(first, 16, 16)), 16, 16)
    return net.pooled(net.add("Relu", net.add("Add", first, branch)))


def _concat(net: Network) -> str:
    """Parallel branches with different kernels, as in Inception."""
    first = net.add("Relu", net.conv("x", 3, 8))
    branches = [net.add("Relu", net.conv(first, 8, 6, size)) for size in (1, 3, 5)]
    return net.conv(net.add("Concat", *branches, axis=1), 18, 4, 1)


def _dense(net: Network) -> str:
    first = net.add("Relu", net.dense(net.add("Flatten", "x"), 64, 48))
    return net.dense(net.add("Relu", net.dense(first, 48, 32)), 32, 10)


def _upscaled(net: Network) -> str:
    """Depth to space after a convolution, as in super-resolution."""
    first = net.add("Relu", net.conv("x", 1, 16, 5))
    return net.add("DepthToSpace", net.conv(first, 16, 4), blocksize=2, mode="CRD")


def _normalised(net: Network) -> str:
    """Batch normalisation, and a node in the middle that only the host computes."""
    first = net.conv("x", 3, 8)
    scale, offset, mean = (net.constant(net.weights(8)) for _ in range(3))
    variance = net.constant(np.full(8, 4, np.float32))
    second = net.add("BatchNormalization", first, scale, offset, mean, variance, epsilon=0.0)
    third = net.add("Sqrt", net.add("Relu", second))
    return net.conv(third, 8, 4)


def _qdq(net: Network) -> str:
    """Already quantised, with pairs of QuantizeLinear and DequantizeLinear."""

    def stored(data: str, scale: float) -> str:
        how = [net.constant(np.float32(scale)), net.constant(np.int8(0))]
        return net.add("DequantizeLinear", net.add("QuantizeLinear", data, *how), *how)

    def conv(data: str, inputs: int, outputs: int, scale: float) -> str:
        numbers = net.random.integers(-127, 128, (outputs, inputs, 3, 3)).astype(np.int8)
        how = [net.constant(np.float32(2**-7)), net.constant(np.int8(0))]
        weight = net.add("DequantizeLinear", net.constant(numbers), *how)
        return stored(net.add("Conv", data, weight, pads=[1] * 4), scale)

    return conv(net.add("Relu", conv(stored("x", 2**-5), 3, 12, 2**-4)), 12, 6, 2**-2)


def _qoperator(net: Network) -> str:
    """Already quantised, with integer operators."""
    how = [[net.constant(np.float32(2.0**scale)), net.constant(np.uint8(zero))]
           for scale, zero in ((-5, 128), (-4, 100), (-3, 131))]  # fmt: skip
    data = net.add("QuantizeLinear", "x", *how[0])
    for before, after, inputs, outputs in (*zip(how, how[1:], (4, 12), (12, 6), strict=False),):
        numbers = net.random.integers(-127, 128, (outputs, inputs, 3, 3)).astype(np.int8)
        bias = net.random.integers(-99, 100, outputs).astype(np.int32)
        weight = [net.constant(np.float32(2**-9)), net.constant(np.int8(0))]
        data = net.add("QLinearConv", data, *before, net.constant(numbers), *weight, *after,
                       net.constant(bias), pads=[1] * 4)  # fmt: skip
    return net.add("DequantizeLinear", data, *how[-1])


def _binary(net: Network) -> str:
    """Binary feature maps times binary kernels, between integer layers."""
    data = net.add("Relu", net.conv("x", 3, 16))
    for _ in range(2):
        signs = net.constant(net.signs(16, 16, 3, 3))
        counts = net.add("Conv", net.add("Sign", data), signs, pads=[1] * 4)
        data = net.add("Add", data, counts)
    return net.conv(data, 16, 4, 1)


MODELS: dict[str, tuple[int, int, Callable[[Network], str]]] = {
    "chain": (3, 16, _chain),
    "depthwise": (8, 12, _depthwise),
    "grouped": (8, 8, _grouped),
    "pools": (4, 16, _pools),
    "residual": (4, 8, _residual),
    "concat": (3, 10, _concat),
    "dense": (1, 8, _dense),
    "upscaled": (1, 12, _upscaled),
    "normalised": (3, 8, _normalised),
    "qdq": (3, 8, _qdq),
    "qoperator": (4, 8, _qoperator),
    "binary": (3, 8, _binary),
}
"""Channels and side of the input, and the function that adds the nodes, by name."""
QUANTISED = {"qdq", "qoperator"}  # models with their own scales
NO_LIMITS = "--min-signal -100 --max-loss 100"  # weights are random


def make(name: str) -> tuple[Path, Path]:
    """Write a model and its samples into the current folder."""
    model, samples = Path(f"{name}.onnx"), Path(f"{name}.npz")
    channels, side, build = MODELS[name]
    net = Network(channels, side, seed=sum(name.encode()))
    save(net.model(build(net)), model)
    images = np.random.default_rng(1).integers(-32, 33, (SAMPLES, *net.shape[1:]))
    np.savez(samples, x=(images / 16).astype(np.float32))
    return model, samples


# The compilations

SAMPLE = {"dense/8/4x4", "residual/16/1x1", "binary/8/1x1"}


def compilations() -> dict[str, Compilation]:
    """Return all compilations by name: model, bits, chip."""
    found = {}
    for model in MODELS:
        quantised = model in QUANTISED
        calibrate = "" if quantised else f" --calibrate {model}.npz --method minmax {NO_LIMITS}"
        for bits, npu in (("8", "npu"), ("16", "npu-dual"))[: 1 if quantised else 2]:
            precision = "" if quantised else f" --bits {bits}"
            for chip in ("1x1", "4x4"):
                name = f"{model}/{bits}/{chip}"
                options = f"--chip {chip} --npu {npu}{precision}{calibrate}"
                found[name] = Compilation(model, options, sample=name in SAMPLE)
    return found
