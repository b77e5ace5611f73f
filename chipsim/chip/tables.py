"""Tables of chip files: their keys, and the description of each key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, get_type_hints

from chipsim.errors import ChipError


@cache
def annotations_of(kind: type) -> dict[str, Any]:
    """Return the type of each field of a class, with its limits and description."""
    return get_type_hints(kind, include_extras=True)


def meanings(kind: type) -> dict[str, str]:
    """Return the description of each annotated field of a class, in the order of a chip file."""
    return {
        name: hint.__metadata__[-1].description
        for name, hint in annotations_of(kind).items()
        if hasattr(hint, "__metadata__")
    }


def checked_table(name: str, values: object, known: Sequence[str], asked: str) -> Mapping[str, Any]:
    """Return a table of a chip file whose keys are all known.

    asked : contents of the table, appended to the message if `values` is not a table

    Raises `ChipError` naming the faulty key.
    """
    if not isinstance(values, Mapping):
        raise ChipError(f"{name} is {values!r}; give a table [{name}]{asked}")
    for key in sorted(set(values) - set(known)):
        alike = difflib.get_close_matches(key, known, 1)
        meant = f"did you mean {alike[0]!r}? " if alike else ""
        raise ChipError(f"{name}: unknown key {key!r}; {meant}known keys are {', '.join(known)}")
    return values


def entry_line(entry: str, meaning: str, given: bool = True) -> str:
    """Return a line of TOML with its description; commented out unless `given`."""
    return f"{'' if given else '# '}{entry:<26}  # {meaning}"
