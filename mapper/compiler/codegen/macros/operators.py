"""Conversion between operators and the items for data that has no field in a record."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, get_args

import numpy as np

from hw.npu.isa.encoding import encode_scales
from mapper.compiler.codegen.macros.pool import Int64, Item, Sort, halves, wholes
from mapper.compiler.ir import node as op
from mapper.compiler.ir.requantisation import ROUNDINGS, AddFactors, Multiplier, Requantisation
from mapper.compiler.ir.tensor import Pad, Type

TYPES: tuple[Type, ...] = get_args(Type)
_N_BITS = 6  # bits of n in a scale word, below the multiplier
Items = Mapping[Sort, tuple[int, ...]]


def op_of(operator: op.Operator, dense: bool) -> str:
    """Return the name of a record's op; dense : the kernel has the size of the feature map"""
    match operator:
        case op.Conv():
            return "FC" if dense else "CONV"
        case op.Pool():
            return "MAXP" if operator.kind == "max" else "AVGP"
        case op.Add():
            return "ADD"
        case op.Product():
            return "MUL"
        case op.Upsample():
            return "UP"
        case op.Copy():
            return "COPY"
        case op.Requantise() | op.Clamp() | op.Lookup() | op.Sign() | op.Threshold():
            return "REMAP"
    raise AssertionError(operator)


def window_fields(window: op.Window) -> dict[str, int]:
    return {
        "kernel_height": window.size[0], "kernel_width": window.size[1],
        "stride_height": window.stride[0], "stride_width": window.stride[1],
        "pad_top": window.pad.top, "pad_bottom": window.pad.bottom,
        "pad_left": window.pad.left, "pad_right": window.pad.right,
        "dilation_height": window.dilation[0], "dilation_width": window.dilation[1],
    }  # fmt: skip


def window_of(values: Mapping[str, int]) -> op.Window:
    """Return the window of record fields; the inverse of `window_fields`."""
    pair = {
        name: (values[f"{name}_height"], values[f"{name}_width"])
        for name in ("kernel", "stride", "dilation")
    }
    pad = Pad(*(values[f"pad_{side}"] for side in ("top", "bottom", "left", "right")))
    return op.Window(pair["kernel"], pair["stride"], pad, pair["dilation"])


def items_of(operator: op.Operator) -> list[Item]:
    """Return the items with the parameters of an operator."""
    match operator:
        case op.Requantise():
            return _requantise_items(operator.how)
        case op.Clamp():
            return [Item(Sort.CLAMP, (operator.low, operator.high))]
        case op.Lookup():
            return [Item(Sort.LOOKUP, tuple(operator.entries.tolist()))]
        case op.Threshold():
            words = (*halves(operator.least), *map(int, operator.flip))
            return [Item(Sort.THRESHOLD, words)]
        case op.Sign():
            return [Item(Sort.SIGN)]
        case op.Conv() if operator.groups != 1:
            return [Item(Sort.GROUPS, (operator.groups,))]
    return []


def operator_of(name: str, values: Mapping[str, int], items: Items) -> op.Operator:
    """Return the operator of a record; raises `KeyError` or `ValueError` if it is invalid.

    name : name of its op
    """
    match name:
        case "CONV" | "FC":
            return op.Conv(window_of(values), items.get(Sort.GROUPS, (1,))[0])
        case "MAXP" | "AVGP":
            return op.Pool("max" if name == "MAXP" else "average", window_of(values))
        case "ADD":
            a, b, shift, low, high, clip_low, clip_high, rounding, _ = items[Sort.ADD]
            (constant,) = wholes((low, high))
            factors = AddFactors(a, b, shift, constant)
            return op.Add(factors, clip_low, clip_high, ROUNDINGS[rounding])
        case "MUL":
            return op.Product()
        case "UP":
            return op.Upsample(values["kernel_height"], values["kernel_width"])
        case "COPY":
            return op.Copy()
    if Sort.REQUANTISE in items:
        return op.Requantise(_requantisation(items))
    if Sort.CLAMP in items:
        return op.Clamp(*items[Sort.CLAMP])
    if Sort.LOOKUP in items:
        return op.Lookup(np.array(items[Sort.LOOKUP], np.int64))
    if Sort.THRESHOLD in items:
        words = items[Sort.THRESHOLD]
        count = len(words) // 3
        least, flip = wholes(words[: 2 * count]), words[2 * count :]
        return op.Threshold(np.array(least, np.int64), np.array(flip, np.int64))
    if Sort.SIGN in items:
        return op.Sign()
    raise ValueError("remap without an operator")


def add_item(operator: op.Add, first: int) -> Item:
    """Return the item of an addition.

    first : first input: 0 for `input`, 1 for the second input, 2 if both are the same
    """
    assert operator.factors is not None
    a, b, shift, constant = operator.factors
    rounding = ROUNDINGS.index(operator.rounding)
    words = (a, b, shift, *halves([constant]), operator.low, operator.high, rounding, first)
    return Item(Sort.ADD, words)


def _requantise_items(how: Requantisation) -> list[Item]:
    rounding = ROUNDINGS.index(how.rounding)
    found = [
        Item(Sort.REQUANTISE, (how.low, how.high, how.zero_point, how.shift, rounding)),
        Item(Sort.FACTOR, _scale_words(how.factor)),
    ]
    offset = np.asarray(how.offset, np.int64)
    if offset.any():
        found.append(Item(Sort.OFFSET, halves(offset.ravel().tolist())))
    if how.negative is not None:
        found.append(Item(Sort.NEGATIVE, _scale_words(how.negative)))
    return found


def _requantisation(items: Items) -> Requantisation:
    low, high, zero, shift, rounding = items[Sort.REQUANTISE]
    offset: Any = wholes(items.get(Sort.OFFSET, (0, 0)))
    negative = _multiplier(items[Sort.NEGATIVE]) if Sort.NEGATIVE in items else None
    return Requantisation(
        _multiplier(items[Sort.FACTOR]), zero, low, high, ROUNDINGS[rounding], shift,
        offset[0] if len(offset) == 1 else np.array(offset, np.int64), negative,
    )  # fmt: skip


def _scale_words(factor: Multiplier) -> tuple[int, ...]:
    words: Int64 = encode_scales(factor.m0, factor.n).astype(np.int64)
    return (words.ndim, *words.shape, *words.ravel().tolist())


def _multiplier(words: tuple[int, ...]) -> Multiplier:
    axes = words[0]
    sizes, scales = words[1 : 1 + axes], np.array(words[1 + axes :], np.int64)
    if scales.size != prod(sizes):
        raise ValueError("missing scale words")
    whole = scales.reshape(sizes)
    return Multiplier(whole >> _N_BITS, whole & (1 << _N_BITS) - 1)
