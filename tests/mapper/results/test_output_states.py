"""An output folder as a state machine: runs that end, die, resume, wait and replace each other."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mapper.errors import CannotResumeError, MapperError
from mapper.results import output_folder as module
from mapper.results.output_folder import (
    REPORT,
    is_complete,
    output_folder,
    partial_folder,
    read_folder,
)
from storage.errors import LockedError, WriteError
from storage.files import write_file
from storage.scratch.scratch import Scratch
from tests.crashes import Act, Paused, dies, explore, names, needs_fork
from tests.mapper.conftest import Tree, tree

FILES = ("mapping.npz", "traffic.npz", "inner/page.html", "report.json")
seeds = st.integers(1, 3)
moments = st.integers(1, 140)
"""The change of a file before which a run dies; larger numbers: it does not."""


def result(seed: int) -> Tree:
    """Return the output of a run with a seed."""
    files: Tree = {name: f"{name} {seed * 111}".encode() for name in FILES}
    return {"inner": None} | files


def work(path: Path, seed: int, force: bool, resume: bool, pause: Act = lambda: None) -> None:
    """Run in steps that are kept in scratch, and write files that depend on all of them."""
    with output_folder(path, force, resume, {"seed": seed, "memory_bytes": 5}) as place:
        with Scratch(place.folder / "scratch") as scratch:
            for step in "abc":
                if step not in scratch.names():
                    scratch.put(step, str(seed).encode())
                    scratch.sync()
            text = b"".join(scratch.get(step) for step in "abc").decode()
        pause()
        (place.folder / "inner").mkdir(exist_ok=True)
        for name in FILES:
            write_file(place.folder / name, f"{name} {text}".encode())
        shutil.rmtree(place.folder / "scratch")


class OutputMachine(RuleBasedStateMachine):
    """Readers find the last complete output, or the whole output of a run that died.

    done : the output that was reported or read last; None if there is none
    left : seeds of runs that died later, whose output may be complete
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "out"
        self.done: Tree | None = None
        self.left: set[int] = set()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda descriptor: None)
        self.patch.setattr("storage.locks.PATIENCE", 0.0)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    @initialize(exchanges=st.booleans())
    def start(self, exchanges: bool) -> None:
        """Choose whether the system exchanges folders atomically."""
        if not exchanges:
            self.patch.setattr(module, "exchange", lambda first, second: False)

    @property
    def is_other(self) -> bool:
        """Whether the user keeps something else at the path."""
        return self.path.is_file() or (self.path / "notes.txt").exists()

    def found(self) -> Tree | None:
        """Return the output as a reader finds it."""

        def whole() -> Tree:
            (self.path / REPORT).stat()
            return tree(self.path)

        try:
            return read_folder(self.path, whole)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def finished(self, seed: int) -> None:
        """Require the output of a run, and no other file."""
        self.done, self.left = result(seed), set()
        assert tree(self.path) == self.done
        assert names(self.folder) == ["out"]

    @rule(seed=seeds, force=st.booleans(), resume=st.booleans())
    def run(self, seed: int, force: bool, resume: bool) -> None:
        other, existed = self.is_other, self.path.exists()
        try:
            work(self.path, seed, force, resume)
        except CannotResumeError:
            assert resume
            assert self.left - {seed}
        except MapperError as error:
            assert "exists; " in str(error) or other
            assert self.path.exists()
            assert other or not force
        else:
            assert not other
            assert force or not existed
            self.finished(seed)

    @rule(seed=seeds, force=st.booleans(), resume=st.booleans(), moment=moments)
    def die(self, seed: int, force: bool, resume: bool, moment: int) -> None:
        def attempt() -> None:
            with contextlib.suppress(MapperError):
                work(self.path, seed, force, resume)

        allowed = not self.is_other and (force or not self.path.exists())
        dies(attempt, moment)
        if allowed:
            self.left.add(seed)

    @rule()
    def read(self) -> None:
        if not self.is_other:
            found = self.found()
            assert found in (self.done, *map(result, self.left))
            self.done = found

    @rule(moment=st.none() | moments)
    def finish(self, moment: int | None) -> None:
        """Complete the output of a run that died after its last file, and perhaps die as well."""
        before = tree(self.path) if self.is_other else None
        if moment is not None:
            dies(lambda: is_complete(self.path), moment)
        else:
            complete = is_complete(self.path)
            if before is None:
                assert complete <= (self.found() is not None)
                if complete:
                    assert names(self.folder) == ["out"]
        assert before is None or tree(self.path) == before

    @rule(seed=seeds, kill=st.booleans())
    def together(self, seed: int, kill: bool) -> None:
        """While another process writes the output, all others are refused, and readers are not."""
        if self.is_other:
            return
        process = Paused(lambda pause: work(self.path, seed, True, False, pause))
        before = tree(partial_folder(self.path))
        for act in (
            lambda: work(self.path, seed, True, False), lambda: work(self.path, 1, True, True),
            lambda: is_complete(self.path), lambda: write_file(self.path, b"a file"),
        ):  # fmt: skip
            with pytest.raises((LockedError, WriteError)):
                act()
        self.read()
        assert tree(partial_folder(self.path)) == before
        if kill:
            process.kill()
            self.left.add(seed)
        else:
            process.go()
            self.finished(seed)

    @rule(folder=st.booleans())
    def put_other(self, folder: bool) -> None:
        """The user keeps something else at a free path."""
        if self.found() is not None or self.path.exists():
            return
        if folder:
            self.path.mkdir()
            (self.path / "notes.txt").write_bytes(b"of the user")
        else:
            self.path.write_bytes(b"of the user")

    @rule()
    def remove(self) -> None:
        """The user removes the output, or another file or folder of this name."""
        if self.found() is not None or self.is_other:
            if self.path.is_dir():
                shutil.rmtree(self.path)
            else:
                self.path.unlink()
            self.done = None

    @invariant()
    def what_the_user_keeps_remains(self) -> None:
        if self.path.is_file():
            assert self.path.read_bytes() == b"of the user"
        elif self.is_other:
            assert tree(self.path) == {"notes.txt": b"of the user"}


@pytest.mark.heavy
@needs_fork
def test_outputs_are_old_or_new(pytestconfig: pytest.Config) -> None:
    explore(OutputMachine, pytestconfig, 25, 12)
