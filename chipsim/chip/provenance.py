"""Provenance of a chip: its description, the gaps of its model, the sources of its numbers.

These are the keys ``about`` and ``notes`` of a chip file, and its table ``[sources]``, which gives
the paper and the table or section of each number that is not a default of this tool. A choice of
this tool is marked as one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from chipsim.chip.toml_text import toml_string
from chipsim.errors import ChipError

KEYS = ("about", "notes", "sources")
"""Keys of a chip file for the provenance."""
_LONGEST = 4096  # characters per text


class Source(NamedTuple):
    """Source of one number.

    key : key of the chip file, prefixed with its table, such as ``tile.width``
    value : value that the text refers to
    """

    key: str
    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Short description of a chip, gaps of the model, sources of its numbers."""

    about: str = ""
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


def numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a chip's fields; entries of tables as ``table.key``."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": one for inner, one in numbers(value).items()}
        else:
            found[key] = value
    return found


def provenance_from_fields(
    values: Mapping[str, Any], fields: Mapping[str, Any]
) -> Provenance | None:
    """Return the provenance in the `KEYS` of a chip file, or None without these keys.

    fields : fields of the chip by name, from `Chip.to_json`

    Raises `ChipError` naming the faulty key.
    """
    if not any(key in values for key in KEYS):
        return None
    about, notes = _text("about", values.get("about", "")), values.get("notes", [])
    if not isinstance(notes, list | tuple):
        raise ChipError(f"notes is {notes!r}; give a list of texts")
    given = values.get("sources", {})
    if not isinstance(given, Mapping):
        raise ChipError(f"sources is {given!r}; give a table [sources] of texts by key")
    stated, sources = numbers(fields), []
    for key, text in numbers(given).items():
        if key not in stated:
            alike = difflib.get_close_matches(key, stated, 1)
            meant = f"; did you mean {alike[0]!r}?" if alike else ""
            raise ChipError(f"sources: {key!r} is not a key with a value in this file{meant}")
        sources.append(Source(key, stated[key], _text(f"sources: {key}", text)))
    return Provenance(about, tuple(_text("notes: a note", note) for note in notes), tuple(sources))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ChipError(
            f"{name} is {str(value)[:40]!r}; give a text of up to {_LONGEST} characters"
        )
    return value


def sources_of(origin: Provenance | None, fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the sources of the numbers that still have the values that the sources refer to."""
    if origin is None:
        return {}
    stated = numbers(fields)
    return {key: text for key, value, text in origin.sources if stated.get(key) == value}


def key_lines(origin: Provenance | None) -> list[str]:
    """Return the lines at the top of a chip file."""
    if origin is None:
        return []
    lines = ["", f"about = {toml_string(origin.about)}"] if origin.about else []
    if origin.notes:
        lines += ["", "# not in this model", "notes = ["]
        lines += [f"  {toml_string(note)}," for note in origin.notes] + ["]"]
    return lines


def source_lines(origin: Provenance | None, fields: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table of a chip file."""
    found = sources_of(origin, fields)
    if not found:
        return []
    entries = [f"{key} = {toml_string(text)}" for key, text in found.items()]
    return ["", "[sources]  # source of each number; change both together", *entries]
