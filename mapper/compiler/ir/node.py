"""Nodes of the compiler's graph, and their operators: one class per operator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from mapper.compiler.ir.requantisation import AddFactors, Int64, Requantisation, Rounding
from mapper.compiler.ir.tensor import NO_PAD, Pad, Tensor
from mapper.compiler.ir.term import Term


@dataclass(frozen=True, slots=True)
class Operator:
    """The operation of a node; inputs and outputs belong to the node.

    name : name of its class in lower case, in messages and files
    """

    name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        words = re.sub(r"\B[A-Z]", r"_\g<0>", cls.__name__).lower()
        cls.name = cls.__dict__.get("name", words)


@dataclass(frozen=True, slots=True)
class Window:
    """Sliding window over a feature map: sizes, strides and dilations are (rows, columns)."""

    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: Pad = NO_PAD
    dilation: tuple[int, int] = (1, 1)

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first to the last pixel of a kernel, inclusive."""
        (kh, kw), (dh, dw) = self.size, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    def results(self, height: int, width: int, ceil: bool = False) -> tuple[int, int]:
        """Return the rows and columns of the result for a feature map."""
        out = []
        sides = (self.pad.top + self.pad.bottom + height, self.pad.left + self.pad.right + width)
        for side, reach, stride in zip(sides, self.reach, self.stride, strict=True):
            out.append((side - reach + (stride - 1 if ceil else 0)) // stride + 1)
        return out[0], out[1]


@dataclass(frozen=True, slots=True)
class Conv(Operator):
    """Convolution of (map, weights[outputs, rows, columns, inputs / groups], bias[outputs] or
    none). Integer sums are int32 or wider; map and weights may both be bits, +1 and -1, with
    padding of 0."""

    window: Window
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Dense(Operator):
    """Fully connected layer; weights and bias as in a convolution of the size of the map."""


@dataclass(frozen=True, slots=True)
class Pool(Operator):
    """Maximum or average of each window; `count_pad`: averages include padding pixels."""

    kind: Literal["max", "average"]
    window: Window
    count_pad: bool = False


@dataclass(frozen=True, slots=True)
class Activation(Operator):
    """x or slope * x by sign, then clipped; slope 0 and low 0 are a ReLU, slope 1 is a Clip.

    Per-channel slopes are a second input, shape (channels,).
    """

    slope: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")


@dataclass(frozen=True, slots=True)
class Function(Operator):
    """A function of one real number, element by element."""

    term: Term


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Operator):
    """A function of one stored integer, element by element.

    entries : int64, shape (256,): results for all integers of 8 bits, in order; shape (257,):
        results for every 256th integer of 16 bits, with straight lines between them
    """

    entries: Int64

    @property
    def interpolates(self) -> bool:
        return len(self.entries) > PAGES

    @property
    def slopes(self) -> Int64:
        """Differences of consecutive entries, shape (256,)."""
        return np.diff(self.entries)


@dataclass(frozen=True, slots=True)
class Affine(Operator):
    """x * factor + offset with constants, shape (channels,) each; includes BatchNormalization."""


@dataclass(frozen=True, slots=True)
class Add(Operator):
    """Sum of two feature maps of the same shape.

    factors : for integers with different scales, whose sum is clipped to low and high
    rounding : rounding of the shift after the factors
    """

    factors: AddFactors | None = None
    low: int = 0
    high: int = 0
    rounding: Rounding = "away"


@dataclass(frozen=True, slots=True)
class Product(Operator):
    """Product of two feature maps of the same shape, or of a map and one pixel, which scales the
    map channel by channel. Zero points are subtracted before the product, which is an int32."""


@dataclass(frozen=True, slots=True)
class Concat(Operator):
    """Concatenation of the inputs on axis 1, 2 or 3."""

    axis: int = 3


@dataclass(frozen=True, slots=True)
class Slice(Operator):
    """A part of a feature map on axis 1, 2 or 3, starting at `first`, of the size of the result."""

    axis: int = 3
    first: int = 0


@dataclass(frozen=True, slots=True)
class Unfold(Operator):
    """Reshape of columns stored in the channels of a pixel to pixels: from (rows, columns,
    channels) to (rows, columns * count, channels / count), in the same order."""

    count: int


