"""After any damage, a record log holds its content of an earlier moment."""

from __future__ import annotations

import random
import threading
import zlib
from pathlib import Path

import pytest

from storage.errors import CorruptError
from storage.scratch.record_log import CHECKED_BYTES, RecordLog

PAGE = 4096


def fill(path: Path, seed: int, writes: int = 40) -> list[dict[str, bytes]]:
    """Write a file in many steps; return its content after each step."""
    draw = random.Random(seed)
    held: dict[str, bytes] = {}
    moments = [{}]
    with RecordLog(path) as log:
        for number in range(writes):
            name = f"{draw.choice('ab')}/{draw.randrange(writes)}"
            value = draw.randbytes(draw.choice((0, 1, 30, 900, 9000)))
            if number % 7 == 3:
                value = b"\0" * len(value)
            log.put([(name, value)])
            held[name] = value
            moments.append(dict(held))
        log.sync()
    return moments


def content(path: Path) -> dict[str, bytes]:
    with RecordLog(path) as log:
        return {name: log.get(name) for name in log.names()}


def test_damage_drops_the_records_after_it(tmp_path: Path) -> None:
    """Truncated, zeroed, mixed with an earlier file, or truncated and padded: always a prefix."""
    path, earlier = tmp_path / "a", tmp_path / "b"
    moments = fill(path, 1)
    fill(earlier, 1)  # the same records, as in a previous run
    good, old = path.read_bytes(), earlier.read_bytes()
    draw = random.Random(2)
    seen = set()
    for trial in range(400):
        data = bytearray(good)
        kind = ("cut", "zeroed", "old", "bit", "grown", "hole")[trial % 6]
        place = draw.randrange(len(good))
        start = place // PAGE * PAGE
        if kind == "cut":
            del data[place:]
        elif kind == "zeroed":
            data[start : start + PAGE] = bytes(len(data[start : start + PAGE]))
        elif kind == "old":
            data[start : start + PAGE] = old[start : start + PAGE]
        elif kind == "bit":
            data[place] ^= 1 << draw.randrange(8)
        elif kind == "grown":
            data += bytes(PAGE) if place % 2 else old[:place]
        else:
            data[place:] = bytes(len(data) - place)
        path.write_bytes(bytes(data))
        found = content(path)
        assert found in moments, (kind, place)
        if kind == "grown":
            assert found == moments[-1]
        seen.add(moments.index(found))
        with RecordLog(path) as log:  # it is repaired and writable again
            assert log.dropped == 0
            log.put([("new", b"x")])
        assert content(path) == found | {"new": b"x"}
    assert len(seen) > 10


def test_dropped_bytes_are_counted(tmp_path: Path) -> None:
    fill(tmp_path / "a", 3)
    size = (tmp_path / "a").stat().st_size
    with (tmp_path / "a").open("r+b") as file:
        file.truncate(size - 1)
    with RecordLog(tmp_path / "a") as log:
        assert 0 < log.dropped < size
        assert log.dropped + log.size == size - 1
    (tmp_path / "b").write_bytes(b"not such a file")
    with RecordLog(tmp_path / "b") as log:
        assert log.dropped == 15
        assert log.names() == []


def places(data: bytes) -> list[tuple[str, int, int]]:
    """Return name, offset and end of each record, read field by field."""
    found, at = [], 32
    while at < len(data):
        name_bytes = int.from_bytes(data[at + 8 : at + 12], "little")
        end = at + 24 + name_bytes + int.from_bytes(data[at + 16 : at + 24], "little")
        found.append((data[at + 24 : at + 24 + name_bytes].decode(), at, end))
        at = end
    return found


