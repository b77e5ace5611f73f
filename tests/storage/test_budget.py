"""Declared sizes are compared with a budget and with the file."""

from __future__ import annotations

import pytest

from storage.budget import PACKED, declared_bytes, require_room, require_stored
from storage.errors import BadInputError, MemoryShortError


def test_axes_and_types_without_elements_have_a_price() -> None:
    assert declared_bytes((2, 3), 4) == 24
    assert declared_bytes((), 8) == 8
    assert declared_bytes((1 << 40, 0), 4) == 1 << 42
    assert declared_bytes((1 << 40,), 0) == 1 << 40
    assert declared_bytes((1 << 62, 1 << 62), 8) == 1 << 127  # no overflow


def test_content_that_exceeds_the_memory_is_refused() -> None:
    require_room("a.h5: data set w", 100, 100)
    says = r"a\.h5: data set w needs 101 bytes, but --memory leaves 100; check the sizes in the"
    with pytest.raises(MemoryShortError, match=says):
        require_room("a.h5: data set w", 101, 100)


def test_files_cannot_hold_more_than_compression_allows() -> None:
    require_stored("a.h5: w", 10 * PACKED, 10)
    with pytest.raises(BadInputError, match=r"w declares 11,001 bytes, but the file has only 10;"):
        require_stored("a.h5: w", 10 * PACKED + 1, 10)
