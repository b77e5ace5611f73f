"""Parsing of --seeds."""

from __future__ import annotations

import pytest

from mapper.errors import UsageError
from mapper.portfolio.seeds import parse_seeds


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("1..3", [1, 2, 3]),
        ("7", [7]),
        ("4..4", [4]),
        ("1,4,9", [1, 4, 9]),
        ("9, 1 .. 3", [9, 1, 2, 3]),
        ("9223372036854775807", [2**63 - 1]),
    ],
)
def test_seeds(text: str, seeds: list[int]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a whole number; give a range as 1..8 or a list as 1,4,9"),
        ("a..b", "'a' is not a whole number"),
        ("1..", "'' is not a whole number"),
        ("..8", "'' is not a whole number"),
        ("1,,2", "'' is not a whole number"),
        ("-1..3", "'-1' is not a whole number"),
        ("1.5", "'1.5' is not a whole number"),
        ("1...3", "'.3' is not a whole number"),
        ("٣", "is not a whole number"),
        ("8..1", "8..1 is empty; give 1..8"),
        ("1,2,1", "seed 1 is repeated; give it once"),
        ("1..3,2", "seed 2 is repeated"),
        ("0..100000", "more than 100,000 runs"),
        ("0..99999,200000", "more than 100,000 seeds"),
        ("9" * 5000, "is too large; give less than 2^63"),
        ("9223372036854775808", "give a whole number, 0 to 2^63 - 1"),
    ],
)
def test_invalid_seeds(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_seeds(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 200
