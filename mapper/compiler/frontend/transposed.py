"""Read ConvTranspose and DepthToSpace.

Rows of a transposed convolution of stride s that are s apart see the same kernel rows: it is one
convolution of stride 1 with s x s times the outputs, one per phase, whose results are interleaved
(W. Shi et al., Is the deconvolution layer the same as a convolutional layer?, arXiv:1609.07009).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.onnx import Made, Reader, is_map, kernel_refusal
from mapper.compiler.ir import node as op
from mapper.compiler.ir.node import Node, Window
from mapper.compiler.ir.stored import Stored
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode


class Phases(NamedTuple):
    """One axis of a transposed convolution as a convolution of stride 1.

    taps : kernel position for each phase and position of the new kernel, shape (stride, size); the
        size of the old kernel stands for a zero
    before, after : padding
    """

    taps: NDArray[np.int64]
    before: int
    after: int

    @classmethod
    def of(
        cls, given: int, size: int, stride: int, dilation: int, pad: int, length: int
    ) -> Phases:  # fmt: skip
        """Return the phases of an axis.

        given, length : sizes of the map and of the result; size : positions of the kernel
        pad : positions that are cut off before the first one of the result

        Result y = stride * q + r takes kernel position k from input q + (r + pad - k * dilation) /
        stride, where this is a whole number.
        """
        phase, position = np.mgrid[:stride, :size]
        far, rest = np.divmod(phase + pad - position * dilation, stride)
        used = rest == 0
        low = min(0, int(far[used].min(initial=0)))
        # zeros also read inputs that are cut off after the last result
        rows = -(-length // stride)
        high = max(given - rows, int(far[used].max(initial=0)))
        taps = np.full((stride, high - low + 1), size, np.int64)
        taps[phase[used], far[used] - low] = position[used]
        return cls(taps, -low, rows - given + high)


def transposed(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read ConvTranspose."""
    data, weights, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    if why := kernel_refusal(data, weights, bias):
        return why
    axes = weights.ndim - 2
    if axes not in (1, 2) or weights.ndim != len(data.shape):
        return f"its kernels have {axes} axes; cores take 1 or 2, as many as the map has"
    # ONNX Runtime checks the attributes, and gives the shape of the result
    zeros = np.zeros(data.shape, np.float32)
    shape = reader.model.evaluate(node, [zeros, *inputs[1:]])[0].shape
    groups = int(node.attributes.get("group", 1))
    if weights.shape[0] != data.tensor.channels:
        raise MapperError(
            f"its map has {data.tensor.channels} channels, its kernels take {weights.shape[0]}"
        )
    found = _phases(node, weights.shape[2:], data.shape[2:], shape[2:])
    if isinstance(found, str):
        return found
    if any(length < len(one.taps) for one, length in zip(found, shape[2:], strict=True)):
        return "its result has fewer rows or columns than its stride"
    rows, columns = found if axes == 2 else (Phases.of(1, 1, 1, 1, 0, 1), *found)
    kernels = weights if axes == 2 else weights[:, :, None, :]
    steps = len(rows.taps), len(columns.taps)
    made = _kernels(kernels, rows.taps, columns.taps, groups)
    outputs = np.arange(weights.shape[1] * groups).reshape(groups, 1, 1, -1)
    order = np.broadcast_to(outputs, (groups, *steps, weights.shape[1])).ravel()
    constants = [reader.constant(node, "weights", made)]
    if bias is not None:
        constants.append(reader.constant(node, "bias", bias.astype(np.float32)[order]))
    names = [str(name) for name in node.proto.input[1:]]
    for tensor, name in zip(constants, names, strict=False):
        if (stored := reader.stored.get(name)) is not None:
            kept = _stored(stored, order, groups, weights=tensor is constants[0])
            if isinstance(kept, str):
                return kept
            reader.graph.quantised[tensor] = kept
    pad = Pad(rows.before, rows.after, columns.before, columns.after)
    how = op.Conv(Window((made.shape[1], made.shape[2]), pad=pad), groups)
    if steps == (1, 1):
        return reader.add(how, [data.tensor, *constants], node, shape)
    size = how.window.results(data.tensor.height, data.tensor.width)
    between = Tensor(f"{node.proto.output[0]}.phases", (1, *size, len(order)))
    reader.graph.nodes.append(Node(how, [data.tensor, *constants], [between], (node.name,)))
    return reader.add(op.DepthToSpace(*steps, groups), [between], node, shape)