@dataclass(frozen=True, slots=True)
class DepthToSpace(Operator):
    """Channels of a pixel as rows x columns pixels: channels are (groups, rows, columns, channels
    of the result / groups). The result may lack the last rows and columns of the last pixels."""

    rows: int
    columns: int
    groups: int = 1

    def channels(self, made: int) -> Int64:
        """Return the channel of the result for each channel of the input, shape (groups, rows,
        columns, made / groups); made : channels of the result"""
        shape = (self.groups, self.rows, self.columns, made // self.groups)
        numbers = np.arange(made).reshape(self.groups, 1, 1, -1)
        return np.broadcast_to(numbers, shape)


@dataclass(frozen=True, slots=True)
class Interleave(Operator):
    """Interleaved rows and columns of several feature maps: pixel (y, x) is from map
    (y mod rows) * columns + x mod columns."""

    rows: int
    columns: int

    def phase(self, number: int) -> tuple[int, int]:
        """Return the first row and column of the result that an input provides."""
        return divmod(number, self.columns)


@dataclass(frozen=True, slots=True)
class Copy(Operator):
    """The same stored integers at a second address."""


@dataclass(frozen=True, slots=True)
class Relay(Copy):
    """A copy that has its own core, between more cores than one can exchange data with."""


@dataclass(frozen=True, slots=True)
class Requantise(Operator):
    """Conversion of sums to stored integers."""

    how: Requantisation


@dataclass(frozen=True, slots=True)
class Sign(Operator):
    """+1 or -1; zero is +1. For stored integers it is the sign of the represented real number.

    For real numbers it may have constant inputs, shape (channels,) each: one or more pairs of
    factor and offset that are applied before.
    scale : value that +1 represents
    """

    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Levels(Operator):
    """Quantisation of real numbers to levels that a model defines, of at most 8 bits: x / divisor
    is rounded, clipped and stored; the result is scale * (stored - stored_zero).

    Constant inputs are applied before, as in `Sign`.
    """

    scale: float
    divisor: float
    stored_zero: int
    stored_low: int
    stored_high: int
    rounding: Rounding = "even"


@dataclass(frozen=True, slots=True)
class Threshold(Operator):
    """Sums to +1 and -1: per channel +1 if a sum is at least `least`, or, with `flip`, less.

    least, flip : shape (channels,)
    """

    least: Int64
    flip: Int64


@dataclass(frozen=True, slots=True)
class Quantise(Operator):
    """Conversion of real numbers on the host to stored integers, by the scale of the result.

    levels : signs or levels of the model, with the constant inputs of the node; None if only the
        scale is needed
    """

    levels: Sign | Levels | None = None


@dataclass(frozen=True, slots=True)
class Dequantise(Operator):
    """Conversion of stored integers to real numbers."""


@dataclass(frozen=True, slots=True)
class Clamp(Operator):
    """Stored integers clipped to inclusive bounds: an activation that keeps the scale."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Upsample(Operator):
    """Repetition of every pixel `rows` x `columns` times."""

    rows: int = 2
    columns: int = 2


@dataclass(frozen=True, slots=True)
class Windows(Operator):
    """im2col: each pixel of the result is a window (kernel rows, kernel columns, channels)."""

    window: Window


@dataclass(frozen=True, slots=True)
class WindowColumns(Operator):
    """im2col by the window unit of a core: channels are padded to groups of four, and each pixel
    of the result is a window: group, kernel rows, kernel columns, channel in the group. The input
    is stored in planes; the result is never stored."""

    window: Window


@dataclass(frozen=True, slots=True)
class PadMap(Operator):
    """Constant padding of a feature map."""

    name = "pad"
    pad: Pad
    value: float = 0.0


ASKED = "kept on the host, as asked"
"""Reason of a host node that the user named."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Host(Operator):
    """A node of the model that the host computes with ONNX Runtime.

    node : a `storage.formats.layers.onnxgraph` node
    given : a view, an array, or None for each of its inputs
    results : views of its outputs
    why : reason why it does not run on cores
    opsets : domains and versions of the model's operators
    kinds : element type of each input; all float32 if empty
    """

    node: Any
    given: tuple[Any, ...]
    results: tuple[Any, ...]
    why: str
    opsets: tuple[tuple[str, int], ...] = ()
    kinds: tuple[np.dtype[Any], ...] = ()

    @property
    def label(self) -> str:
        """The name of the model node in messages."""
        return f"node {self.node.name!r} ({self.node.kind})"

    def kind(self, number: int) -> np.dtype[Any]:
        """Return the element type of an input."""
        return self.kinds[number] if self.kinds else np.dtype(np.float32)

    __eq__ = object.__eq__  # model nodes are compared by identity
    __hash__ = object.__hash__


@dataclass(slots=True, eq=False)
class Node:
    """An operator with its inputs and outputs in the graph.

    sources : names of the ONNX nodes that it implements
    """

    operator: Operator
    inputs: list[Tensor]
    outputs: list[Tensor]
    sources: tuple[str, ...]

    @property
    def kind(self) -> str:
        return self.operator.name

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    @property
    def is_max_pool(self) -> bool:
        return isinstance(self.operator, Pool) and self.operator.kind == "max"

    @property
    def label(self) -> str:
        """The name of the node in messages."""
        return f"{self.kind} {self.sources[0]!r}" if self.sources else self.kind


TWO_MAPS = Add | Product
"""Operators that cores apply to the tile in their accumulators and to a second feature map."""
PAGES = 256
"""Entries of a table; with 16 bits the integers between two of them are interpolated."""
MOVES = Concat | Slice | Upsample | DepthToSpace
"""Operators of models that only move or select numbers."""
SHARES: tuple[type[Operator], ...] = (Concat, Slice, Unfold, DepthToSpace, Interleave)
"""Operators that are implemented by memory layout only."""
JOINS = Concat | Interleave
"""Operators whose inputs are stored inside their result."""
BY_HOST = Host | Quantise | Windows
"""Operators that the host computes."""
ENDS = Sign | Levels
"""Operators that make signs or levels, which fold the factors and offsets before them."""
