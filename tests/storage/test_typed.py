"""Conversion of values to types: errors name the fault and the place."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from storage.typed import Amount, Open, Plain, Whole, convert


class Inner(Open):
    REST: ClassVar[Any] = Amount
    x: Whole
    name: Annotated[str, Meta(pattern="^[^\x00]*$")] | UnsetType = UNSET


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    one: list[Inner]
    cost: Amount | None = None
    many: dict[str, Whole] | UnsetType = UNSET


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (3, "it is 3, not an object"),
        ({}, "lacks one"),
        ({"one": 3}, "one is 3, not a list"),
        ({"one": [{"x": 1}, {}]}, "lacks one[1].x"),
        ({"one": [{"x": -1}]}, "one[0].x is -1, not a whole number from 0"),
        ({"one": [{"x": True}]}, "one[0].x is True, not a whole number"),
        ({"one": [{"x": 1.0}]}, "one[0].x is 1.0, not a whole number"),
        ({"one": [{"x": 2**63}]}, f"one[0].x is {2**63}, not a whole number up to {2**63 - 1}"),
        ({"one": [{"x": 1, "more": -2}]}, "one[0].more is -2, not a number from 0"),
        ({"one": [{"x": 1, "a b": []}]}, "one[0].'a b' is [], not a number"),
        ({"one": [{"x": 1, "name": None}]}, "one[0].name is None, not a text"),
        ({"one": [{"x": 1, "name": "\x00"}]}, r"one[0].name is '\x00', not valid"),
        ({"one": [], "cost": "x"}, "cost is 'x', not a number or null"),
        ({"one": [], "cost": 1e308}, "cost is 1e+308, not a number below 1e+308"),
        ({"one": [], "cost": 10**400}, ", out of range"),
        ({"one": [], "many": {"x": 1, "y": -1}}, "a value of many is not a whole number from 0"),
        ({"one": [], "two": 3}, "has an unknown key two"),
    ],
)
def test_faults_name_the_place(value: object, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        convert(value, Outer)
    assert str(caught.value).endswith(said)


def test_values_of_the_type() -> None:
    found = convert({"one": [{"x": 1, "more": 2.5, "name": "a"}], "cost": 10**30}, Outer)
    assert found == Outer([Inner(1, "a")], 1e30)


def test_plain_values_keep_their_type() -> None:
    """A whole number that is written again does not become 1.0."""
    values: list[Any] = [1, -(2**63), 1.5, True, "a", None]
    found = convert(values, list[Plain])
    assert [(type(one), one) for one in found] == [(type(one), one) for one in values]
    with pytest.raises(ValueError, match=r"\[0\] is \[\], not true or false, a number, a text or"):
        convert([[]], list[Plain])
    for huge in (2**63, 10**400):
        with pytest.raises(ValueError, match=r"whole number up to|out of range"):
            convert([huge], list[Plain])