def _phases(
    node: OnnxNode, sizes: tuple[int, ...], given: tuple[int, ...], made: tuple[int, ...]
) -> list[Phases] | str:
    """Return the phases of each axis, or why cores do not compute them.

    sizes, given, made : sizes of the kernel, of the map and of the result
    """
    axes = len(sizes)

    def numbers(name: str, default: int) -> list[int]:
        return [int(one) for one in node.attributes.get(name, (default,) * axes)]

    auto = node.attributes.get("auto_pad", b"NOTSET").decode()
    found = []
    fields = (numbers("strides", 1), numbers("dilations", 1), numbers("output_padding", 0))
    pads = [int(one) for one in node.attributes.get("pads", (0,) * 2 * axes)]
    for axis, (stride, dilation, more) in enumerate(zip(*fields, strict=True)):
        whole = stride * (given[axis] - 1) + more + dilation * (sizes[axis] - 1) + 1
        pad = pads[axis] if auto == "NOTSET" else 0
        if "output_shape" in node.attributes or auto.startswith("SAME"):
            cut = whole - made[axis]
            if cut < 0:
                return "its output_shape is larger than the result of its kernels"
            pad = cut // 2 if auto == "SAME_UPPER" else cut - cut // 2
        found.append(Phases.of(given[axis], sizes[axis], stride, dilation, pad, made[axis]))
    return found


def _kernels(
    weights: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], groups: int
) -> NDArray[np.float32]:
    """Return the kernels of all phases, shape (groups * phases * outputs, rows, columns, inputs).

    weights : shape (inputs of all groups, outputs of a group, rows, columns)
    rows, columns : see `Phases.taps`
    """
    with_zero = np.pad(weights.astype(np.float32), ((0, 0), (0, 0), (0, 1), (0, 1)))
    taken = with_zero[:, :, rows[:, :, None, None], columns]
    # group, input, output, row phase, row, column phase, column
    split = taken.reshape(groups, -1, *taken.shape[1:]).transpose(0, 3, 5, 2, 4, 6, 1)
    return np.ascontiguousarray(split).reshape(-1, rows.shape[1], columns.shape[1], split.shape[-1])


def _stored(
    stored: Stored, order: NDArray[np.int64], groups: int, weights: bool
) -> Stored | str:  # fmt: skip
    """Return a stored constant with a scale per output of the convolution, or why there is none.

    order : output of the node for each output of the convolution
    """
    if not weights:
        values = stored.values[order]
    else:
        values = np.zeros(order.size, np.int64)  # only scales are needed
    if stored.scale.size == 1:
        return stored._replace(values=values)
    if not weights:
        chosen = order
    elif stored.axis == 1:
        chosen = order % stored.scale.size
    elif stored.values.shape[0] == groups:  # each group has one input
        chosen = order // stored.values.shape[1]
    else:
        return "its weights have one scale per input channel"
    zero = np.asarray(stored.zero_point)
    zero = zero.reshape(-1)[chosen] if zero.size > 1 else zero
    return Stored(values, stored.scale[chosen], zero)


def depth_to_space(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read DepthToSpace: channels of a pixel become pixels."""
    data, size = inputs[0], int(node.attributes.get("blocksize", 0))
    if not is_map(data) or len(data.shape) != 4:
        return "its map does not have its channels on axis 1"
    channels = data.tensor.channels // (size * size) if size > 0 else 0
    if channels * size * size != data.tensor.channels or not channels:
        raise MapperError(f"{data.tensor.channels} channels do not make blocks of {size}x{size}")
    if size == 1:
        return data
    first = node.attributes.get("mode", b"DCR") == b"CRD"
    shape = (1, channels, size * data.shape[2], size * data.shape[3])
    how = op.DepthToSpace(size, size, channels if first else 1)
    return reader.add(how, [data.tensor], node, shape)
