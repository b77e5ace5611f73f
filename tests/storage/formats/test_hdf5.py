"""The raw file of a new HDF5 file: no error is lost, and none is raised too early."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import WriteError
from storage.formats.hdf5.file import Backing


class Sparing(io.BytesIO):
    """A file that accepts a few bytes per call, and `room` bytes in total."""

    def __init__(self, most: int, room: int) -> None:
        super().__init__()
        self._most, self._room = most, room

    def write(self, data: Any) -> int:
        return super().write(bytes(data)[: min(self._most, self._room - self.tell())])


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_partial_writes_are_completed(most: int) -> None:
    file = Sparing(most, 1000)
    backing = Backing(Path("a.h5"), file)
    assert backing.write(np.arange(20, dtype=np.int32)) == 80
    assert backing.write(b"abc") == 3
    backing.check()
    assert file.getvalue() == np.arange(20, dtype=np.int32).tobytes() + b"abc"


def test_full_disk_is_reported_by_check() -> None:
    backing = Backing(Path("a.h5"), Sparing(4, 10))
    assert backing.write(b"0123456789ab") == 12
    assert backing.write(b"more") == 4
    with pytest.raises(WriteError, match=r"a\.h5: cannot write: No space left on device"):
        backing.check()
