"""The formats of a registry, as help texts list them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import zip_longest
from textwrap import wrap
from typing import Protocol

WIDTH, ENDINGS = 80, 22


class Format(Protocol):
    """What an entry of every registry has."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def extensions(self) -> tuple[str, ...]: ...


def list_formats(formats: Collection[Format]) -> str:
    """A line for each format, or more: its name, the endings of file names, and what it is."""
    names = max(len(each.name) for each in formats)
    endings = {each.name: wrap(" ".join(each.extensions), ENDINGS) for each in formats}
    wide = max(len(line) for lines in endings.values() for line in lines)
    return "\n".join(
        f"  {name:<{names}}  {ending:<{wide}}  {about}".rstrip()
        for each in formats
        for name, ending, about in zip_longest(
            [each.name],
            endings[each.name],
            wrap(each.about, WIDTH - 7 - names - wide, break_on_hyphens=False),
            fillvalue="",
        )
    )


def for_formats(names: Iterable[str]) -> str:
    """The formats that an option is for, to end its help."""
    return f" ({', '.join(names)})"
