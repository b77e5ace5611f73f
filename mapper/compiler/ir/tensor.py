"""A tensor of the compiler's graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import NDArray

Type = Literal["float32", "int8", "int16", "int32", "int64", "bits"]

BITS: dict[str, int] = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "float32": 32, "bits": 1}


class Pad(NamedTuple):
    """Widths of the padding of a feature map."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0

    def __str__(self) -> str:
        return f"[[0,0],[{self.top},{self.bottom}],[{self.left},{self.right}],[0,0]]"


NO_PAD = Pad()


MOST_ELEMENTS = 1 << 27  # elements per map


@dataclass(slots=True, eq=False)
class Tensor:
    """A feature map, a vector, or a constant.

    name : name of the ONNX value, or derived from one
    shape : frames (1), rows, columns, channels; a vector is one pixel. Constants have the shape of
        `value`
    type : element type; a stored integer q represents scale * (q - zero_point); q of "bits" is
        +1 or -1
    pad : pixels around it in memory
    stored : True if it has memory; address : its first vector
    planes : stored channel by channel (T-mode), for the window unit
    value : constant value, or None
    of_model : channels that exist in the model, if padding channels are between them
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
    def numbers(self) -> NDArray[Any]:
        """The value of a constant."""
        assert self.value is not None
        return self.value

    @property
    def bits(self) -> int:
        return BITS[self.type]

    @property
    def low(self) -> int:
        """The smallest value of an element."""
        return -1 if self.type == "bits" else -(1 << (self.bits - 1))

    @property
    def high(self) -> int:
        """The largest value of an element."""
        return 1 if self.type == "bits" else (1 << (self.bits - 1)) - 1

    def same_scale(self, other: Tensor) -> bool:
        """Return whether equal integers represent equal real numbers."""
        mine, others = ((one.scale, one.zero_point, one.type) for one in (self, other))
        return mine == others

    def like(self, name: str, shape: tuple[int, ...], stored: bool = True) -> Tensor:
        """Return another map with the same type, scale and zero point."""
        return Tensor(name, shape, self.type, self.scale, self.zero_point, stored=stored)

    @property
    def height(self) -> int:
        return self.shape[1]

    @property
    def width(self) -> int:
        return self.shape[2]

    @property
    def channels(self) -> int:
        return self.shape[3]


def constant(name: str, value: NDArray[Any], kind: Type = "float32") -> Tensor:
    """Return a constant with the shape of its value."""
    return Tensor(name, value.shape, kind, value=value)
