"""The acceptance list names existing tests."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.compiler.acceptance import OPEN, ROWS
from tests.docs.blocks import DOCS

TESTS = Path(__file__).resolve().parents[1]
IDS = [
    *(f"A{number:02d}" for number in range(1, 43)),
    *(f"B{number:02d}" for number in range(1, 16)),
    *(f"C{number:02d}" for number in range(1, 17)),
    *(f"D{number:02d}" for number in range(1, 13)),
]
MOST_OPEN = 0
"""Rows without a test: the number may only decrease."""


@cache
def functions(module: str) -> frozenset[str]:
    """Return the tests of a module; none if it does not exist."""
    path = TESTS / module
    if not path.is_file():
        return frozenset()
    return frozenset(
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_every_row_exists_once() -> None:
    assert list(ROWS) == IDS
    assert len({row.title for row in ROWS.values()}) == len(IDS)


def test_rows_name_existing_tests() -> None:
    wrong = {
        name
        for row in ROWS.values()
        for name in row.tests
        if name.partition("::")[2] not in functions(name.partition("::")[0])
    }
    assert not wrong


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_rows_name_all_tests_that_carry_their_id() -> None:
    """So a change of a mechanism finds all its tests."""
    missing = {
        f"{number.upper()}: {path.relative_to(TESTS)}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in functions(str(path.relative_to(TESTS)))
        for number in re.findall(r"(?<=_)[abcd]\d\d(?=_|$)", name)
        if number.upper() in ROWS
    } - {f"{number}: {name}" for number, row in ROWS.items() for name in row.tests}
    assert not missing


def test_rows_without_a_test_are_open_and_get_fewer() -> None:
    assert {name for name, row in ROWS.items() if not row.tests} == OPEN, "remove it from the list"
    assert len(OPEN) <= MOST_OPEN


def test_a33_four_products_in_one_multiplier_are_documented() -> None:
    page = " ".join((DOCS / "compiler.md").read_text().split())
    assert "Four products in one multiplier" in page
    assert "it is not built" in page


def test_c14_a_second_clock_is_left_out() -> None:
    page = " ".join((DOCS / "npu.md").read_text().split())
    assert "There is one clock domain. A faster clock for the array alone is left out." in page