@pytest.mark.parametrize("checked", [64, 1000, CHECKED_BYTES])
def test_lost_records_are_named(
    tmp_path: Path, checked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All records with an undamaged head from the first damaged one on."""
    monkeypatch.setattr("storage.scratch.record_log.CHECKED_BYTES", checked)
    path = tmp_path / "a"
    fill(path, 6)
    good = path.read_bytes()
    records, draw = places(good), random.Random(7)
    for trial in range(60):
        which = draw.randrange(len(records))
        name, start, end = records[which]
        value = start + 24 + len(name)
        head = trial % 2 == 0 or value == end
        data = bytearray(good)
        data[draw.randrange(start, value) if head else draw.randrange(value, end)] ^= 4
        path.write_bytes(data)
        with RecordLog(path) as log:
            assert log.lost == [one[0] for one in records[which + head :]]
            assert log.dropped == len(good) - start
    path.write_bytes(good[:-1])
    with RecordLog(path) as log:
        assert (log.lost, log.dropped > 0) == ([], True)
    with RecordLog(path) as log:
        assert (log.lost, log.dropped) == ([], 0)


def test_a_name_that_is_not_utf_8_is_damage(tmp_path: Path) -> None:
    """Even if its checksum is right."""
    with RecordLog(tmp_path / "a") as log:
        log.put([("first", b"1"), ("name", b"2"), ("last", b"3")])
    data = bytearray((tmp_path / "a").read_bytes())
    _, start, end = places(bytes(data))[1]
    data[start + 24 : end - 1] = b"na\xffe"
    checked = data[16:28] + start.to_bytes(8, "little") + data[start + 4 : end - 1]
    data[start : start + 4] = zlib.crc32(checked).to_bytes(4, "little")
    (tmp_path / "a").write_bytes(data)
    with RecordLog(tmp_path / "a", read_only=True) as log:
        assert log.names() == ["first"]
    with RecordLog(tmp_path / "a") as log:
        assert (log.names(), log.lost) == (["first"], ["last"])
        assert log.dropped == len(data) - start
    assert content(tmp_path / "a") == {"first": b"1"}


def test_read_only(tmp_path: Path) -> None:
    moments = fill(tmp_path / "a", 4)
    with (tmp_path / "a").open("ab") as file:
        file.write(b"half a record")
    before = (tmp_path / "a").read_bytes()
    with RecordLog(tmp_path / "a", read_only=True) as log:
        assert {name: log.get(name) for name in log.names()} == moments[-1]
        assert "a/none" not in log
        with pytest.raises(KeyError):
            log.get("a/none")
    assert (tmp_path / "a").read_bytes() == before
    for content in (b"", b"PK", b"mapper scratch 2" + bytes(16)):
        (tmp_path / "b").write_bytes(content)
        with pytest.raises(CorruptError, match="not a scratch file of this version"):
            RecordLog(tmp_path / "b", read_only=True)
    with pytest.raises(FileNotFoundError):
        RecordLog(tmp_path / "none", read_only=True)


def test_a_file_truncated_while_open(tmp_path: Path) -> None:
    """Reading raises an error, not a signal."""
    with RecordLog(tmp_path / "a") as log:
        log.put([("a", b"1" * 100), ("b", b"2" * 100)])
        with (tmp_path / "a").open("r+b") as file:
            file.truncate(log.size - 1)
        assert log.get("a") == b"1" * 100
        with pytest.raises(CorruptError, match="a: b: the file was truncated; run again"):
            log.get("b")


def test_large_values_and_threads(tmp_path: Path) -> None:
    """Values are checked piece by piece; concurrent reads and writes do not interfere."""
    large = random.Random(5).randbytes(CHECKED_BYTES + 17)

    def work(number: int) -> None:
        for k in range(30):
            log.put([(f"{number}/{k}", f"{number} {k}".encode() * 50), (f"{number}", b"")])
            assert log.get(f"{number}/{k}") == f"{number} {k}".encode() * 50

    with RecordLog(tmp_path / "a") as log:
        log.put([("large", large)])
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = content(tmp_path / "a")
    assert found["large"] == large
    assert len(found) == 1 + 4 * 31
    assert found["2/7"] == b"2 7" * 50
