"""Constants of graphs as text: their sizes, and values that follow from their names."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.ir.node import Conv, Dense, Operator

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
CONSTANT = re.compile(r"([^\s,()=~<\[\]]+)\(([\d,]*)\)(~?)(?:=(\S+))?")
"""Name, sizes, "~" for values that are not written, and values."""
LISTED = 32
"""Characters of the values of a constant, above which they are not written."""


def integers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def number(value: Any) -> str:
    """Return a number in as few digits as give it back in its type."""
    return str(value).removesuffix(".0")


def _drawn(name: str, shape: tuple[int, ...], draw: Draw) -> Array:
    return draw(np.random.default_rng(zlib.crc32(name.encode())), shape)


def values_of(found: re.Match[str], draw: Draw) -> Array:
    """Return the values of a constant."""
    name, sizes, other, text = found.groups()
    shape = tuple(integers(sizes))
    some = _drawn(name + other, shape, draw)
    if text is None:
        return some
    if text.startswith("perm:"):
        return np.eye(shape[-1], dtype=some.dtype)[integers(text[5:])].reshape(shape)
    given = np.array([float(one) for one in text.split(",")], some.dtype)
    return np.broadcast_to(given, shape).copy() if given.size == 1 else given.reshape(shape)


def constant_text(name: str, value: Array, draw: Draw) -> str:
    """Return the size of a constant, and its values unless they follow from its name."""
    size = f"({','.join(map(str, value.shape))})"
    for more in ("", "~"):
        if np.array_equal(_drawn(name + more, value.shape, draw), value):
            return size + more
    numbers = [number(one) for one in value.ravel() + 0]  # -0.0 is 0
    if len(set(numbers)) == 1:
        return f"{size}={numbers[0]}"
    order = value.reshape(len(value), -1).argmax(1)
    if value.size == len(order) ** 2 and np.array_equal(
        value.reshape(len(order), -1), np.eye(len(order))[order]
    ):
        return f"{size}=perm:{','.join(map(str, order.tolist()))}"
    text = ",".join(numbers)
    return f"{size}={text}" if len(text) <= LISTED else f"{size}~"


def sums_type(data: str) -> str:
    return {"float32": "float32", "int16": "int64"}.get(data, "int32")


def draw_of_input(operator: type[Operator], number: int, data: str) -> tuple[str, Draw]:
    """Return the type and the distribution of a constant input; data : type of the map"""
    kernel = issubclass(operator, Conv | Dense) and number == 1
    if data == "float32":
        return data, _kernel if kernel else _real
    if not kernel:
        return sums_type(data), lambda random, shape: random.integers(-999, 1000, shape)
    if data == "bits":
        return data, lambda random, shape: random.choice([-1, 1], shape)
    return data, lambda random, shape: random.integers(-127, 128, shape)


def _real(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.normal(0, 1, shape).astype(np.float32)


def _kernel(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.normal(0, math.prod(shape[1:]) ** -0.5, shape).astype(np.float32)


def draw_of_attribute(name: str) -> Draw:
    """Return the distribution of an attribute with numbers of channels."""
    if name.endswith((".factor", ".negative")):
        return lambda random, shape: random.uniform(0.0005, 0.003, shape).astype(np.float32)
    ends = (0, 2) if name.endswith(".flip") else (-9, 10)
    return lambda random, shape: random.integers(*ends, shape)
