"""Conversion of decoded JSON to Structs, with error messages that name the place.

A Struct with an attribute ``REST`` accepts unnamed keys whose values have that type; all other
Structs accept any keys, unless they forbid them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import Meta

from storage.jsontext import shown

T = TypeVar("T")

Whole = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Amount = Annotated[float, Meta(ge=0, lt=1e308)]
_Real = Annotated[float, Meta(gt=-1e308, lt=1e308)]
_Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  # without it, 1 would become 1.0
Plain = str | bool | _Integer | _Real | None
"""A value other than a list or an object."""

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
NO_FLOAT = 10**309  # larger integers are no floats; msgspec 0.19 has the range of floats for them
_RELATIONS = {">=": "from", "<=": "up to", ">": "above", "<": "below"}
_EXPECTED = re.compile(r"Expected `([\w |]+)`(?: (>=|<=|>|<) (\S+?)(?:\.0)?)?(?=$|,| )")
_LENGTH = re.compile(r"of length (>= )?(\d+)")
_MISSING = re.compile(r"Object (missing required|contains unknown) field `(.*)`")
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")


class Open(msgspec.Struct):
    """An object that may have additional keys with plain values."""

    REST: ClassVar[Any] = Plain


def convert(value: Any, kind: type[T]) -> T:
    """Convert a value to a type; raise `ValueError` with a short message that names the place."""
    try:
        made = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error), value)) from error
    wrong = _fault_of_rest(value, made, "")
    if wrong:
        raise ValueError(wrong)
    return made


def _fault_of_rest(value: Any, made: Any, place: str) -> str:
    """Return the fault in keys that a Struct does not name."""
    if isinstance(made, list):
        pairs = enumerate(zip(value, made, strict=True))
        found = (_fault_of_rest(*pair, f"{place}[{i}]") for i, pair in pairs)
        return next(filter(None, found), "")
    if not isinstance(made, msgspec.Struct):
        return ""
    for key, each in value.items():
        name, wrong = _inner(place, key), ""
        if key in made.__struct_fields__:
            wrong = _fault_of_rest(each, getattr(made, key), name)
        elif isinstance(made, Open):
            try:
                msgspec.convert(each, made.REST)
            except msgspec.ValidationError as error:
                wrong = f"{name} is {shown(each)}, {_expected(str(error), each)}"
        if wrong:
            return wrong
    return ""


def _in_words(text: str, value: Any) -> str:
    """Reword a message of msgspec about a value."""
    text, _, path = text.partition(" - at `$")
    place = ""
    for key, index in _STEP.findall(path):
        if index == "...":  # in an object with arbitrary keys
            return f"a value of {place or 'it'} is {_expected(text, value)}"
        place = _inner(place, key) if key else f"{place}[{index}]"
        value = value[key or int(index)]
    if field := _MISSING.fullmatch(text):
        verb = "lacks" if field[1].startswith("missing") else "has an unknown key"
        return f"{verb} {_inner(place, field[2])}"
    return f"{place or 'it'} is {shown(value)}, {_expected(text, value)}"


def _expected(text: str, value: Any) -> str:
    found = _EXPECTED.match(text)
    if not found or (isinstance(value, int) and abs(value) >= NO_FLOAT):
        return "out of range"
    names = found[1].split(" | ")
    if "float" in names and "int" in names:
        names.remove("int")
    kinds = ", ".join(_WORDS.get(name, name) for name in names)
    what = " or ".join(kinds.rsplit(", ", 1))
    if found[2]:
        return f"not {what} {_RELATIONS[found[2]]} {found[3]}"
    if length := _LENGTH.search(text):
        return f"not {what} of length {length[2]}{' or more' * bool(length[1])}"
    return f"not {what}" if ", got" in text else "not valid"


def _inner(place: str, key: str) -> str:
    name = key if key.isidentifier() and len(key) < 40 else shown(key)
    return f"{place}.{name}" if place else name
