"""Cells of csv files that spreadsheets would evaluate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.csvcells import guarded, unguarded

TEXT = st.text("'=+-@\t\r.0129eEx ", max_size=6)


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+A1", "-A1", "@SUM(1)", "\t=1", "\r=1", "=", "-", "--1", "-1-1", "+1e", "-inf",
     "-1_000", "-\u0661", "-1,5"],
)  # fmt: skip
def test_formulas_get_a_quote(text: str) -> None:
    assert guarded(text) == f"'{text}"
    assert guarded(f"'{text}") == f"''{text}"


@pytest.mark.parametrize("text", ["-1", "+2.5", "-.5e-3", "+4."])
def test_numbers_are_unchanged(text: str) -> None:
    assert guarded(text) == text == unguarded(text)


@given(st.text(max_size=4))
def test_texts_that_begin_with_other_characters_are_unchanged(text: str) -> None:
    if not text.lstrip("'").startswith(tuple("=+-@\t\r")):
        assert guarded(text) == text == unguarded(text)


@pytest.mark.parametrize("text", [*map(chr, range(32, 127)), *(f"'{c}" for c in "0:;<>?,./A_")])
def test_no_other_printable_character_begins_a_formula(text: str) -> None:
    other = f"{text}x"
    assert (guarded(other) == other) == (text not in "=+-@")


@given(TEXT)
def test_every_text_is_restored(text: str) -> None:
    assert unguarded(guarded(text)) == text


@given(TEXT, TEXT)
def test_cells_differ_as_texts_do(first: str, second: str) -> None:
    assert (guarded(first) == guarded(second)) == (first == second)
