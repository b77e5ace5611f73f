"""TOML files that a user writes: small regular files, whose faults end in one line."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

LARGEST = 16 << 20  # bytes: a list of a million cores or neurons
MOST_DIGITS = 40  # what is too large for its key is said with the key
DEEPEST = 64  # parts of a key, lists inside each other
_DEEP_KEY = re.compile(r"(?:[\"'\w-]+[ \t]*\.[ \t]*){64}")  # as many as `DEEPEST`


def read_toml_bytes(path: Path) -> bytes:
    """What is in a file; raises `OSError`, or `ValueError` with the reason why it will not do.

    A pipe or a device may have no end, or never begin.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError("is a pipe or a device; save what it holds as a file, and name that")
    with path.open("rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise ValueError(f"is larger than {LARGEST >> 20} MiB; is it the right file?")
    return raw


def parse_toml(raw: bytes) -> dict[str, Any]:
    """The tables of a TOML text; raises `ValueError` with the reason why it is not valid.

    Whole numbers of very many digits are refused, which TOML allows, and what is nested very deep.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error
    if _DEEP_KEY.search(text):  # the parser would take hours
        raise ValueError(f"a key of more than {DEEPEST} parts")
    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested more than {DEEPEST} deep") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error
    except ValueError as error:  # of Python itself, and meant for programmers
        raise ValueError(f"a number of more than {MOST_DIGITS} digits") from error
    _check(list(found.values()))
    return found


def toml_string(value: str) -> str:
    """A text in quotes: JSON's escapes are TOML's, which has one more for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check(values: list[Any]) -> None:
    """Raise `ValueError` for whole numbers that are too large, and for depth."""
    for _ in range(DEEPEST):
        if any(type(value) is int and abs(value) >= 10**MOST_DIGITS for value in values):
            raise ValueError(f"a number of more than {MOST_DIGITS} digits")
        inner = [value for value in values if isinstance(value, dict | list)]
        values = [x for each in inner for x in (each.values() if type(each) is dict else each)]
        if not values:
            return
    raise ValueError(f"nested more than {DEEPEST} deep")
