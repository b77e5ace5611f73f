"""What nodes of the compiler's graph do: an operator a class, and its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from mapper.compiler.graph.tensor import NO_PAD, Pad, Tensor
from mapper.compiler.integer.binary import Int64
from mapper.compiler.integer.formulas import AddFactors, Requantisation, Rounding


@dataclass(frozen=True, slots=True)
class Operator:
    """What a node does; inputs and outputs are those of its node."""

    name: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel walks over a map: sizes, strides and dilations are (rows, columns)."""

    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    pad: Pad = NO_PAD
    dilation: tuple[int, int] = (1, 1)

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first to the last pixel of a kernel, both included."""
        (kh, kw), (dh, dw) = self.size, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    def results(self, height: int, width: int, ceil: bool = False) -> tuple[int, int]:
        """Rows and columns of what it makes of a map."""
        out = []
        sides = (self.pad.top + self.pad.bottom + height, self.pad.left + self.pad.right + width)
        for side, reach, stride in zip(sides, self.reach, self.stride, strict=True):
            out.append((side - reach + (stride - 1 if ceil else 0)) // stride + 1)
        return out[0], out[1]


@dataclass(frozen=True, slots=True)
class Conv(Operator):
    """Convolution of (map, weights[outputs, rows, columns, inputs / groups], bias[outputs] or
    none). Of integers the sums, int32 or more; map and weights may both be bits, +1 and -1, around
    which padding is 0."""

    name: ClassVar[str] = "conv"
    window: Window
    groups: int = 1


@dataclass(frozen=True, slots=True)
class Dense(Operator):
    """Every output sees the whole map; weights and bias as of a convolution of that size."""

    name: ClassVar[str] = "dense"


@dataclass(frozen=True, slots=True)
class Pool(Operator):
    """Largest or mean value of each window; `count_pad`: padding counts as pixels of a mean."""

    name: ClassVar[str] = "pool"
    kind: Literal["max", "average"]
    window: Window
    count_pad: bool = False


@dataclass(frozen=True, slots=True)
class Activation(Operator):
    """max(x, slope * x) by sign, then clipped; slope 0 and low 0 are a ReLU, slope 1 is a Clip.

    The slope is a second input, shape (channels,), if each channel has its own.
    """

    name: ClassVar[str] = "activation"
    slope: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")


@dataclass(frozen=True, slots=True)
class Affine(Operator):
    """x * factor + offset of constants, shape (channels,) each: BatchNormalization, too."""

    name: ClassVar[str] = "affine"


@dataclass(frozen=True, slots=True)
class Add(Operator):
    """Sum of two maps of one shape.

    factors : of integers with scales of their own, whose sum is clipped to low and high
    rounding : of the shift behind the factors
    """

    name: ClassVar[str] = "add"
    factors: AddFactors | None = None
    low: int = 0
    high: int = 0
    rounding: Rounding = "away"


@dataclass(frozen=True, slots=True)
class Concat(Operator):
    """Inputs one behind the other, on axis 1, 2 or 3."""

    name: ClassVar[str] = "concat"
    axis: int = 3


@dataclass(frozen=True, slots=True)
class Slice(Operator):
    """A part of a map: as much as the result has of axis 1, 2 or 3, from a place on."""

    name: ClassVar[str] = "slice"
    axis: int = 3
    first: int = 0


@dataclass(frozen=True, slots=True)
class Unfold(Operator):
    """Columns side by side in the channels of a pixel become pixels: of (rows, columns, channels)
    a map (rows, columns * count, channels / count), the same numbers in the same order."""

    name: ClassVar[str] = "unfold"
    count: int


@dataclass(frozen=True, slots=True)
class Copy(Operator):
    """The same stored integers at a second place in memory."""

    name: ClassVar[str] = "copy"


@dataclass(frozen=True, slots=True)
class Requantise(Operator):
    """Sums as stored integers."""

    name: ClassVar[str] = "requantise"
    how: Requantisation


@dataclass(frozen=True, slots=True)
class Sign(Operator):
    """+1 or -1; zero is +1. Of stored integers the sign of the real number behind.

    Of real numbers it may take constants as well, shape (channels,) each: a factor and an offset,
    and perhaps more of them, that are applied before.
    scale : what +1 stands for
    """

    name: ClassVar[str] = "sign"
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Levels(Operator):
    """Real numbers at the levels that a model gives them, as few as 8 bits have: x over the
    divisor is rounded, clipped and stored, and scale * (stored - stored_zero) is the result.

    Takes constants that are applied before, as `Sign` does.
    """

    name: ClassVar[str] = "levels"
    scale: float
    divisor: float
    stored_zero: int
    stored_low: int
    stored_high: int
    rounding: Rounding = "even"


@dataclass(frozen=True, slots=True)
class Threshold(Operator):
    """Sums as +1 and -1: of each channel whether a sum is at least `least`, or, with `flip`, less.

    least, flip : shape (channels,)
    """

    name: ClassVar[str] = "threshold"
    least: Int64
    flip: Int64


@dataclass(frozen=True, slots=True)
class Quantise(Operator):
    """Real numbers that the host made as stored integers, by the scale of the result.

    levels : signs or levels of the model, with the constants that its node takes; None if the
        scale alone says it
    """

    name: ClassVar[str] = "quantise"
    levels: Sign | Levels | None = None


@dataclass(frozen=True, slots=True)
class Dequantise(Operator):
    """The real numbers that stored integers stand for."""

    name: ClassVar[str] = "dequantise"


@dataclass(frozen=True, slots=True)
class Clamp(Operator):
    """Stored integers between two bounds, both included: an activation that keeps the scale."""

    name: ClassVar[str] = "clamp"
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Upsample(Operator):
    """Every pixel `rows` x `columns` times."""

    name: ClassVar[str] = "upsample"
    rows: int = 2
    columns: int = 2


@dataclass(frozen=True, slots=True)
class Windows(Operator):
    """Each pixel of the result is a window of the map: kernel rows, kernel columns, channels."""

    name: ClassVar[str] = "windows"
    window: Window


@dataclass(frozen=True, slots=True)
class WindowColumns(Operator):
    """Windows as the window unit of a core makes them: channels filled up to whole groups of four,
    and each pixel of the result is a window: group, kernel rows, kernel columns, channel of the
    group. The map lies in planes; the result is never stored."""

    name: ClassVar[str] = "window_columns"
    window: Window


@dataclass(frozen=True, slots=True)
class PadMap(Operator):
    """Pixels of one value around a map."""

    name: ClassVar[str] = "pad"
    pad: Pad
    value: float = 0.0


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Host(Operator):
    """A node of the model that the host computes, with ONNX Runtime.

    node : of `storage.formats.layers.onnxgraph`
    given : a view, an array, or None for each input of it
    results : views of what it makes
    why : what keeps it from the cores
    opsets : domains and versions of the operators of the model
    kinds : types of the numbers that it takes, one for each input; all float32 if empty
    """

    name: ClassVar[str] = "host"
    node: Any
    given: tuple[Any, ...]
    results: tuple[Any, ...]
    why: str
    opsets: tuple[tuple[str, int], ...] = ()
    kinds: tuple[np.dtype[Any], ...] = ()

    @property
    def label(self) -> str:
        """How messages name the node of the model."""
        return f"node {self.node.name!r} ({self.node.kind})"

    def kind(self, number: int) -> np.dtype[Any]:
        """The type of the numbers of an input."""
        return self.kinds[number] if self.kinds else np.dtype(np.float32)

    __eq__ = object.__eq__  # each node of the model is another one
    __hash__ = object.__hash__


@dataclass(slots=True, eq=False)
class Node:
    """An operator at its place in the graph.

    sources : names of the ONNX nodes that it does the work of
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
    def label(self) -> str:
        """How messages name it."""
        return f"{self.kind} {self.sources[0]!r}" if self.sources else self.kind
