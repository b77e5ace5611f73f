"""Lists of file formats for help texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from textwrap import wrap
from typing import TypeAlias

from mapper.cli.parser import HELP_ALL
from mapper.exports.base import MappingExporter
from storage.formats.base import Exporter, Importer

WIDTH, ENDINGS = 80, 22
AnyFormat: TypeAlias = Importer | Exporter | MappingExporter


def list_formats(formats: Collection[AnyFormat]) -> str:
    """Return aligned lines with the name, extensions and description of each format."""
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


def list_added(words: Sequence[str], added: Callable[[], Iterable[AnyFormat]]) -> str:
    """Return a paragraph with the formats of other packages, if the words ask for help.

    added : returns these formats; imports the packages
    """
    if not {"-h", "--help", HELP_ALL} & set(words):
        return ""
    found = [replace(each, about=f"{each.about} ({each.package})") for each in added()]
    return f"\nFormats of other packages:\n{list_formats(found)}\n" if found else ""
