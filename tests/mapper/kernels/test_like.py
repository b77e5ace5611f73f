"""Kernels of formats that have no row in the table of kernels."""

from __future__ import annotations

from mapper.kernels.warmup import read_table
from storage.formats import FORMATS


def test_formats_name_kernels_of_the_table() -> None:
    """Each format with `like` names a row, and has none itself."""
    works = read_table().works
    for importer in FORMATS.values():
        if importer.like:
            assert importer.kernels in works
            assert f"import/{importer.name}" not in works
