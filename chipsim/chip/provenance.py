"""What a chip is, what this model of it leaves out, and where each of its numbers is from.

The keys ``about`` and ``notes`` of a chip file, and its table ``[sources]``: for each number that
is not this tool's default the paper, its table or section; what is this tool's choice says so.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from chipsim.chip.toml_text import toml_string
from chipsim.errors import ChipError

KEYS = ("about", "notes", "sources")
"""Keys of a chip file that say where it is from."""
_LONGEST = 4096  # characters of a text


class Source(NamedTuple):
    """Where one number is from.

    key : of the chip file, with that of its table before it, as ``tile.width``
    value : that the text is about
    """

    key: str
    value: Any
    text: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a chip is, in a few words; what is not in the model; sources of its numbers."""

    about: str = ""
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


def numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a chip's fields, those of tables by ``table.key``."""
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
    """What the `KEYS` of a chip file say; None where there are none of them.

    fields : of the chip, by name, as `Chip.to_json` gives them

    Raises `ChipError` that names the key.
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
            raise ChipError(f"sources: {key!r} is no key with a value in this file{meant}")
        sources.append(Source(key, stated[key], _text(f"sources: {key}", text)))
    return Provenance(about, tuple(_text("notes: a note", note) for note in notes), tuple(sources))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ChipError(
            f"{name} is {str(value)[:40]!r}; give a text of up to {_LONGEST} characters"
        )
    return value


def sources_of(origin: Provenance | None, fields: Mapping[str, Any]) -> dict[str, str]:
    """The sources of those numbers that are still the ones that they are about."""
    if origin is None:
        return {}
    stated = numbers(fields)
    return {key: text for key, value, text in origin.sources if stated.get(key) == value}


def key_lines(origin: Provenance | None) -> list[str]:
    """The keys at the top of a chip file."""
    if origin is None:
        return []
    lines = ["", f"about = {toml_string(origin.about)}"] if origin.about else []
    if origin.notes:
        lines += ["", "# what this model leaves out", "notes = ["]
        lines += [f"  {toml_string(note)}," for note in origin.notes] + ["]"]
    return lines


def source_lines(origin: Provenance | None, fields: Mapping[str, Any]) -> list[str]:
    """The table of a chip file."""
    found = sources_of(origin, fields)
    if not found:
        return []
    entries = [f"{key} = {toml_string(text)}" for key, text in found.items()]
    return ["", "[sources]  # where each number is from; change them together", *entries]
