"""Damaged HDF5 files on which libhdf5 does not end are refused in time."""

from __future__ import annotations

import os
import signal
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from storage.errors import BadInputError
from storage.formats.hdf5 import file, structure

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="another process checks the file")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["edges/weight"] = [1.0, 2.0]
    return tmp_path / "a.h5"


def loop_heap(path: Path) -> None:
    """Make the free list of the first local heap refer to itself.

    HDF5 file format, III.D: signature, version, size of the data, offset of the first free block,
    address of the data; a free block begins with the offset of the next one and its size.
    """
    data = bytearray(path.read_bytes())
    heap = data.index(b"HEAP")
    (address,) = struct.unpack_from("<Q", data, heap + 24)
    struct.pack_into("<Q", data, heap + 16, 8)
    struct.pack_into("<QQ", data, address + 8, 8, 16)
    path.write_bytes(data)


def test_an_endless_heap_is_refused_in_time(path: Path) -> None:
    loop_heap(path)
    begin = time.process_time()
    with (
        pytest.raises(BadInputError, match=r"a\.h5: the structure .* without end; download"),
        file.opened(path),
    ):
        pass
    assert time.process_time() - begin < 0.5  # of this process


def test_a_crash_of_the_library_is_refused(path: Path) -> None:
    def crash(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(BadInputError, match="the HDF5 library crashes on it"):
        structure.require_structure(path, type("Library", (), {"File": staticmethod(crash)}))


def test_a_whole_file_is_read_once_until_it_changes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[Path] = []

    def code(path: Path, _seconds: float, _h5py: Any) -> int:
        codes.append(path)
        return 0

    monkeypatch.setattr(structure, "_exit_code", code)
    for _ in range(2):
        with file.opened(path) as found:
            assert list(found["edges/weight"]) == [1.0, 2.0]
    assert len(codes) == 1
    loop_heap(path)
    structure.require_structure(path, h5py)
    assert len(codes) == 2


def test_other_faults_are_left_to_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"no HDF5 file")
    structure.require_structure(tmp_path / "a.h5", h5py)
    with (
        pytest.raises(BadInputError, match="not a valid HDF5 file"),
        file.opened(tmp_path / "a.h5"),
    ):
        pass
