"""JSON as files of ours may hold it: what else Python would take, or choke on, is refused."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter
from typing import Any

DEEPEST = 64  # lists and objects inside each other
MOST_DIGITS = 100  # of a whole number
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(raw: bytes) -> Any:
    """The value that a JSON text stands for.

    Raises `ValueError` with a reason of some words if it is not sound: also for NaN and infinities,
    numbers beyond a float64, a key that an object has twice, half of a surrogate pair, and what is
    nested more than `DEEPEST` deep.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error
    try:
        found = json.loads(
            text,
            parse_float=_finite,
            parse_int=_whole,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except RecursionError as error:
        raise ValueError(f"nested more than {DEEPEST} deep") from error
    _check_depth(found)
    if _SURROGATE.search(raw):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ValueError("a text holds half of a surrogate pair") from error
    return found


def shown(value: Any) -> str:
    """A value in a message: not at length, whatever it is."""
    text = _SHORT.repr(value)
    return text if text.isprintable() else ascii(text)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = 40
_SHORT.maxlevel, _SHORT.maxdict, _SHORT.maxlist = 3, 4, 4


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:24]} is too large")
    return value


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is too large")
    return int(text)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"key {twice[:24]!r} is there twice")
    return found


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise ValueError(f"nested more than {DEEPEST} deep")


def _inside(value: Any) -> list[Any]:
    """The lists and objects in a list or an object."""
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    return [inner for inner in value if isinstance(inner, dict | list)]
