"""Layers of random ONNX models: each adds one to a network, over values of known shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.storage.formats.onnx_models import helper

Array = NDArray[Any]
Style = Literal["float", "binary", "QDQ", "QDQ channel", "QOperator", "dynamic", "mixed"]
OPSETS = (11, 13, 17, 20)


class Value(NamedTuple):
    """A tensor of the model: its name and shape, including the batch axis."""

    name: str
    shape: tuple[int, ...]


Step = Callable[["Network"], bool]


class Sizes(NamedTuple):
    """Sizes of random models. least, most : rows and columns of inputs; elements : most of a map"""

    least: int = 3
    most: int = 9
    elements: int = 4096


SMALL, IMAGES = Sizes(), Sizes(8, 64, 1 << 16)


class Network:
    """A model under construction."""

    def __init__(self, random: np.random.Generator, style: Style, sizes: Sizes = SMALL) -> None:
        self.random, self.style, self.elements = random, style, sizes.elements
        self.opset = int(random.choice(OPSETS)) if style in ("float", "binary") else 13
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        channels = int(random.choice((1, 2, 3, 4, 8, 16, 17)))
        size = [int(n) for n in random.integers(sizes.least, sizes.most + 1, 2)]
        self.input = Value("x", (1, channels, *size))
        self.values = [self.input]

    def constant(self, value: Array) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def weights(self, *shape: int) -> str:
        fan = math.prod(shape[1:])
        value = self.random.normal(0, 1 / math.sqrt(fan), shape).astype(np.float32)
        if self.style == "binary":
            value = np.where(value < 0, -1, 1).astype(np.float32)
        return self.constant(value)

    def vector(self, size: int, low: float = -0.5, high: float = 0.5) -> str:
        return self.constant(self.random.uniform(low, high, size).astype(np.float32))

    def add(self, kind: str, inputs: list[str], shape: tuple[int, ...], **more: Any) -> Value:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], f"{kind}_{name}", **more))
        made = Value(name, tuple(int(n) for n in shape))
        self.values.append(made)
        return made

    def pick(self, axes: int | None = None) -> Value | None:
        """Return a random value with the given number of axes; later ones are more likely."""
        found = [one for one in self.values if axes is None or len(one.shape) == axes]
        found = [one for one in found if math.prod(one.shape) <= self.elements]
        if not found:
            return None
        return found[-1 - min(int(self.random.geometric(0.6)) - 1, len(found) - 1)]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def choice(self, *some: Any) -> Any:
        return some[int(self.random.integers(len(some)))]


class UnfitError(Exception):
    """A layer does not fit the value."""


def step(axes: int | None = None) -> Callable[[Callable[[Network, Value], None]], Step]:
    """Make a step of a layer that reads a random value; axes : number of its axes"""

    def with_value(add: Callable[[Network, Value], None]) -> Step:
        def run(net: Network) -> bool:
            x = net.pick(axes)
            with suppress(UnfitError):
                if x is not None:
                    add(net, x)
                    return True
            return False

        return run

    return with_value


@step(4)
def conv(net: Network, x: Value) -> None:
    _, channels, height, width = x.shape
    size = net.choice(1, 1, 2, 3, 3)
    stride, dilation = net.choice(1, 1, 2), net.choice(1, 1, 1, 2)
    pads = [int(n) for n in net.random.integers(0, size, 4)]
    reach = (size - 1) * dilation + 1
    rows = (height + pads[0] + pads[2] - reach) // stride + 1
    columns = (width + pads[1] + pads[3] - reach) // stride + 1
    if min(rows, columns) < 1:
        raise UnfitError
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    groups = net.choice(1, 1, channels, net.choice(*divisors))
    outputs = groups * net.choice(*([1, 2] if groups > 1 else [1, 3, 5, 8, 16, 20]))
    inputs = [x.name, net.weights(outputs, channels // groups, size, size)]
    if net.chance(0.6):
        inputs.append(net.vector(outputs))
    net.add(
        "Conv", inputs, (1, outputs, rows, columns), kernel_shape=[size] * 2, group=groups,
        strides=[stride] * 2, dilations=[dilation] * 2, pads=pads,
    )  # fmt: skip


@step(2)
def dense(net: Network, x: Value) -> None:
    outputs = net.choice(1, 3, 10, 16, 19)
    if net.chance(0.5):
        w = net.weights(outputs, x.shape[1])
        net.add("Gemm", [x.name, w, net.vector(outputs)], (1, outputs), transB=1)
    else:
        w = net.constant(net.constants[net.weights(outputs, x.shape[1])].T.copy())
        net.add("MatMul", [x.name, w], (1, outputs))


@step()
def activation(net: Network, x: Value) -> None:
    kind = net.choice("Relu", "Relu", "LeakyRelu", "Clip", "PRelu")
    if kind == "LeakyRelu":
        net.add(kind, [x.name], x.shape, alpha=0.1)
    elif kind == "Clip":
        ends = [net.constant(np.float32(0)), net.constant(np.float32(net.choice(1, 6)))]
        net.add(kind, [x.name, *ends], x.shape)
    elif kind == "PRelu":
        if len(x.shape) != 4:
            raise UnfitError
        slope = net.constant(net.random.uniform(0, 0.5, (x.shape[1], 1, 1)).astype(np.float32))
        net.add(kind, [x.name, slope], x.shape)
    else:
        net.add(kind, [x.name], x.shape)


@step(4)
def pool(net: Network, x: Value) -> None:
    if net.chance(0.2):
        kind = net.choice("GlobalAveragePool", "GlobalMaxPool")
        net.add(kind, [x.name], (*x.shape[:2], 1, 1))
        return
    size, stride = net.choice(2, 3), net.choice(1, 2)
    pads = [net.choice(0, 1)] * 4
    rows, columns = ((n + 2 * pads[0] - size) // stride + 1 for n in x.shape[2:])
    if min(rows, columns) < 1:
        raise UnfitError
    kind = net.choice("MaxPool", "AveragePool")
    more = {"count_include_pad": net.choice(0, 1)} if kind == "AveragePool" else {}
    net.add(
        kind, [x.name], (*x.shape[:2], rows, columns), kernel_shape=[size] * 2,
        strides=[stride] * 2, pads=pads, **more,
    )  # fmt: skip


@step()
def pair(net: Network, x: Value) -> None:
    """Combine two values of one shape."""
    others = [one for one in net.values if one.shape == x.shape and one != x]
    if not others:
        raise UnfitError
    y = others[int(net.random.integers(len(others)))]
    net.add(net.choice("Add", "Add", "Add", "Sub", "Mul"), [x.name, y.name], x.shape)


@step()
def with_constant(net: Network, x: Value) -> None:
    wide = (x.shape[1], 1, 1) if len(x.shape) == 4 else (x.shape[-1],)
    shape = net.choice((), wide)
    value = net.random.uniform(0.2, 1.5, shape).astype(np.float32)
    net.add(net.choice("Add", "Mul", "Sub", "Div"), [x.name, net.constant(value)], x.shape)


@step(4)
def normalisation(net: Network, x: Value) -> None:
    size = x.shape[1]
    parts = [net.vector(size, 0.5, 1.5), net.vector(size), net.vector(size),
             net.vector(size, 0.5, 2)]  # fmt: skip
    net.add("BatchNormalization", [x.name, *parts], x.shape)


@step(4)
def join(net: Network, x: Value) -> None:
    axis = net.choice(1, 1, 1, 2, 3)
    same = [
        one
        for one in net.values
        if len(one.shape) == 4
        and all(one.shape[at] == x.shape[at] for at in (1, 2, 3) if at != axis)
    ]
    parts = [x, *(same[int(net.random.integers(len(same)))] for _ in range(net.choice(1, 1, 2)))]
    shape = list(x.shape)
    shape[axis] = sum(one.shape[axis] for one in parts)
    net.add("Concat", [one.name for one in parts], tuple(shape), axis=axis)


@step()
def cut(net: Network, x: Value) -> None:
    axis = int(net.random.integers(1, len(x.shape)))
    if x.shape[axis] < 2:
        raise UnfitError
    first, stop = sorted(net.random.choice(x.shape[axis] + 1, 2, replace=False).tolist())
    shape = list(x.shape)
    shape[axis] = stop - first
    places = [net.constant(np.array([n])) for n in (first, stop, axis)]
    net.add("Slice", [x.name, *places], tuple(shape))


@step(4)
def split(net: Network, x: Value) -> None:
    if x.shape[1] < 2:
        raise UnfitError
    at = int(net.random.integers(1, x.shape[1]))
    sizes = [at, x.shape[1] - at]
    names = [f"v{len(net.nodes)}", f"v{len(net.nodes)}b"]
    inputs, more = [x.name], {}
    if net.opset < 13:
        more = {"split": sizes}
    else:
        inputs.append(net.constant(np.array(sizes)))
    net.nodes.append(helper.make_node("Split", inputs, names, f"Split_{names[0]}", axis=1, **more))
    for name, size in zip(names, sizes, strict=True):
        net.values.append(Value(name, (1, size, *x.shape[2:])))


@step(4)
def padded(net: Network, x: Value) -> None:
    pads = [int(n) for n in net.random.integers(0, 3, 4)]
    mode = net.choice("constant", "constant", "reflect", "edge")
    if mode == "reflect" and max(pads) >= min(x.shape[2:]):
        raise UnfitError
    rows, columns = x.shape[2] + pads[0] + pads[2], x.shape[3] + pads[1] + pads[3]
    whole = np.array([0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]])
    net.add("Pad", [x.name, net.constant(whole)], (*x.shape[:2], rows, columns), mode=mode)


@step(4)
def enlarged(net: Network, x: Value) -> None:
    if max(x.shape[2:]) > 8:
        raise UnfitError
    factor = net.choice(2, 2, 3)
    scales = net.constant(np.float32([1, 1, factor, factor]))
    shape = (*x.shape[:2], factor * x.shape[2], factor * x.shape[3])
    net.add(
        "Resize", [x.name, "", scales], shape, mode=net.choice("nearest", "nearest", "linear"),
        coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    )  # fmt: skip


@step()
def viewed(net: Network, x: Value) -> None:
    axes = len(x.shape)
    way = net.choice("Flatten", "Reshape", "Transpose", "Identity", "Dropout")
    if way == "Flatten":
        net.add(way, [x.name], (1, math.prod(x.shape)))
    elif way == "Reshape" and axes == 4:
        rows, columns = x.shape[2:]
        shape = net.choice((1, -1), (1, x.shape[1], rows * columns), (1, rows, columns, x.shape[1]))
        made = tuple(math.prod(x.shape) if n == -1 else n for n in shape)
        net.add(way, [x.name, net.constant(np.array(shape))], made)
    elif way == "Transpose" and axes > 2:
        perm = [0, *(1 + net.random.permutation(axes - 1)).tolist()]
        net.add(way, [x.name], tuple(x.shape[at] for at in perm), perm=perm)
    elif way in ("Identity", "Dropout"):
        net.add(way, [x.name], x.shape)
    else:
        raise UnfitError


@step(4)
def transposed(net: Network, x: Value) -> None:
    """Add a transposed convolution, or the channels of a pixel as pixels."""
    _, channels, height, width = x.shape
    size = net.choice(2, 2, 3)
    if net.chance(0.3):
        if channels % size**2:
            raise UnfitError
        shape = (1, channels // size**2, size * height, size * width)
        net.add("DepthToSpace", [x.name], shape, blocksize=size, mode=net.choice("DCR", "CRD"))
        return
    strides = [net.choice(1, 2, 2, 2, 3) for _ in range(2)]
    kernel = [net.choice(1, 2, 2, 3, 4, 5) for _ in range(2)]
    dilations = [net.choice(1, 1, 1, 2) for _ in range(2)]
    more = [int(net.random.integers(0, stride)) for stride in strides]
    pads = [int(net.random.integers(0, n)) for n in kernel * 2]
    rows, columns = (
        strides[at] * (n - 1) + more[at] + dilations[at] * (kernel[at] - 1) + 1
        - pads[at] - pads[at + 2]
        for at, n in enumerate((height, width))
    )  # fmt: skip
    if min(rows, columns) < 1 or rows * columns > 400:
        raise UnfitError
    group = net.choice(1, 1, *(n for n in (2, 4, channels) if channels % n == 0))
    share = net.choice(1, 2, 4, 12)
    inputs = [x.name, net.weights(channels, share, *kernel)]
    if net.chance(0.7):
        inputs.append(net.vector(group * share))
    net.add(
        "ConvTranspose", inputs, (1, group * share, rows, columns), strides=strides,
        dilations=dilations, output_padding=more, pads=pads, group=group, kernel_shape=kernel,
    )  # fmt: skip


@step()
def hosted(net: Network, x: Value) -> None:
    kind = net.choice("Softmax", "LogSoftmax", "LRN", "ReduceMean", "Sign", "CumSum",
                      "InstanceNormalization")  # fmt: skip
    maps = len(x.shape) == 4
    if kind in ("Softmax", "LogSoftmax"):
        net.add(kind, [x.name], x.shape, axis=net.choice(1, -1))
    elif kind == "ReduceMean" and net.opset < 18:
        axes = [2, 3] if maps and net.chance(0.5) else [1]
        shape = tuple(1 if at in axes else n for at, n in enumerate(x.shape))
        net.add(kind, [x.name], shape, axes=axes, keepdims=1)
    elif kind == "LRN" and maps:
        net.add(kind, [x.name], x.shape, size=3, alpha=0.1)
    elif kind == "InstanceNormalization" and maps and math.prod(x.shape[2:]) > 3:
        size = x.shape[1]
        net.add(kind, [x.name, net.vector(size, 0.5, 1.5), net.vector(size)], x.shape)
    elif kind == "CumSum":
        net.add(kind, [x.name, net.constant(np.array(1))], x.shape)
    elif kind == "Sign":
        net.add(kind, [x.name], x.shape)
    else:
        raise UnfitError


@step(4)
def signed(net: Network, x: Value) -> None:
    """Add a binary layer: signs, and weights of +1 and -1."""
    y = net.add("Sign", [x.name], x.shape)
    outputs = net.choice(4, 16)
    w = net.constant(net.random.choice((-1, 1), (outputs, x.shape[1], 1, 1)).astype(np.float32))
    net.add("Conv", [y.name, w], (1, outputs, *x.shape[2:]))
