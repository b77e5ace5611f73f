"""Parse TOML files of users: small regular files, with one-line errors."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

MOST_FILE_BYTES = 16 << 20  # bytes: enough for a list of a million cores or neurons
MOST_DIGITS = 40  # shorter numbers are range-checked with their key
DEEPEST = 64  # parts of a key, nesting levels of lists
_DEEP_KEY = re.compile(r"(?:[\"'\w-]+[ \t]*\.[ \t]*){64}")  # 64 is `DEEPEST`


def read_toml_bytes(path: Path) -> bytes:
    """Return the bytes of a file; raises `OSError`, or `ValueError` if the file is unsuitable.

    Pipes and devices are rejected: they may never start or end.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ValueError("is a pipe or a device; save its content as a file and give that file")
    with path.open("rb") as file:
        raw = file.read(MOST_FILE_BYTES + 1)
    if len(raw) > MOST_FILE_BYTES:
        raise ValueError(f"is larger than {MOST_FILE_BYTES >> 20} MiB; is it the right file?")
    return raw


def parse_toml(raw: bytes) -> dict[str, Any]:
    """Return the tables of a TOML text; raises `ValueError` with the reason if it is invalid.

    Integers with very many digits, which TOML allows, and deep nesting are rejected.
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
    except ValueError as error:  # raised by int(), with a message for programmers
        raise ValueError(f"a number of more than {MOST_DIGITS} digits") from error
    _check(list(found.values()))
    return found


def toml_string(value: str) -> str:
    """Return a text in quotes, with unprintable characters as escapes, which TOML shares with JSON.

    JSON writes characters above U+FFFF as two escapes, which TOML does not allow.
    """
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _check(values: list[Any]) -> None:
    """Raise `ValueError` for integers that are too large, and for deep nesting."""
    for _ in range(DEEPEST):
        if any(type(value) is int and abs(value) >= 10**MOST_DIGITS for value in values):
            raise ValueError(f"a number of more than {MOST_DIGITS} digits")
        inner = [value for value in values if isinstance(value, dict | list)]
        values = [x for each in inner for x in (each.values() if type(each) is dict else each)]
        if not values:
            return
    raise ValueError(f"nested more than {DEEPEST} deep")
