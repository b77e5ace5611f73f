"""Lists of file formats for help texts."""

from __future__ import annotations

from collections.abc import Collection
from itertools import zip_longest
from textwrap import wrap

from mapper.exports.base import MappingExporter
from storage.formats.base import Exporter, Importer

WIDTH, ENDINGS = 80, 22


def list_formats(formats: Collection[Importer | Exporter | MappingExporter]) -> str:
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
