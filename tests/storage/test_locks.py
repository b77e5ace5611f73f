"""Single writer per output: a second one gets the holder's identity, and changes nothing."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from storage import locks
from storage.errors import LockedError, StorageWarning, WriteError
from storage.files import PartialFile, commit_together, write_file
from storage.locks import OutputLock


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "PATIENCE", 0.0)


HOLDER = """
import sys
from pathlib import Path
from storage.locks import OutputLock
lock = OutputLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
lock.close()
"""


@contextmanager
def held_elsewhere(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a process that holds the lock of a path until it is killed or the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == "locked\n"
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_error_names_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    path.write_bytes(b"old")
    with held_elsewhere(path) as process:
        before = names(tmp_path)
        assert before == ["net.bin", "net.bin.lock"]
        for write in (lambda: OutputLock(path), lambda: write_file(path, b"new")):
            with pytest.raises(LockedError) as caught:
                write()
            said = str(caught.value)
            assert said.startswith(f"{path}: process {process.pid} has been writing it since 20")
            assert f"(-c {path})" in said
            assert "\n" not in said
        assert names(tmp_path) == before
        with OutputLock(tmp_path / "other"):
            pass
    write_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["net.bin"]


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    with held_elsewhere(path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert names(tmp_path) == ["net.bin.lock"]
        (tmp_path / "net.bin.partial").write_bytes(b"what it left behind")
        write_file(path, b"new")
        assert path.read_bytes() == b"new"
        assert names(tmp_path) == ["net.bin"]


def test_aliases_of_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    for name in (tmp_path / "link" / "a", Path("a"), Path("../folder/a")):
        with held_elsewhere(tmp_path / "folder" / "a"), pytest.raises(LockedError):
            OutputLock(name)


def test_threads(tmp_path: Path) -> None:
    """The lock is reentrant within a thread; other threads are refused."""
    path = tmp_path / "a"
    caught: list[LockedError] = []

    def other() -> None:
        try:
            OutputLock(path).close()
        except LockedError as error:
            caught.append(error)

    def in_a_thread() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with OutputLock(path):
        with OutputLock(path):
            pass
        in_a_thread()
        assert [str(error) for error in caught] == [
            f"{path}: another thread of this process is writing it"
        ]
        write_file(path, b"")
        assert names(tmp_path) == ["a", "a.lock"]
    in_a_thread()
    assert len(caught) == 1
    assert names(tmp_path) == ["a"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_children_hold_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "a"
    lock = OutputLock(path)
    child = os.fork()
    if child == 0:
        code = 2
        try:
            lock.close()  # not the child's: does nothing
            OutputLock(path)
        except LockedError as error:
            code = 0 if f"process {os.getppid()} has been" in str(error) else 1
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(LockedError), held_elsewhere_fails(path):
        pass
    lock.close()
    assert names(tmp_path) == []


@contextmanager
def held_elsewhere_fails(path: Path) -> Iterator[None]:
    """Raise `LockedError` if another process cannot lock the path."""
    found = subprocess.run(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "LockedError" in found.stderr:
        raise LockedError(found.stderr)
    yield


def test_files_that_belong_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with held_elsewhere(second):
        with pytest.raises(LockedError), PartialFile(first), PartialFile(second):
            pass
        assert names(tmp_path) == ["b.lock"]
    with PartialFile(first) as one, PartialFile(second) as two:
        commit_together(one, two)
    assert names(tmp_path) == ["a", "b"]


def test_a_lock_file_without_content(tmp_path: Path) -> None:
    """The file is empty for a moment, before its holder has written to it."""
    path = tmp_path / "a"
    with held_elsewhere(path):
        for content in (b"", b"{", b"[1]", json.dumps({"pid": 1}).encode()):
            (tmp_path / "a.lock").write_bytes(content)
            with pytest.raises(LockedError, match="a: another process is writing it; wait"):
                OutputLock(path)


def test_another_machine(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with held_elsewhere(path):
        about = json.loads((tmp_path / "a.lock").read_bytes())
        about |= {"host": "elsewhere", "pid": 7, "command": "x" * 200}
        (tmp_path / "a.lock").write_text(json.dumps(about))
        with pytest.raises(
            LockedError, match=r"process 7 on elsewhere has been writing .*\(x{97}\.\.\.\)"
        ):
            OutputLock(path)


def test_lock_file_removed_by_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the lock file, the previous holder may remove it."""
    path, taken = tmp_path / "a", locks._taken
    (tmp_path / "a.lock").write_bytes(b"")
    calls = 0

    def late(descriptor: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            (tmp_path / "a.lock").unlink()
        return taken(descriptor)

    monkeypatch.setattr(locks, "_taken", late)
    with OutputLock(path), pytest.raises(LockedError), held_elsewhere_fails(path):
        pass
    assert calls == 2
    assert names(tmp_path) == []


def test_lock_file_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, genuine = tmp_path / "a", os.open
    (tmp_path / "a.lock").write_bytes(b"theirs")
    theirs = (tmp_path / "a.lock").stat().st_ino

    def may_read(file: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR and file.exists() and file.stat().st_ino == theirs:
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return genuine(file, flags, mode)

    keep = (tmp_path / "a.lock").open("rb")  # otherwise a new file may get the same inode number
    monkeypatch.setattr(os, "open", may_read)
    with keep, OutputLock(path):
        assert json.loads((tmp_path / "a.lock").read_bytes())["pid"] == os.getpid()
    assert names(tmp_path) == []


def test_lock_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WriteError, match="none/a: cannot write: No such file or directory"):
        OutputLock(tmp_path / "none" / "a")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", fail)
        with pytest.warns(StorageWarning, match="this file system does not support locks"):
            lock = OutputLock(tmp_path / "a")
    lock.close()

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", broken)
        with pytest.raises(WriteError, match="a: cannot write: Input/output error"):
            OutputLock(tmp_path / "a")
    with OutputLock(tmp_path / "a"):
        pass
    assert names(tmp_path) == []


def test_lock_files_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remaining lock file is no error, names nobody, and does not block the next writer."""
    path, genuine = tmp_path / "a", Path.unlink

    def refuse(file: Path, missing_ok: bool = False) -> None:
        if file.suffix == ".lock":
            raise PermissionError(errno.EPERM, "Operation not permitted", str(file))
        genuine(file, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        for content in (b"one", b"two"):
            write_file(path, content)
            assert (path.read_bytes(), names(tmp_path)) == (content, ["a", "a.lock"])
            assert (tmp_path / "a.lock").read_bytes() == b""
    with held_elsewhere(path), pytest.raises(LockedError, match=r"a: process .* has been writing"):
        OutputLock(path)
    write_file(path, b"three")
    assert names(tmp_path) == ["a"]


def test_a_lock_file_that_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder such as /tmp does not let users remove the files of others."""
    path, genuine = tmp_path / "a", os.open
    (tmp_path / "a.lock").write_bytes(b"theirs")

    def may_read(file: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR and Path(file).suffix == ".lock":
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return genuine(file, flags, mode)

    def refuse(file: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(file))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", may_read)
        with patch.context() as inner:
            inner.setattr(Path, "unlink", refuse)
            with OutputLock(path), pytest.raises(LockedError), held_elsewhere_fails(path):
                pass
    assert (tmp_path / "a.lock").read_bytes() == b"theirs"


def test_a_lock_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.lock").mkdir()
    with pytest.raises(WriteError, match=r"a\.lock: is a folder; remove it"):
        OutputLock(tmp_path / "a")
    (tmp_path / "a.lock").rmdir()
    (tmp_path / "a.lock").touch()

    def refuse(file: Path, flags: int, mode: int = 0o777) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WriteError, match=r"a\.lock: belongs to another user; remove it"):
        OutputLock(tmp_path / "a")


def test_a_holder_that_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that fails at once does not make another one fail."""
    path = tmp_path / "a"
    with held_elsewhere(path) as process:
        assert process.stdin is not None
        threading.Timer(0.1, process.stdin.close).start()
        monkeypatch.setattr(locks, "PATIENCE", 5.0)
        with OutputLock(path):
            pass
