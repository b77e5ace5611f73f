"""Strict JSON parser: refuses extensions that Python accepts and inputs that crash it."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter
from typing import Any

DEEPEST = 64  # nesting depth of lists and objects
MOST_DIGITS = 100  # digits of an integer
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(raw: bytes) -> Any:
    """Parse a JSON text.

    Raises `ValueError` with a short reason if it is invalid, including NaN and infinities, numbers
    that overflow a float64, duplicate keys, lone surrogates, and nesting deeper than `DEEPEST`.
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
            raise ValueError("a string contains a lone surrogate") from error
    return found


def shown(value: Any) -> str:
    """Return a value for a message, truncated if long."""
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
    raise ValueError(f"{name} is not valid JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"duplicate key {twice[:24]!r}")
    return found


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise ValueError(f"nested more than {DEEPEST} deep")


def _inside(value: Any) -> list[Any]:
    """Return the lists and objects directly inside a list or an object."""
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    return [inner for inner in value if isinstance(inner, dict | list)]
