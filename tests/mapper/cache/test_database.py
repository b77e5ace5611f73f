"""Databases that are damaged, shared, full, or written by processes that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.cache.database import Database, DatabaseError, FullError
from mapper.cache.pages import PAGE, DamagedError, check
from storage.errors import StorageWarning
from storage.locks import OutputLock

MOST = 1 << 24
Contents = dict[bytes, bytes]


def fill(database: Database, seed: int, rounds: int = 60) -> tuple[Contents, list[bytes]]:
    """Change entries at random; return the contents, and earlier states of the file."""
    draw, contents, states = random.Random(seed), Contents(), list[bytes]()
    for _ in range(rounds):
        with database.writing() as entries:
            for _ in range(draw.randrange(1, 8)):
                key = b"k%05d" % draw.randrange(400)
                if draw.random() < 0.4:
                    entries.drop(key)
                    contents.pop(key, None)
                else:
                    contents[key] = draw.randbytes(draw.choice((10, 100, 1000, 5000)))
                    entries.put(key, contents[key])
        states.append(database.path.read_bytes())
    return contents, states


def everything(database: Database) -> Contents:
    with database.reading() as entries:
        return dict(entries.entries())


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "some.mdb", MOST, 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_contents_are_those_of_a_dictionary(database: Database, seed: int) -> None:
    contents, states = fill(database, seed)
    assert everything(database) == contents
    for state in states:  # the check accepts all files that LMDB writes
        check(memoryview(state))
    key = next(iter(contents))
    with database.reading() as entries:
        assert entries.get(key) == contents[key]
        assert entries.get(b"nothing") is None
        assert [one.key for one in entries.entries(b"k000")] == sorted(
            key for key in contents if key.startswith(b"k000")
        )


def test_an_error_undoes_all_changes(database: Database) -> None:
    contents, _ = fill(database, 1)
    with pytest.raises(ZeroDivisionError), database.writing() as entries:
        entries.put(b"new", b"value")
        raise ZeroDivisionError
    assert everything(database) == contents


def test_there_is_no_file_before_the_first_change(database: Database) -> None:
    assert everything(database) == {}
    assert not database.path.exists()
    database.path.touch()  # its creation was interrupted
    assert everything(database) == {}
    with database.writing() as entries:
        entries.put(b"a", b"b")
    assert everything(database) == {b"a": b"b"}


def flip(data: bytearray, draw: random.Random, _: list[bytes]) -> None:
    """Change bytes, mostly in the pages that hold the tree."""
    trees = [at for at in range(0, len(data), PAGE) if data[at + 10] & 11]
    for _ in range(draw.choice((1, 1, 2, 5))):
        begin = (
            draw.choice(trees) if draw.random() < 0.8 else PAGE * draw.randrange(len(data) // PAGE)
        )
        data[begin + draw.randrange(200 if draw.random() < 0.6 else PAGE)] = draw.randrange(256)


def cut(data: bytearray, draw: random.Random, _: list[bytes]) -> None:
    del data[draw.randrange(len(data)) :]


def zero(data: bytearray, draw: random.Random, _: list[bytes]) -> None:
    begin = PAGE * draw.randrange(len(data) // PAGE)
    data[begin : begin + PAGE] = bytes(PAGE)


def swap(data: bytearray, draw: random.Random, _: list[bytes]) -> None:
    one, other = (PAGE * draw.randrange(len(data) // PAGE) for _ in range(2))
    data[one : one + PAGE] = data[other : other + PAGE]


def old_page(data: bytearray, draw: random.Random, states: list[bytes]) -> None:
    """Restore a page of an earlier state, as a lost write does."""
    begin, state = PAGE * draw.randrange(len(data) // PAGE), draw.choice(states)
    data[begin : begin + PAGE] = state[begin : begin + PAGE].ljust(PAGE, b"\0")


Damage = Callable[[bytearray, random.Random, list[bytes]], None]


@pytest.mark.heavy
@pytest.mark.parametrize("damage", [flip, flip, cut, zero, swap, old_page])
def test_damage_neither_ends_the_process_nor_changes_a_value(
    database: Database, damage: Damage, pytestconfig: pytest.Config
) -> None:
    """Read and change damaged files in child processes; a signal there is a failure."""
    contents, states = fill(database, 5)
    ever = {(key, value) for key, value in contents.items()}
    asides = 0
    for seed in range(400 if pytestconfig.option.thorough else 15):
        draw, data = random.Random(seed), bytearray(states[-1])
        damage(data, draw, states[-20:])
        database.path.write_bytes(data)
        child = os.fork()
        if not child:
            os._exit(_use(database, ever, draw, damage is old_page))
        _, status = os.waitpid(child, 0)
        assert status == 0, f"seed {seed}"
        asides += database.path.with_name("some.mdb.damaged").exists()
        database.remove()
    assert asides > 0


def _use(
    database: Database, ever: set[tuple[bytes, bytes]], draw: random.Random, older: bool
) -> int:
    """Return 0 if a damaged database can be read and changed, and has no wrong value."""
    try:
        warnings.simplefilter("ignore", StorageWarning)
        found = everything(database)
        wrong = not older and not set(found.items()) <= ever  # an older value has its checksum
        for _ in range(5):
            with database.writing() as entries:
                for _ in range(5):
                    entries.put(b"k%05d" % draw.randrange(400), b"z" * draw.choice((10, 6000)))
                    entries.drop(b"k%05d" % draw.randrange(400))
        everything(database)
        return 3 if wrong else 0
    except BaseException:
        traceback.print_exc()
        return 4


def test_a_damaged_file_is_kept_and_said(database: Database) -> None:
    fill(database, 2)
    data = bytearray(database.path.read_bytes())
    data[16:20] = b"text"
    database.path.write_bytes(data)
    with pytest.warns(StorageWarning, match=r"some\.mdb: is damaged \(.*\), kept as some\.mdb\.d"):
        assert everything(database) == {}
    assert database.path.with_name("some.mdb.damaged").read_bytes() == data
    with pytest.raises(DamagedError):
        check(memoryview(bytes(data)))


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_a_damaged_transaction_number_does_not_restore_an_older_state(
    database: Database, rounds: int
) -> None:
    """The number selects one of the two headers; of all others, only N - 2 is consistent."""
    contents, states = fill(database, 3, rounds)
    tail = 16 + 24 + 2 * 48 + 8  # of page header, head, trees and last page
    for page in (0, 1):
        for change in (1, 3, 4, 1 << 40):
            data = bytearray(states[-1])
            at = page * PAGE + tail
            number = int.from_bytes(data[at : at + 8], "little") ^ change
            data[at : at + 8] = number.to_bytes(8, "little")
            database.path.write_bytes(data)
            try:
                check(memoryview(bytes(data)))
            except DamagedError as error:
                assert "consecutive" in str(error)
            else:
                assert everything(database) == contents, (page, change)


def test_keys_out_of_order_are_damage(database: Database) -> None:
    """A search ends at a page of another tree, and would hide the entries after it."""
    with database.writing() as entries:
        for key in (b"key-b", b"key-d", b"key-f"):
            entries.put(key, b"value")
    data = database.path.read_bytes()
    for one, other in ((b"key-b", b"key-e"), (b"key-d", b"key-f"), (b"key-f", b"key-a")):
        with pytest.raises(DamagedError, match="keys are not in order"):
            check(memoryview(data.replace(one, other)))
    check(memoryview(data.replace(b"key-d", b"key-e")))


def test_a_wrong_checksum_is_a_missing_value(database: Database) -> None:
    with database.writing() as entries:
        entries.put(b"key", b"some value that is not repeated")
    data = database.path.read_bytes()
    assert data.count(b"some value") == 1
    database.path.write_bytes(data.replace(b"some value", b"another va"))
    assert everything(database) == {}


def test_a_full_database_keeps_what_it_has(tmp_path: Path) -> None:
    small = Database(tmp_path / "small.mdb", 16 * PAGE, 1.0)
    with small.writing() as entries:
        entries.put(b"a", b"value")
    with pytest.raises(FullError, match="small"), small.writing() as entries:
        entries.put(b"b", bytes(32 * PAGE))
    assert everything(small) == {b"a": b"value"}


def test_other_processes_are_waited_for(database: Database, tmp_path: Path) -> None:
    database.path.touch()
    code = f"""
import time
from pathlib import Path
from storage.locks import OutputLock
with OutputLock(Path({str(database.path)!r})):
    Path({str(tmp_path / "held")!r}).touch()
    time.sleep(30)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as other:
        try:
            while not (tmp_path / "held").exists():
                time.sleep(0.01)
            database.patience = 0.05
            with pytest.raises(DatabaseError, match="has been writing it"):
                everything(database)
        finally:
            other.send_signal(signal.SIGKILL)
    assert everything(database) == {}  # a lock ends with its process
    with OutputLock(database.path):
        assert everything(database) == {}


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match="file"):
        everything(Database(tmp_path / "file" / "x.mdb", MOST, 1.0))
