"""Input form of a model, and conversion of data to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.jsontext import shown

Layout = Literal["nchw", "nhwc"]
"""Axes of data: samples, channels, rows, columns; or channels last."""

LAYOUTS: tuple[Layout, ...] = get_args(Layout)
KEYS = ("scale", "mean", "std")


def sizes(shape: tuple[int, ...]) -> str:
    """Format a shape for messages."""
    return "x".join(map(str, shape)) or "one number"


class InputShape(NamedTuple):
    """A model's input without its batch axis.

    channels_last : the channels are the last axis, not the first
    """

    shape: tuple[int, ...]
    channels_last: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def channels(self) -> int:
        return self.shape[-1 if self.channels_last else 0]


@dataclass(frozen=True, slots=True)
class Normalisation:
    """(x * scale - mean) / std.

    mean, std : one number, or one per channel
    """

    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "scale=1/255,mean=0.485,0.456,0.406,std=0.25": numbers or fractions, any keys.

        Raises `BadInputError` for unknown keys, and for values that are invalid or zero divisors.
        """
        found: dict[str, list[float]] = {}
        key = ""
        for item in filter(None, (item.strip() for item in text.split(","))):
            name, equals, number = item.rpartition("=")
            if equals:
                key = name.strip()
                if key not in KEYS:
                    raise _refused(f"{shown(key)} is unknown; the keys are {', '.join(KEYS)}")
                if key in found:
                    raise _refused(f"{key} is a duplicate")
            elif not key:
                raise _refused(f"{shown(item)} has no key; example: scale=1/255,mean=0.5,std=0.5")
            found.setdefault(key, []).append(_number(key, number.strip()))
        if len(found.get("scale", [1.0])) != 1:
            raise _refused("scale must be one number")
        if 0.0 in found.get("scale", []) or 0.0 in found.get("std", []):
            raise _refused("scale and std must not be zero")
        return cls(
            found.get("scale", [1.0])[0],
            tuple(found.get("mean", [0.0])),
            tuple(found.get("std", [1.0])),
        )

    def __str__(self) -> str:
        """Return a text that `parse` reads back."""
        mean, std = (",".join(map(repr, numbers)) for numbers in (self.mean, self.std))
        return f"scale={self.scale!r},mean={mean},std={std}"

    def require_channels(self, taken: InputShape) -> None:
        """Raise `BadInputError` unless there is one number or one per channel."""
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (1, taken.channels):
                raise _refused(
                    f"{name} has {len(numbers)} numbers, the model's input has {taken.channels} "
                    "channels; give one number, or one per channel"
                )

    def apply(self, data: NDArray[Any], form: InputShape) -> NDArray[np.float32]:
        """Normalise samples of shape (samples, *form.shape), computed in float64."""
        axes = [1] * len(form.shape)
        if axes:
            axes[-1 if form.channels_last else 0] = -1
        mean, std = (np.array(numbers).reshape(axes) for numbers in (self.mean, self.std))
        with np.errstate(over="ignore", invalid="ignore"):  # the caller checks the results
            made = (data.astype(np.float64) * self.scale - mean) / std
            return np.asarray(made, np.float32)


class SampleForm(NamedTuple):
    """Conversion of the samples of a file to the input of a model.

    layout : axes of the data; None: the model's layout
    """

    layout: Layout | None = None
    normalisation: Normalisation = Normalisation()

    def to_json(self) -> dict[str, Any]:
        return {"layout": self.layout, "normalise": str(self.normalisation)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Self:
        """Restore from `to_json`; raise `BadInputError` if invalid."""
        normalise = found.get("normalise", "")
        if not isinstance(normalise, str):
            raise _refused(f"{shown(normalise)} is not text")
        return cls(_layout(found.get("layout")), Normalisation.parse(normalise))


def parse_form(normalise: str | None, layout: str | None) -> SampleForm:
    """Return the form given by two options, each optional.

    Raises `BadInputError` like `Normalisation.parse`, and for an unknown layout.
    """
    return SampleForm(_layout(layout), Normalisation.parse(normalise or ""))


def _layout(text: Any) -> Layout | None:
    for layout in LAYOUTS:
        if text == layout:
            return layout
    if text is not None:
        raise BadInputError(f"layout {shown(text)} is unknown; give {' or '.join(LAYOUTS)}")
    return None


def _refused(why: str) -> BadInputError:
    return BadInputError(f"normalise: {why}")


def _number(key: str, text: str) -> float:
    """Parse a number or a fraction."""
    above, stroke, below = text.partition("/")
    try:
        value = float(above) / float(below) if stroke else float(above)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise _refused(f"{key} is {shown(text)}; give a number, or a fraction such as 1/255")
    return value


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Rearrangement of the numbers of a file's sample into a form.

    shape : of the sample in the file, with the form's axes of length 1
    last_to_first, first_to_last : whether the channel axis moves
    """

    shape: tuple[int, ...]
    last_to_first: bool = False
    first_to_last: bool = False

    def apply(self, data: NDArray[Any]) -> NDArray[Any]:
        data = data.reshape(data.shape[0], *self.shape)
        if self.last_to_first:
            return np.moveaxis(data, -1, 1)
        return np.moveaxis(data, 1, -1) if self.first_to_last else data


def arrangement(
    given: tuple[int, ...], form: InputShape, layout: Layout | None, where: str
) -> Arrangement:
    """Return the rearrangement of samples of shape `given` into a form.

    layout : of the file; None: the model's. A row of numbers has no shape, only a size.
    Raises `BadInputError` with both sizes if they do not match.
    """
    last = form.channels_last if layout is None else layout == "nhwc"
    if len(form.shape) < 2:
        last = form.channels_last  # all layouts of a vector are equal
    wanted = _other(form) if last != form.channels_last else form.shape
    flat = len(given) == 1 and given[0] == form.size
    if flat or _wide(given) == _wide(wanted):
        return Arrangement(wanted, last and not form.channels_last, form.channels_last and not last)
    hint = "use samples of the model's size"
    other = form.shape if last != form.channels_last else _other(form)
    if _wide(given) == _wide(other):
        hint = f"give layout {'nchw' if last else 'nhwc'}"
    elif math.prod(given) == form.size and len(form.shape) == 1:
        return Arrangement(form.shape)  # the model reads maps as rows of numbers
    raise BadInputError(
        f"{where}: a sample has {sizes(given)} numbers, the model needs {sizes(wanted)}"
        f"{'' if wanted == form.shape else ' in this layout'}; {hint}"
    )


def _other(form: InputShape) -> tuple[int, ...]:
    """Return the shape with the channel axis moved to the other end."""
    shape = form.shape
    return (shape[-1], *shape[:-1]) if form.channels_last else (*shape[1:], shape[0])


def _wide(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
