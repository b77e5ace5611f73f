"""Nodes that join maps, surround or enlarge them, or only say how they are seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from mapper.compiler.frontend.onnx import Reader, Value, is_map
from mapper.compiler.graph.graph import CHANNELS_FIRST, View
from mapper.compiler.graph.node import Concat, PadMap, Upsample
from mapper.compiler.graph.tensor import Pad
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import Node as OnnxNode


def concat(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    first = inputs[0]
    if not all(is_map(value) and len(value.shape) == len(first.shape) for value in inputs):
        reader.why = "it joins constants, or what has not its channels on axis 1"
        return None
    axis = int(node.attributes.get("axis", 1)) % len(first.shape)
    if axis == 0:
        reader.why = "it joins frames"
        return None
    shape = list(first.shape)
    shape[axis] = sum(value.shape[axis] for value in inputs)
    for value in inputs:
        if [n for a, n in enumerate(value.shape) if a != axis] != [
            n for a, n in enumerate(shape) if a != axis
        ]:
            raise MapperError(f"shapes {first.shape} and {value.shape} do not go together")
    onnx_axis = axis if len(first.shape) == 4 or axis == 1 else 3
    operator = Concat(CHANNELS_FIRST[onnx_axis])
    return reader.add(operator, [value.tensor for value in inputs], node, shape)


def pad(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    data = inputs[0]
    if node.attributes.get("mode", b"constant") != b"constant":
        reader.why = "cores pad with a constant"
        return None
    pads: list[int] = list(node.attributes.get("pads", node.attributes.get("paddings", ())))
    value = node.number("value", 0.0)
    if len(inputs) > 1:
        if not isinstance(inputs[1], np.ndarray):
            reader.why = "its pads are not constant"
            return None
        pads = inputs[1].tolist()
        if len(inputs) > 2 and inputs[2] is not None:
            value = float(np.asarray(inputs[2]).reshape(()))
    if not is_map(data) or len(data.shape) != 4 or len(pads) != 8 or len(inputs) > 3:
        reader.why = "it pads other than rows and columns of a map"
        return None
    before, after = pads[:4], pads[4:]
    if any((*before[:2], *after[:2])) or min(pads) < 0:
        reader.why = "it pads frames or channels, or cuts"
        return None
    around = Pad(before[2], after[2], before[3], after[3])
    shape = [n + a + b for n, a, b in zip(data.shape, before, after, strict=True)]
    return reader.add(PadMap(around, value), [data.tensor], node, shape)


def upsample(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    """Resize and Upsample, nearest, to twice the size."""
    data = inputs[0]
    if not is_map(data) or len(data.shape) != 4:
        reader.why = "it resizes other than rows and columns of a map"
        return None
    mode = node.attributes.get("mode", b"nearest")
    made = reader.model.evaluate(node, [np.zeros(data.shape, np.float32), *inputs[1:]])[0]
    if mode != b"nearest" or made.shape != (*data.shape[:2], 2 * data.shape[2], 2 * data.shape[3]):
        reader.why = "cores double the size, by repeating pixels"
        return None
    probe = np.arange(made.size // 4, dtype=np.float32).reshape(data.shape)
    copy = reader.model.evaluate(node, [probe, *inputs[1:]])[0]
    if not np.array_equal(copy, probe.repeat(2, 2).repeat(2, 3)):
        reader.why = "it repeats pixels unevenly; cores repeat each one twice"
        return None
    return reader.add(Upsample(), [data.tensor], node, made.shape)


def reshape(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    """Nodes that say how elements are seen: of the first input, whose shape they change."""
    data = inputs[0]
    if not isinstance(data, View) or any(isinstance(value, View) for value in inputs[1:]):
        reader.why = "its shape is not constant"
        return None
    made = reader.model.evaluate(node, [np.zeros(data.shape, np.float32), *inputs[1:]])[0]
    if made.shape[0] != 1:
        reader.why = f"its result has {made.shape[0]} on the batch axis"
        return None
    return data._replace(shape=made.shape)


def transpose(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    data = inputs[0]
    last = tuple(range(len(data.shape)))[::-1]
    perm = tuple(int(axis) for axis in node.attributes.get("perm", last))
    if sorted(perm) != sorted(last):
        raise MapperError(f"perm is {perm}, its value has {len(last)} axes")
    shape = tuple(data.shape[axis] for axis in perm)
    moved = [axis for axis in perm if data.shape[axis] > 1]
    if moved == sorted(moved):
        return data._replace(shape=shape)  # only axes of 1 move
    if data.shape != data.ordered or perm[0] != 0:
        reader.why = "it mixes the axes of a value that was reshaped"
        return None
    return data._replace(order=tuple(data.order[axis] for axis in perm), shape=shape)


def same(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Value | None:
    """Nodes that leave values as they are when a model only runs."""
    if node.kind == "Cast" and int(node.attributes.get("to", 1)) not in (1, 10, 11):
        reader.why = "it makes numbers other than floating point"
        return None
    value: View = inputs[0]
    return value
