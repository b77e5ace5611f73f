"""Transposed convolutions in loops, as ONNX defines them, and networks that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Activation, DepthToSpace, Pool, Window
from mapper.compiler.ir.tensor import Pad, Tensor
from tests.compiler.models import onnx_model
from tests.compiler.networks import Builder
from tests.storage.formats.onnx_models import helper

Array = NDArray[Any]
Two = tuple[int, int]


def conv_transpose(
    x: Array, w: Array, strides: Sequence[int] = (1, 1), pads: Sequence[int] = (0, 0, 0, 0),
    output_padding: Sequence[int] = (0, 0), dilations: Sequence[int] = (1, 1), group: int = 1,
) -> Array:  # fmt: skip
    """Return ConvTranspose of one sample: each input adds its kernel to the result.

    x : shape (1, inputs, rows, columns); w : shape (inputs, outputs / group, rows, columns)
    """
    _, inputs, height, width = x.shape
    _, share, kh, kw = w.shape
    top, left, bottom, right = pads
    rows = strides[0] * (height - 1) + output_padding[0] + (kh - 1) * dilations[0] + 1
    columns = strides[1] * (width - 1) + output_padding[1] + (kw - 1) * dilations[1] + 1
    made = np.zeros((1, share * group, rows, columns), x.dtype)
    for c, y, z, ky, kx in np.ndindex(inputs, height, width, kh, kw):
        first = c // (inputs // group) * share
        at = y * strides[0] + ky * dilations[0], z * strides[1] + kx * dilations[1]
        made[0, first : first + share, at[0], at[1]] += w[c, :, ky, kx] * x[0, c, y, z]
    return made[:, :, top : rows - bottom, left : columns - right]


def spaced(x: Array, size: int, mode: str) -> Array:
    """Return DepthToSpace of one sample, pixel by pixel."""
    _, channels, height, width = x.shape
    made = np.zeros((1, channels // size**2, height * size, width * size), x.dtype)
    for c, y, z in np.ndindex(*made.shape[1:]):
        row, column = y % size, z % size
        phase = row * size + column
        taken = c * size**2 + phase if mode == "CRD" else phase * made.shape[1] + c
        made[0, c, y, z] = x[0, taken, y // size, z // size]
    return made


def enlarged(build: Builder, data: Tensor, size: Two, groups: int, lost: Two = (0, 0)) -> Tensor:
    """Add DepthToSpace, without the last rows and columns."""
    rows, columns = (n * by - less for n, by, less in zip(data.shape[1:], size, lost, strict=False))
    shape = rows, columns, data.channels // (size[0] * size[1])
    return build.node(DepthToSpace(*size, groups), [data], shape)


def random_decoder(seed: int) -> Builder:
    """Chain convolutions whose kernels have zeros at their edges, with DepthToSpace after some,
    activations, and the input's channels or a part of the map joined to it."""
    rng = np.random.default_rng(seed)
    height, width, channels = (int(n) for n in rng.integers((2, 2, 1), (7, 7, 24)))
    build = Builder(height, width, channels, seed)
    tensor = build.input
    for step in range(int(rng.integers(2, 4))):
        size = (int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        if tensor.height * tensor.width * size[0] * size[1] > 400:
            size = (1, 1)
        groups, each = int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 20))
        kernel = tuple(int(n) for n in rng.integers(1, 4, 2))
        pad = Pad(*(int(rng.integers(0, n)) for n in np.repeat(kernel, 2)))
        window = Window(kernel, (1, 1), pad)
        if min(window.results(tensor.height, tensor.width)) < 1:
            continue
        count = groups * each
        made = build.conv(tensor, size[0] * size[1] * count, window)
        weights = build.graph.nodes[-1].inputs[1].numbers
        weights *= rng.random((len(weights), *kernel, 1)) < rng.choice([0.3, 1.0])
        if rng.random() < 0.3 and step:
            made = build.relu(made)
        if size != (1, 1):
            lost = [int(rng.integers(0, by)) if n > 1 else 0
                    for n, by in zip(made.shape[1:], size, strict=False)]  # fmt: skip
            made = enlarged(build, made, size, groups, (lost[0], lost[1]))
        if rng.random() < 0.5:
            made = build.like(Activation(slope=float(rng.choice([0.0, 0.1]))), made)
        if rng.random() < 0.3:
            made = build.concat(made, build.conv(made, 16, Window((1, 1))))
        if rng.random() < 0.2 and min(made.shape[1:3]) > 2:
            made = build.pool(made, Pool("max", Window((2, 2), (2, 2))))
        tensor = made
    if tensor is build.input or rng.random() < 0.5:
        tensor = build.conv(tensor, 10, Window((1, 1)))
    build.end(tensor)
    return build


