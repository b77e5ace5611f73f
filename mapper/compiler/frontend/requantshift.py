"""Read integer networks as Deeploy and quantlib export them (Scherer et al., 2024).

Floating-point ONNX tensors hold integers. RequantShift computes (x * mul + add) / div, rounds
halves up and clips to n_levels.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.float import FLOAT, mean
from mapper.compiler.frontend.functions import applied
from mapper.compiler.frontend.onnx import Handler, Made, Reader, require_real
from mapper.compiler.frontend.qoperator import moving
from mapper.compiler.frontend.qoperator import on_host as unread
from mapper.compiler.frontend.whole import (
    LEVELS,
    REQUANT_SHIFT,
    all_whole,
    number_of,
    on_cores,
    on_host,
    stored_zero,
    whole_numbers,
)
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Dequantise, Node, Requantise
from mapper.compiler.ir.requantisation import Multiplier, Requantisation, Rounding
from mapper.compiler.ir.stored import Stored
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.term import Term, X
from mapper.compiler.numerics.formulas import MANTISSA, multiplier, requantise
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode

MOST_OFFSET = 1 << 31
MOST_COUNT = 1 << 16
"""Most numbers of a mean, all of whose sums are tried."""


def requant_shift(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    data, factor, offset = inputs
    if not isinstance(data, View) or isinstance(factor, View) or isinstance(offset, View):
        return "its factors are not constant"
    if node.name in reader.keep:
        return on_host(reader, node, inputs, None)
    found = on_cores(reader, node, data, 0)
    if isinstance(found, str):
        return on_host(reader, node, inputs, "it requantises sums of the host")
    data = found
    channels = data.tensor.channels
    levels, signed = (int(number_of(node, name)) for name in ("n_levels_out", "signed"))
    div = number_of(node, "div")
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
    zero_point = stored_zero(low, low + levels - 1)
    low += zero_point
    factor = Multiplier(mul, shift - spare)
    how = Requantisation(factor, zero_point, low, low + levels - 1, "up", offset=add)
    name = str(node.proto.output[0])
    made = Tensor(name, data.tensor.shape, "int8", 1.0, zero_point, stored=True)
    reader.graph.nodes.append(Node(Requantise(how), [data.tensor], [made], (node.name,)))
    return data._replace(tensor=made)


def _whole(name: str, values: NDArray[Any], channels: int, limit: int) -> NDArray[np.int64]:
    """Return whole numbers, one for all channels or one per channel, as shape (channels,)."""
    flat = np.asarray(values, np.float64).reshape(-1)
    if flat.size not in (1, channels):
        raise MapperError(f"{name} has {flat.size} values; the map has {channels} channels")
    all_whole(name, flat)
    if np.abs(flat).max() >= limit:
        raise MapperError(f"{name} holds {np.abs(flat).max():.0f}; cores take less than {limit:,}")
    return np.broadcast_to(flat.astype(np.int64), (channels,))


def of_whole_numbers(compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Compute also with whole numbers, whose weights are stored unscaled."""
    if not whole_numbers(reader):
        require_real(inputs)
        return compute(reader, node, inputs)
    if node.name in reader.keep:
        return on_host(reader, node, inputs, None)
    taken, begun = [], len(reader.graph.nodes)
    for at, value in enumerate(inputs):
        found = on_cores(reader, node, value, at) if isinstance(value, View) else value
        if isinstance(found, str):
            del reader.graph.nodes[begun:]
            return on_host(reader, node, inputs, found)
        taken.append(found)
    made = compute(reader, node, taken)
    if made is None or isinstance(made, str):
        del reader.graph.nodes[begun:]
        return on_host(reader, node, inputs, made)
    for one in reader.graph.nodes[begun:]:
        for tensor in one.inputs[1:]:
            if tensor.value is not None:
                values = all_whole("a constant", tensor.value).astype(np.int64)
                reader.graph.quantised[tensor] = Stored(values, np.ones(1, np.float32))
    return made


def integer_gelu(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read iGELU, a function of one whole number, as a table."""
    numbers = number_of(node, "b"), number_of(node, "one")
    return applied(reader, node, inputs[0], Term("integer_gelu", (X,), numbers))


def integer_mean(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read IntegerMean as average pooling, if the multiplier of a core divides exactly."""
    data: View = inputs[0]
    maker = reader.graph.maker(data.tensor, Dequantise)
    pooled = mean(reader, node, inputs)
    if maker is None or not isinstance(pooled, View):
        return "it is not a mean over all pixels of a stored map"
    stored = maker.inputs[0]
    count = stored.height * stored.width
    how = division(stored, count, node.name)
    if how is None:
        return f"the multiplier of a core does not divide by {count} exactly"
    made = stored.like(pooled.tensor.name, pooled.tensor.shape)
    pooled.tensor.name += ".real"
    reader.graph.nodes.append(Node(Requantise(how), [pooled.tensor], [made], (node.name,)))
    return pooled._replace(tensor=made)


def division(stored: Tensor, count: int, where: str) -> Requantisation | None:
    """Return the requantisation of sums of a stored map to their mean; None if it is inexact.

    Deeploy rounds halves up if the count is a power of two, else away from zero.
    """
    if count > MOST_COUNT:
        return None
    rounding: Rounding = "up" if count & (count - 1) == 0 else "away"
    factor = multiplier(1 / count, where)
    how = Requantisation(factor, stored.zero_point, stored.low, stored.high, rounding)
    least, most = (count * (end - stored.zero_point) for end in (stored.low, stored.high))
    sums = np.arange(least, most + 1)
    wanted = (2 * np.abs(sums) + count) // (2 * count) * np.sign(sums)
    if rounding == "up":
        wanted = (2 * sums + count) // (2 * count)
    return how if np.array_equal(requantise(sums, how), wanted + stored.zero_point) else None


def host_only(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read an operator that only the host computes.

    Raises `MapperError` for levels that its definition does not know.
    """
    levels = number_of(node, "n_levels")
    if node.kind == "ITAMax" and levels != LEVELS:
        raise MapperError(f"n_levels is {levels:g}; its shifts are defined for {LEVELS}")
    return on_host(reader, node, inputs, None)


def selecting(compute: Handler, reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read an operator whose result is a part of its input, or its input in another order."""
    made = compute(reader, node, inputs)
    if made is not None and not isinstance(made, str):
        return made
    if whole_numbers(reader):
        return on_host(reader, node, inputs, made)
    if isinstance(inputs[0], View) and inputs[0].tensor.type != "float32":
        return moving(lambda *_: made, reader, node, inputs)
    return made


INTEGERS: dict[str, Handler] = {
    REQUANT_SHIFT: requant_shift,
    **{kind: partial(of_whole_numbers, FLOAT[kind]) for kind in ("Conv", "Gemm", "MatMul", "Add")},
    "iGELU": partial(of_whole_numbers, integer_gelu),
    "IntegerMean": partial(of_whole_numbers, integer_mean),
    **dict.fromkeys(("iLayerNorm", "ITAMax"), host_only),
    **{
        kind: partial(selecting, FLOAT.get(kind, unread))
        for kind in ("Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Gather")
    },
}
