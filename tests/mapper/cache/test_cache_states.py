"""Cache and catalogue as a state machine: changes, deaths in a transaction, and damaged files."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mapper.cache.cache import FILE as CACHE
from mapper.cache.cache import Cache, Slot
from mapper.cache.catalogue import FILE as CATALOGUE
from mapper.cache.catalogue import Catalogue
from mapper.cache.pages import PAGE
from storage.errors import StorageWarning
from tests.crashes import dies, explore, names, needs_fork

MOST = 1 << 20  # bytes of the cache
SURE = 0.3  # part of it up to which nothing is dropped
NAMES = (CACHE, CATALOGUE)
keys = st.integers(0, 9)
sizes = st.sampled_from([0, 10, 1000, 30_000, 90_000])
files = st.sampled_from(NAMES)


class CacheMachine(RuleBasedStateMachine):
    """A result is the one that was put, or missing; rows are the ones that were added.

    results : results by key, as put last; sure : keys whose results must be found
    ever : all results by key; a page of an earlier file may restore one
    rows : numbers of the rows that must be listed; maybe : of rows that may be listed, because
        their writer died, or the file was damaged
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.cache, self.catalogue = Cache(self.folder, MOST), Catalogue(self.folder)
        self.results: dict[int, bytes] = {}
        self.sure: set[int] = set()
        self.ever: defaultdict[int, list[bytes]] = defaultdict(list)
        self.bytes = 0  # that were put since the cache was empty
        self.rows: list[int] = []
        self.maybe: set[int] = set()
        self.count = 0
        self.states: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda descriptor: None)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    def slot(self, key: int) -> Slot:
        return self.cache.slot("work", key)

    def content(self, key: int, size: int) -> bytes:
        """Return a new content that does not compress."""
        self.count += 1
        made = random.Random(self.count).randbytes(size) + b"%d %d" % (key, self.count)
        self.ever[key].append(made)
        return made

    def remember(self) -> None:
        """Keep the state of both files, for earlier pages."""
        for name in NAMES:
            if (self.folder / name).exists():
                self.states[name].append((self.folder / name).read_bytes())

    def may_drop(self, key: int, size: int) -> None:
        """Note that a result was put, and others may have been dropped for it."""
        self.bytes += size + 100
        self.sure = {key} if self.bytes > SURE * MOST else self.sure | {key}

    @rule(key=keys, size=sizes)
    def put(self, key: int, size: int) -> None:
        content = self.content(key, size)
        self.slot(key).put(content)
        self.results[key] = content
        self.may_drop(key, size)
        self.remember()

    @rule()
    def add(self) -> None:
        self.count += 1
        self.add_row(self.count)
        self.rows.append(self.count)
        self.remember()

    def add_row(self, number: int) -> None:
        self.catalogue.add(
            "run", Path("/net.bin"), Path(f"/{number}"), "4x4", {"text": "a" * (number % 7 * 900)},
            {"hops": number}, 1.0,
        )  # fmt: skip

    @rule(key=keys, size=sizes, moment=st.integers(1, 25))
    def die(self, key: int, size: int, moment: int) -> None:
        """A process that puts a result and adds a row dies between its transactions."""
        content, before = self.content(key, size), self.slot(key).get()
        number = self.count

        def act() -> None:
            self.slot(key).put(content)
            self.add_row(number)

        dies(act, moment)
        found = self.slot(key).get()
        assert found in (None, before, content)
        self.sure.discard(key)
        self.may_drop(key, size)
        self.sure.discard(key)
        if found is not None:
            self.results[key] = found
        self.maybe.add(number)
        self.remember()

    @rule(seed=st.integers(0, 99))
    def tear(self, seed: int) -> None:
        """A transaction ends after some of its pages, in any order, but before its header."""
        path, draw = self.folder / CATALOGUE, random.Random(seed)
        if not self.rows or not path.exists():
            return
        before, found = path.read_bytes(), self.listed_again()
        self.count += 1
        self.add_row(self.count)
        after, torn = path.read_bytes(), bytearray(before)
        for at in range(2 * PAGE, len(after), PAGE):
            if draw.random() < 0.5:
                torn += bytes(max(0, at + PAGE - len(torn)))
                torn[at : at + PAGE] = after[at : at + PAGE]
        path.write_bytes(torn)
        assert self.listed_again() == found

    @rule(name=files, way=st.sampled_from(["flip", "cut", "zero", "earlier"]), seed=st.integers())
    def damage(self, name: str, way: str, seed: int) -> None:
        """Bytes of a file change: results are missing, and rows with a note."""
        path, draw = self.folder / name, random.Random(seed)
        if not path.exists():
            return
        data = bytearray(path.read_bytes())
        at = PAGE * draw.randrange(len(data) // PAGE)
        if way == "flip":
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif way == "cut":
            del data[draw.randrange(len(data)) :]
        elif way == "zero":
            data[at : at + PAGE] = bytes(PAGE)
        else:
            earlier = draw.choice(self.states[name])
            data[at : at + PAGE] = earlier[at : at + PAGE].ljust(PAGE, b"\0")
        path.write_bytes(data)
        if name == CACHE:
            self.forget(way)
            return
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            found = self.listed()
        # a page of the header may restore the state before the last transaction
        if len(found) < len(self.rows) and data and not (way == "earlier" and at < 2 * PAGE):
            assert "damaged" in " ".join(str(note.message) for note in notes)
        self.maybe |= set(self.rows) - set(found)
        self.rows = [number for number in self.rows if number in found]

    def forget(self, way: str) -> None:
        """Let the cache find a damage, which it reports unless it sees only a missing result."""
        self.sure.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StorageWarning)
            for key in range(10):  # also without results: the next use would report the damage
                found, content = self.slot(key).get(), self.results.get(key)
                assert found in (None, content) or (way == "earlier" and found in self.ever[key])
                if found is not None:
                    self.results[key] = found
        assert self.cache.is_on

    @rule(name=files)
    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)
        if name == CACHE:
            self.sure.clear()
            self.bytes = 0
        else:
            self.maybe |= set(self.rows)
            self.rows = []

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.sure.clear()
        self.bytes = 0
        assert self.cache.contents().kinds == {}

    @rule()
    def reopen(self) -> None:
        self.cache, self.catalogue = Cache(self.folder, MOST), Catalogue(self.folder)

    def listed(self) -> list[int]:
        """Return the numbers of the rows that are listed, with the values that were added."""
        rows = self.catalogue.rows()
        numbers = [int(Path(row.folder).name) for row in rows]
        assert [row.figures["hops"] for row in rows] == numbers
        assert [len(row.settings["text"]) for row in rows] == [n % 7 * 900 for n in numbers]
        return numbers

    def listed_again(self) -> list[int]:
        """Return the rows that are listed, when a damaged row has been reported."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*not listed", StorageWarning)
            return self.listed()

    @invariant()
    def results_are_right(self) -> None:
        for key in range(10):
            found = self.slot(key).get()
            if key in self.sure:
                assert found == self.results[key]
            else:
                assert found is None or found == self.results[key]

    @invariant()
    def rows_are_complete_and_files_few(self) -> None:
        found = self.listed_again()
        assert len(set(found)) == len(found)
        assert set(self.rows) <= set(found) <= set(self.rows) | self.maybe
        allowed = {*NAMES, *(f"{name}.damaged" for name in NAMES)}
        assert set(names(self.folder)) <= allowed
        path = self.folder / CACHE
        assert not path.exists() or path.stat().st_size <= MOST


@pytest.mark.heavy
@needs_fork
def test_results_are_right_or_missing(pytestconfig: pytest.Config) -> None:
    explore(CacheMachine, pytestconfig, 15, 15)
