"""Read integer networks as Deeploy and quantlib export them (Scherer et al., 2024).

Floating-point ONNX tensors hold integers. RequantShift computes (x * mul + add) / div, rounds
halves up and clips to n_levels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Handler, Made, Reader, require_real
from mapper.compiler.frontend.quantised import dequantised
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Node, Quantise, Requantise
from mapper.compiler.ir.requantisation import Multiplier, Requantisation
from mapper.compiler.ir.stored import Stored
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.formulas import MANTISSA
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode

KIND = "RequantShift"
LEVELS = 256
MOST_OFFSET = 1 << 31


def whole_numbers(reader: Reader) -> bool:
    """Return whether a model computes with whole numbers in floating point."""
    return any(node.kind == KIND for node in reader.model.nodes)


def requant_shift(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, factor, offset = inputs
    if not isinstance(data, View) or isinstance(factor, View) or isinstance(offset, View):
        return "its factors are not constant"
    data = _real(reader, node, data, 0)
    channels = data.tensor.channels
    levels, signed = (int(_number(node, name)) for name in ("n_levels_out", "signed"))
    div = _number(node, "div")
    shift = int(np.log2(div)) if div > 0 else -1
    if shift < 0 or 2.0**shift != div:
        raise MapperError(f"div is {div:g}; cores shift: use a power of two, at least 1")
    if not 2 <= levels <= LEVELS:
        raise MapperError(f"n_levels_out is {levels}; cores store 2 to {LEVELS} levels")
    mul = _whole("mul", factor, channels, MOST_OFFSET)
    add = _whole("add", offset, channels, MOST_OFFSET)
    # cores multiply by fewer bits: where mul has more, the low bits of mul and add are rounded away
    spare = np.maximum(0, np.frexp(np.abs(mul).astype(np.float64))[1] - (MANTISSA + 1))
    if (spare > shift).any():
        raise MapperError(
            f"mul holds {np.abs(mul).max()} and div is {div:g}; cores multiply by less than "
            f"{1 << (MANTISSA + 1):,}"
        )
    mul, add = (np.rint(np.ldexp(one, -spare)).astype(np.int64) for one in (mul, add))
    low = -(levels // 2) if signed else 0
    zero_point = -128 if low + levels > 128 else 0
    low += zero_point
    factor = Multiplier(mul, shift - spare)
    how = Requantisation(factor, zero_point, low, low + levels - 1, "up", offset=add)
    name = str(node.proto.output[0])
    made = Tensor(name, data.tensor.shape, "int8", 1.0, zero_point, stored=True)
    reader.graph.nodes.append(Node(Requantise(how), [data.tensor], [made], (node.name,)))
    return data._replace(tensor=made)


def _number(node: OnnxNode, name: str) -> float:
    """Return an attribute that is a number, or a tensor of one number."""
    from onnx import TensorProto, numpy_helper

    if name not in node.attributes:
        raise MapperError(f"has no attribute {name}")
    found = node.attributes[name]
    value = numpy_helper.to_array(found) if isinstance(found, TensorProto) else found
    return float(np.asarray(value).reshape(()))


def _whole(name: str, values: NDArray[Any], channels: int, limit: int) -> NDArray[np.int64]:
    """Return whole numbers, one for all channels or one per channel, as shape (channels,)."""
    flat = np.asarray(values, np.float64).reshape(-1)
    if flat.size not in (1, channels):
        raise MapperError(f"{name} has {flat.size} values; the map has {channels} channels")
    _all_whole(name, flat)
    if np.abs(flat).max() >= limit:
        raise MapperError(f"{name} holds {np.abs(flat).max():.0f}; cores take less than {limit:,}")
    return np.broadcast_to(flat.astype(np.int64), (channels,))


def _all_whole(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return the values; raise `MapperError` if one is not a whole number."""
    wrong = values[~(np.isfinite(values) & (values == np.rint(values)))]
    if wrong.size:
        raise MapperError(f"{name} holds {wrong[0]:g}; give whole numbers")
    return values


def _real(reader: Reader, node: OnnxNode, data: View, at: int) -> View:
    """Return the whole numbers of a stored map; a model input is stored first, in 8 bits."""
    if data.tensor in [view.tensor for view in reader.graph.inputs.values()]:
        name, zero = f"{data.tensor.name}.stored", 0 if reader.signed else -128
        stored = Tensor(name, data.tensor.shape, "int8", 1.0, zero, stored=True)
        reader.graph.nodes.append(Node(Quantise(), [data.tensor], [stored], (node.name,)))
        reader.guessed = True
        note = f"input {data.tensor.name!r} is read as whole numbers from " + (
            "-128 to 127, as the samples of --calibrate contain negative ones"
            if reader.signed
            else "0 to 255: such networks do not specify the range; give samples with "
            "--calibrate if it has negative ones"
        )
        if note not in reader.graph.notes:
            reader.graph.notes.append(note)
        data = data._replace(tensor=stored)
    if data.tensor.type == "float32":
        return data
    return dequantised(reader, node, data, f"{node.proto.input[at]}.real")


def of_whole_numbers(compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Compute also with whole numbers, whose weights are stored unscaled."""
    if not whole_numbers(reader):
        require_real(inputs)
        return compute(reader, node, inputs)
    taken = [
        _real(reader, node, value, at) if isinstance(value, View) else value
        for at, value in enumerate(inputs)
    ]
    if node.name in reader.keep:
        return reader.host(node.kind, node, taken, node.attributes)
    begun = len(reader.graph.nodes)
    made = compute(reader, node, taken)
    for one in reader.graph.nodes[begun:]:
        for tensor in one.inputs[1:]:
            if tensor.value is not None:
                values = _all_whole("a constant", tensor.value).astype(np.int64)
                reader.graph.quantised[tensor] = Stored(values, np.ones(1, np.float32))
    return made


INTEGERS: dict[str, Handler] = {
    KIND: requant_shift,
    **{kind: partial(of_whole_numbers, FLOAT[kind]) for kind in ("Conv", "Gemm", "MatMul", "Add")},
}
