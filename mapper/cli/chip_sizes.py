"""A range of chips in --chip, from FIRST to LAST: the smallest one that a model fits is used.

From size to size the shorter side doubles: 4x4..16x16 is 4x4, 8x4, 8x8, 16x8, 16x16.
"""

from __future__ import annotations

import re

from mapper.errors import UsageError

RANGE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})\.\.([1-9]\d{0,3})x([1-9]\d{0,3})")


def chips_in(text: str) -> list[str]:
    """Return the chips of --chip, smallest first; a text without a range is a single chip.

    Raises `UsageError` for a range whose last size is not larger.
    """
    found = RANGE.fullmatch(text)
    if found is None:
        if re.match(r"\d+x\d+\.\.", text):
            raise UsageError(f"--chip {text!r}: give a range such as 4x4..16x16")
        return [text]
    width, height, last_width, last_height = map(int, found.groups())
    if width > last_width or height > last_height or (width, height) == (last_width, last_height):
        raise UsageError(f"--chip {text}: the last size must be the larger one")
    sizes = [(width, height)]
    while (width, height) != (last_width, last_height):
        wider = width <= height if height < last_height else True
        if wider and width < last_width:
            width = min(2 * width, last_width)
        else:
            height = min(2 * height, last_height)
        sizes.append((width, height))
    return [f"{width}x{height}" for width, height in sizes]
