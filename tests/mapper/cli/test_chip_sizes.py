"""A range of chips in `mapper compile --chip`."""

from __future__ import annotations

import pytest

from mapper.errors import UsageError
from mapper.inputs.chips import chips_in


@pytest.mark.parametrize(("text", "names"), [
    ("4x4", ["4x4"]),
    ("loihi", ["loihi"]),
    ("4x4..16x16", ["4x4", "8x4", "8x8", "16x8", "16x16"]),
    ("2x1..2x8", ["2x1", "2x2", "2x4", "2x8"]),
    ("1x3..5x3", ["1x3", "2x3", "4x3", "5x3"]),
    ("3x2..6x5", ["3x2", "3x4", "6x4", "6x5"]),
    ("../chips/2x2.toml", ["../chips/2x2.toml"]),
])  # fmt: skip
def test_sizes_of_a_range(text: str, names: list[str]) -> None:
    assert chips_in(text) == names


@pytest.mark.parametrize("text", ["8x8..4x4", "4x4..4x4", "4x8..8x4", "4x4..", "4x4...8x8"])
def test_ranges_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--chip"):
        chips_in(text)
