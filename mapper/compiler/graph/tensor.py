"""A tensor of the compiler's graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

Type = Literal["float32", "int8", "int16", "int32", "int64", "bits"]

BITS: dict[str, int] = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "float32": 32, "bits": 1}


class Pad(NamedTuple):
    """Pixels around a map."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    def __str__(self) -> str:
        return f"[[0,0],[{self.top},{self.bottom}],[{self.left},{self.right}],[0,0]]"


NO_PAD = Pad()


@dataclass(slots=True, eq=False)
class Tensor:
    """A map, a vector, or a constant.

    name : of the ONNX value that it is, or derived from one
    shape : of a map frames (1), rows, columns, channels; a vector is one pixel. Constants have the
        shape of `value`
    type : of an element; the real number behind a stored integer q is scale * (q - zero_point);
        q of "bits" is +1 or -1
    pad : pixels around it in memory
    stored : whether it gets memory, from `address` (a vector) on
    planes : whether it lies there channel by channel (T-mode), for the window unit
    value : of a constant, or None
    of_model : channels that the model has, if others fill blocks between them
    """

    name: str
    shape: tuple[int, ...]
    type: Type = "float32"
    scale: float = 1.0
    zero_point: int = 0
    pad: Pad = NO_PAD
    stored: bool = False
    address: int | None = None
    planes: bool = False
    value: NDArray[Any] | None = None
    of_model: tuple[int, ...] | None = None

    @property
    def bits(self) -> int:
        return BITS[self.type]

    @property
    def low(self) -> int:
        """The least that an element can be."""
        return -1 if self.type == "bits" else -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The most that an element can be."""
        return 1 if self.type == "bits" else (1 << (self.bits - 1)) - 1

    def same_scale(self, other: Tensor) -> bool:
        """Whether the same integers stand for the same real numbers."""
        mine, others = ((one.scale, one.zero_point, one.type) for one in (self, other))
        return mine == others

    @property
    def height(self) -> int:
        return self.shape[1]

    @property
    def width(self) -> int:
        return self.shape[2]

    @property
    def channels(self) -> int:
        return self.shape[3]
