"""Output folders are complete at every moment, even if processes are killed or read them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mapper.errors import CannotResumeError, MapperError
from mapper.results import output_folder as module
from mapper.results.output_folder import (
    find_folder,
    is_complete,
    output_folder,
    partial_folder,
    read_folder,
    remove_folder,
    writing_into,
)  # fmt: skip
from mapper.resume.resume import RUN
from storage.errors import LockedError, StorageWarning, WriteError
from storage.files import write_file
from storage.locks import OutputLock
from tests.crashes import dies, needs_fork
from tests.mapper.conftest import Tree, tree

THIS: dict[str, Any] = {"seed": 1, "memory_bytes": 5}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync, and do not wait for locks: these tests do not need them."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr("storage.locks.PATIENCE", 0.0)


def fill(folder: Path, text: str) -> None:
    """Write a minimal output of a run."""
    (folder / "scratch").mkdir(exist_ok=True)
    (folder / "scratch" / "log").write_text(text)
    for name in ("mapping.npz", "report.json"):
        write_file(folder / name, text.encode())
    (folder / "scratch" / "log").unlink()
    (folder / "scratch").rmdir()


def make(path: Path, text: str, force: bool = False, resume: bool = False) -> bool:
    """Do a minimal run; return whether it resumed an earlier one."""
    with output_folder(path, force, resume, THIS) as work:
        fill(work.folder, text)
    return work.resumed


def outcome(text: str) -> Tree:
    return {name: text.encode() for name in ("mapping.npz", "report.json")}


@pytest.fixture(params=[True, False], ids=["exchange", "rename"])
def exchanges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Systems with and without atomic exchange of folders."""
    if not request.param:
        monkeypatch.setattr(module, "exchange", lambda first, second: False)
    return bool(request.param)


