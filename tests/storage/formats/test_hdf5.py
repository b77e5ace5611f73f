"""What stands below a new HDF5 file: nothing is lost in silence, and nothing fails too early."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import WriteError
from storage.formats.hdf5.file import Backing


class Sparing(io.BytesIO):
    """Takes a few bytes at a time, and `room` in all."""

    def __init__(self, most: int, room: int) -> None:
        super().__init__()
        self._most, self._room = most, room

    def write(self, data: Any) -> int:
        return super().write(bytes(data)[: min(self._most, self._room - self.tell())])


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_what_is_taken_in_parts_is_written_whole(most: int) -> None:
    file = Sparing(most, 1000)
    backing = Backing(Path("a.h5"), file)
    assert backing.write(np.arange(20, dtype=np.int32)) == 80
    assert backing.write(b"abc") == 3
    backing.check()
    assert file.getvalue() == np.arange(20, dtype=np.int32).tobytes() + b"abc"


def test_no_room_is_told_by_check_alone() -> None:
    backing = Backing(Path("a.h5"), Sparing(4, 10))
    assert backing.write(b"0123456789ab") == 12
    assert backing.write(b"more") == 4
    with pytest.raises(WriteError, match=r"a\.h5: cannot write: No space left on device"):
        backing.check()