class Decoder:
    """An ONNX model of the input x, built layer by layer."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], f"{kind}_{name}", **attributes))
        return name

    def layer(self, kind: str, data: str, *shape: int, outputs: int, **attributes: Any) -> str:
        """Add a layer with a bias. shape : of its weights; outputs : number of biases"""
        number = len(self.constants)
        w = self.random.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
        self.constants[f"w{number}"] = w.astype(np.float32)
        self.constants[f"b{number}"] = self.random.normal(0, 0.1, outputs).astype(np.float32)
        return self.node(kind, data, f"w{number}", f"b{number}", **attributes)

    def conv(self, data: str, inputs: int, outputs: int) -> str:
        made = self.layer("Conv", data, outputs, inputs, 3, 3, outputs=outputs, pads=[1] * 4)
        return self.node("Relu", made)

    def up(self, data: str, inputs: int, outputs: int, size: int, pad: int = 0) -> str:
        """Double the size, by kernels of a size of 2, or of 4 with a padding of 1."""
        shape, how = (inputs, outputs, size, size), {"strides": [2, 2], "pads": [pad] * 4}
        return self.layer("ConvTranspose", data, *shape, outputs=outputs, **how)

    def end(self, data: str, shape: Sequence[int]) -> Any:
        self.nodes.append(helper.make_node("Identity", [data], ["y"], "end"))
        return onnx_model(self.nodes, self.constants, shape)


def unet(channels: int = 8, size: int = 16) -> tuple[Any, Array]:
    """Return a U-Net of three resolutions (O. Ronneberger et al., arXiv:1505.04597), and
    samples."""
    net, c, half = Decoder(5), channels, {"kernel_shape": [2, 2], "strides": [2, 2]}
    first = net.conv("x", 3, c)
    second = net.conv(net.node("MaxPool", first, **half), c, 2 * c)
    third = net.conv(net.node("MaxPool", second, **half), 2 * c, 4 * c)
    joined = net.node("Concat", net.up(third, 4 * c, 2 * c, 2), second, axis=1)
    joined = net.node("Concat", net.up(net.conv(joined, 4 * c, 2 * c), 2 * c, c, 2), first, axis=1)
    last = net.layer("Conv", net.conv(joined, 2 * c, c), 2, c, 1, 1, outputs=2)
    shape = (1, 3, size, size)
    return net.end(last, shape), net.random.normal(size=(6, *shape[1:])).astype(np.float32)


def generator(channels: int = 16) -> tuple[Any, Array]:
    """Return the generator of a GAN (A. Radford et al., arXiv:1511.06434), from a vector to an
    image of 32x32, and samples."""
    net, c = Decoder(6), channels
    first = net.layer("ConvTranspose", "x", 10, 4 * c, 4, 4, outputs=4 * c)
    second = net.node("Relu", net.up(net.node("Relu", first), 4 * c, 2 * c, 4, 1))
    third = net.node("LeakyRelu", net.up(second, 2 * c, c, 4, 1), alpha=0.2)
    last = net.node("Tanh", net.up(third, c, 3, 4, 1))
    shape = (1, 10, 1, 1)
    return net.end(last, shape), net.random.normal(size=(6, *shape[1:])).astype(np.float32)