@pytest.mark.heavy
@pytest.mark.sample(1)
@needs_fork
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("before", [True, False], ids=["replaced", "made"])
def test_killed_at_every_call(first: int, before: bool, exchanges: bool, folder: Path) -> None:
    """The folder is old or new; the next command makes it new; nothing is left over."""
    path, count, found = folder / "out", 0, set()
    afters = ("run", "run --resume", "run --force", "run --resume --force")
    while True:
        count += 1
        after = afters[(2 * count + count // 2 + first) % 4]  # varies for each call
        if before:
            make(path, "old")
        if not dies(lambda: make(path, "new", force=True), count):
            break
        if not path.exists() and not (partial_folder(path) / "old").exists():
            assert not before
            found.add("nothing")
        else:
            if exchanges or not before:
                assert path.exists()  # also for readers, without repair
            assert read_folder(path, lambda: tree(path)) in (outcome("old"), outcome("new"))
            found.add((path / "report.json").read_text())
        force, resume = "force" in after, "resume" in after
        if resume and is_complete(path) and tree(path) == outcome("new"):
            pass
        elif path.exists() and not force:
            with pytest.raises(MapperError, match="exists; choose another"):
                make(path, "again", force, resume)
            assert tree(path) in (outcome("old"), outcome("new"))
            make(path, "new", force=True)
        else:
            make(path, "new", force, resume)
        assert tree(folder) == {"out": None} | {f"out/{n}": t for n, t in outcome("new").items()}
        for name in outcome("new"):
            (path / name).unlink()
        path.rmdir()
    assert found == {"old" if before else "nothing", "new"}
    assert count > 20


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@needs_fork
def test_killed_during_repair(exchanges: bool, folder: Path) -> None:
    """A command that completes the work of a killed one may be killed as well."""
    path = folder / "out"
    for first in range(20, 200):  # before that the first command still runs
        make(path, "old")
        if not dies(lambda: make(path, "new", force=True), first):
            break
        second, dead = 0, True
        while dead:
            second += 1
            dead = dies(lambda: is_complete(path), second)
            assert read_folder(path, lambda: tree(path)) in (outcome("old"), outcome("new"))
        make(path, "last", force=True)
        assert tree(folder) == {"out": None} | {f"out/{n}": t for n, t in outcome("last").items()}
        for name in outcome("last"):
            (path / name).unlink()
        path.rmdir()
    assert first > 30


def test_an_unfinished_run(folder: Path) -> None:
    path = folder / "out"

    def stop(error: BaseException, resume: bool = False) -> None:
        with output_folder(path, False, resume, THIS) as work:
            (work.folder / "network.bin").write_text("made")
            raise error

    with pytest.raises(KeyboardInterrupt):
        stop(KeyboardInterrupt())
    assert sorted(tree(folder)) == [
        "out.partial", "out.partial/result", "out.partial/result/network.bin",
        "out.partial/run.json",
    ]  # fmt: skip
    assert not is_complete(path)
    with (
        pytest.raises(CannotResumeError, match="started with seed 1, now it is 2"),
        output_folder(path, False, True, THIS | {"seed": 2}),
    ):
        pass
    with output_folder(path, False, True, THIS) as work:
        assert work.resumed
        assert (work.folder / "network.bin").read_text() == "made"
        (work.folder / "network.bin").unlink()
        fill(work.folder, "new")
    assert tree(path) == outcome("new")
    with pytest.raises(ZeroDivisionError), output_folder(path, True, False, THIS):
        raise ZeroDivisionError
    assert tree(folder) == {"out": None} | {f"out/{n}": t for n, t in outcome("new").items()}


def test_ctrl_c_leaves_nothing_that_cannot_be_resumed(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt), output_folder(folder / "out", False) as work:
        (work.folder / "network.bin").write_text("made")
        raise KeyboardInterrupt
    assert tree(folder) == {}


@pytest.mark.parametrize("content", [b"", b"\0" * 300, b'{"seed": 1', b"{}", b"[]"])
def test_a_damaged_note_of_the_run(content: bytes, folder: Path) -> None:
    """Nothing of that run can be reused: its network may have been another."""
    path = folder / "out"
    with pytest.raises(KeyboardInterrupt), output_folder(path, False, False, THIS) as work:
        (work.folder / "network.bin").write_text("of whom?")
        raise KeyboardInterrupt
    (folder / "out.partial" / RUN).write_bytes(content)
    with (
        pytest.warns(StorageWarning, match=r"run.json is damaged: the earlier run cannot"),
        output_folder(path, False, True, THIS) as work,
    ):
        assert not work.resumed
        assert tree(work.folder) == {}
        fill(work.folder, "new")
    assert tree(path) == outcome("new")


@pytest.mark.heavy
@pytest.mark.sample(1)
@needs_fork
@pytest.mark.parametrize("content", [b"", b"\0" * 20, b"7", b'{"folder": 1}', b'{"folder": "1"}'])
def test_a_damaged_completion_mark(content: bytes, exchanges: bool, folder: Path) -> None:
    path, count = folder / "out", 0
    while not (folder / "out.partial" / "finished.json").exists():
        count += 1
        make(path, "old", force=True)
        assert dies(lambda: make(path, "new", force=True), count)
    (folder / "out.partial" / "finished.json").write_bytes(content)
    assert is_complete(path)
    assert tree(folder) == {"out": None} | {f"out/{n}": t for n, t in outcome("old").items()}


def test_two_writers_at_a_time(folder: Path) -> None:
    path = folder / "out"
    make(path, "old")
    (folder / "link").symlink_to("out")
    caught: list[BaseException] = []

    def others() -> None:
        for act in (
            lambda: make(path, "b", force=True),
            lambda: make(folder / "link", "b", force=True, resume=True),
            lambda: is_complete(path),
            lambda: writing_into(path).__enter__(),
        ):
            try:
                act()
            except LockedError as error:
                caught.append(error)

    with output_folder(path, True, False, THIS) as work:
        fill(work.folder, "new")
        before = tree(folder)
        thread = threading.Thread(target=others)
        thread.start()
        thread.join()
        assert tree(folder) == before
    assert len(caught) == 4
    assert tree(path) == outcome("new")
    with writing_into(path), OutputLock(path):
        pass
    make(folder / "link", "by its link", force=True)
    assert (folder / "link").is_symlink()
    assert tree(path) == outcome("by its link")
    assert sorted(tree(folder)) == ["link", "out", "out/mapping.npz", "out/report.json"]


def test_reading_while_it_is_replaced(folder: Path) -> None:
    path = folder / "out"
    make(path, "old")
    calls = 0

    def read(error: bool) -> str:
        nonlocal calls
        calls += 1
        first = (path / "report.json").read_text()
        if calls == 1:
            make(path, "new", force=True)
            if error:
                raise MapperError("they do not belong together")
        return first + (path / "mapping.npz").read_text()

    assert read_folder(path, lambda: read(False)) == "newnew"
    assert calls == 2
    calls = 0
    assert read_folder(path, lambda: read(True)) == "newnew"
    with pytest.raises(FileNotFoundError):
        read_folder(path, lambda: (path / "none").read_text())
    with pytest.raises(FileNotFoundError):
        read_folder(folder / "none", lambda: (folder / "none" / "a").read_text())

    def restless() -> str:
        make(path, "new", force=True)
        return (path / "report.json").read_text()

    assert read_folder(path, restless) == "new"


def test_waiting_for_a_renamed_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Without atomic exchange the folder is missing for a moment; readers wait."""
    path, seen = folder / "out", []
    make(path, "old")
    rename = Path.replace

    def slow(self: Path, target: Path) -> Path:
        if self.name == "result":
            thread = threading.Thread(target=lambda: seen.append(find_folder(path).exists()))
            thread.start()
            thread.join(0.1)
            assert thread.is_alive()
            done = rename(self, target)
            thread.join()
            return done
        return rename(self, target)

    monkeypatch.setattr(module, "exchange", lambda first, second: False)
    monkeypatch.setattr(Path, "replace", slow)
    make(path, "new", force=True)
    assert seen == [True]
    assert find_folder(folder / "none") == folder / "none"


def test_files_that_cannot_be_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "out"
    make(path, "old")
    unlink = os.unlink

    def refuse(name: Any, **more: Any) -> None:
        if str(name).endswith("mapping.npz"):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(name))
        unlink(name, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.warns(StorageWarning, match=r"cannot remove.*Operation not permitted") as told:
            make(path, "new", force=True)
        assert f"remove {folder / 'out.partial'} by hand" in str(told[0].message)
        assert tree(path) == outcome("new")
        with (
            pytest.warns(StorageWarning, match="cannot remove"),
            pytest.raises(WriteError, match="out: cannot write: File exists"),
        ):
            make(path, "newer", force=True)
        assert tree(path) == outcome("new")
    assert is_complete(path)
    assert sorted(tree(folder)) == ["out", "out/mapping.npz", "out/report.json"]


def test_scratch_that_cannot_be_removed_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = folder / "out.partial" / "result" / "scratch"
    scratch.mkdir(parents=True)
    (scratch / "records").touch()

    def refuse(name: Any, **_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(name))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.warns(StorageWarning) as told:
            remove_folder(scratch, folder / "out" / "scratch")
    assert str(told[0].message) == (
        f"cannot remove {folder / 'out' / 'scratch'}: Permission denied; remove it by hand"
    )
    remove_folder(scratch)
    remove_folder(scratch)
    assert not scratch.exists()


def test_a_file_in_place_of_the_unfinished_folder(folder: Path) -> None:
    (folder / "out.partial").write_text("of a file named out")
    assert not make(folder / "out", "new", resume=True)
    assert tree(folder / "out") == outcome("new")
    assert not (folder / "out.partial").exists()


def test_notes_of_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are printed as notes, and not with --quiet."""
    program = (
        "import sys, warnings\n"
        "from storage.errors import StorageWarning\n"
        "from mapper.cli.main import main\n"
        "from mapper.cli import chips\n"
        "def run(options):\n"
        "    warnings.warn('this was left', StorageWarning)\n"
        "    warnings.warn('others')\n"
        "    return 0\n"
        "chips.run = run\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for more, expected in (((), "note: this was left"), (("-q",), "")):
        found = subprocess.run(
            [sys.executable, "-c", program, "chips", *more],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = found.stderr.splitlines()
        assert [line for line in lines if "left" in line] == ([expected] if expected else [])
        assert "UserWarning: others" in found.stderr


def test_a_mark_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_publish", lambda target, partial: None)
    monkeypatch.setattr(module, "_remove", lambda partial: None)
    make(folder / "out", "new")
    mark = json.loads((folder / "out.partial" / "finished.json").read_bytes())
    number = (folder / "out.partial" / "result").stat().st_ino
    assert mark == {"folder": number, "replaces": None}


@pytest.mark.parametrize("kind", ["file", "folder", "output"])
def test_what_the_user_put_there_remains(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run dies before its complete result gets its name, and the user takes that name."""
    path = folder / "out"
    with monkeypatch.context() as patch:
        patch.setattr(module, "_publish", lambda target, partial: None)
        patch.setattr(module, "_remove", lambda partial: None)
        make(path, "new")
    if kind == "file":
        path.write_text("of the user")
    elif kind == "folder":
        path.mkdir()
        (path / "notes.txt").write_text("of the user")
    else:
        make(folder / "other", "other")
        (folder / "other").rename(path)
    before = tree(folder)
    assert not is_complete(path)
    with pytest.raises(MapperError, match="exists; choose another folder"):
        make(path, "new", resume=True)
    assert tree(folder) == before
    path.rename(folder / "elsewhere")
    assert is_complete(path)
    assert tree(path) == outcome("new")
