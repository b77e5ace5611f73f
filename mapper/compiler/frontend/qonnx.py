"""Read QONNX models of few bits: Quant, BipolarQuant and Trunc.

Quant of constants is evaluated; layers recover the integers of their weights. Quant of activations
gives the levels and scale of a map, and so its storage type: it needs no calibration. ONNX Runtime
has none of these operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.frontend.onnx import Handler, Made, Reader
from mapper.compiler.ir.graph import View
from mapper.compiler.ir.node import Levels, Operator, Sign
from mapper.compiler.ir.requantisation import Rounding
from mapper.compiler.numerics.binary import bipolar, ends, quant, trunc
from mapper.errors import MapperError
from storage.formats.layers.onnxgraph import OnnxNode

ROUNDINGS: dict[str, Rounding] = {"ROUND": "even", "HALF_EVEN": "even", "FLOOR": "floor"}
MOST_BITS = 8


def evaluate(node: OnnxNode, inputs: list[Any]) -> list[NDArray[Any]]:
    """Return the result of a node of constants."""
    return [np.asarray(_evaluated(node, inputs), np.float32)]


def _evaluated(node: OnnxNode, inputs: list[Any]) -> NDArray[Any]:
    rounding = node.attributes.get("rounding_mode", b"").decode()
    if np.broadcast_shapes(*(np.shape(one) for one in inputs)) != np.shape(inputs[0]):
        raise MapperError("its scale or zero point has more values than its constant")
    if node.kind == "BipolarQuant":
        return bipolar(*inputs)
    if node.kind == "Trunc":
        x, scale, zero, before, stop = inputs
        return trunc(x, scale, zero, (float(before), float(stop)), rounding or "FLOOR")
    x, scale, zero, bits = inputs
    signed, narrow = node.flag("signed", 1), node.flag("narrow")
    return quant(x, scale, zero, float(np.max(bits)), (signed, narrow), rounding or "ROUND")


def levels(reader: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Quant, BipolarQuant or Trunc of a map; raise `MapperError` for unsupported levels."""
    data, *rest = inputs
    if not all(isinstance(value, np.ndarray) for value in rest) or not isinstance(data, View):
        raise MapperError("its scale is not constant: export with constant folding")
    rest = [_one(name, value) for name, value in zip(_NAMES[node.kind], rest, strict=False)]
    if not (np.isfinite(rest[0]) and rest[0] > 0):
        raise MapperError(f"its scale is {rest[0]:g}; give a finite number above 0")
    operator: Operator
    if node.kind == "BipolarQuant":
        operator = Sign(rest[0])
    else:
        operator = _trunc(node, rest) if node.kind == "Trunc" else _quant(node, rest)
    return reader.like(operator, [data.tensor], node, data)


_NAMES = {
    "Quant": ("scale", "zero point", "bit width"),
    "BipolarQuant": ("scale",),
    "Trunc": ("scale", "zero point", "bit width", "bit width of the result"),
}


def _one(name: str, value: NDArray[Any]) -> float:
    """Return a parameter that is one number for the whole map."""
    if np.unique(value).size != 1:
        raise MapperError(f"its {name} varies within the map; cores take one for all channels")
    return float(value.flat[0])


def _quant(node: OnnxNode, given: list[float]) -> Levels:
    scale, zero, bits = given
    low, high = ends(bits, node.flag("signed", 1), node.flag("narrow"))
    return Levels(scale, scale, *_stored(low, high, zero, bits), _rounding(node, "ROUND"))


def _trunc(node: OnnxNode, given: list[float]) -> Levels:
    """Read Trunc: input integers are multiples of the scale; the removed bits are part of the
    divisor.

    Trunc keeps the scale and does not specify whether its numbers are signed.
    """
    scale, zero, before, stop = given
    if zero:
        raise MapperError(f"its zero point is {zero:g}; cores truncate numbers around 0")
    divisor = scale * 2.0 ** (before - stop)
    if stop >= MOST_BITS:
        raise MapperError(
            f"its results have {stop:g} bits; cores take fewer than {MOST_BITS}, because Trunc "
            "does not specify a sign"
        )
    ends_ = -(2.0 ** (stop - 1)), 2.0**stop - 1
    return Levels(scale, divisor, *_stored(*ends_, 0.0, stop), _rounding(node, "FLOOR"))


def _rounding(node: OnnxNode, usual: str) -> Rounding:
    name = node.attributes.get("rounding_mode", usual.encode()).decode().upper()
    if name not in ROUNDINGS:
        raise MapperError(f"its rounding_mode is {name}; cores take {', '.join(ROUNDINGS)}")
    return ROUNDINGS[name]


def _stored(low: float, high: float, zero: float, bits: float) -> tuple[int, int, int]:
    """Return zero point, minimum and maximum of the stored integers.

    Unsigned integers are stored minus 128 if they do not fit otherwise.
    """
    if not 1 <= bits <= MOST_BITS or bits != int(bits):
        raise MapperError(f"its numbers have {bits:g} bits; cores take 1 to {MOST_BITS}")
    if zero != int(zero):
        raise MapperError(f"its zero point is {zero:g}; cores take whole numbers")
    shift = 128 if high > 127 else 0
    return int(zero) - shift, int(low) - shift, int(high) - shift


def shape(_: Reader, node: OnnxNode, inputs: list[Any]) -> Made:
    """Read Shape of a value, a constant that exporters use to compute reshapes."""
    sizes = inputs[0].shape
    found = np.array(sizes[int(node.number("start", 0)) :], np.int64)
    return found[: int(node.number("end", len(sizes))) - int(node.number("start", 0))]


QONNX: dict[str, Handler] = {
    **dict.fromkeys(("Quant", "BipolarQuant", "Trunc"), levels),
    "Shape": shape,
}
EVALUATORS = dict.fromkeys(("Quant", "BipolarQuant", "Trunc"), evaluate)
