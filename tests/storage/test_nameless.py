"""Unnamed files: reading, pickling, and no leftovers."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from storage.errors import WriteError
from storage.scratch.nameless import COPIED_BYTES, NamelessFile

CONTENT = random.Random(1).randbytes(COPIED_BYTES + 123)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NamelessFile:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "a").write_bytes(CONTENT)
    return NamelessFile(tmp_path / "a")


def test_content_is_kept(tmp_path: Path, file: NamelessFile) -> None:
    assert not (tmp_path / "a").exists()
    assert file.size == len(CONTENT)
    for name in "bc":
        file.copy_to(tmp_path / name)
        assert (tmp_path / name).read_bytes() == CONTENT
    with pytest.raises(WriteError, match="b: cannot write: File exists"):
        file.copy_to(tmp_path / "b")
    file.close()
    file.close()


def test_pickling_keeps_the_content(tmp_path: Path, file: NamelessFile) -> None:
    pickled = pickle.dumps(file)
    file.close()
    found = pickle.loads(pickled)
    others = [pickle.loads(pickled), copy.deepcopy(found)]
    assert list((tmp_path / "temporary").iterdir()) == []
    found.close()
    for number, other in enumerate(others):
        other.copy_to(tmp_path / str(number))
        assert (tmp_path / str(number)).read_bytes() == CONTENT
        other.close()


def test_it_closes_its_descriptor(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("no /proc here")
    before = len(list(descriptors.iterdir()))
    for _ in range(3):
        (tmp_path / "a").write_bytes(CONTENT)
        file = NamelessFile(tmp_path / "a")
        other = copy.deepcopy(file)
        del file, other
    assert len(list(descriptors.iterdir())) == before


def test_a_killed_process_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from storage.scratch.nameless import NamelessFile\n"
        "file = NamelessFile(Path(sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=False)
    assert done.returncode == -9
    assert list(tmp_path.iterdir()) == []


def test_errors(tmp_path: Path, file: NamelessFile, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WriteError, match="none: cannot write: No such file"):
        NamelessFile(tmp_path / "none")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(WriteError, match="b: cannot write: No space left on device"):
            file.copy_to(tmp_path / "b")
    file.close()
