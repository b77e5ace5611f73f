"""Run files: sections round trip; incomplete or foreign files are unusable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage.scratch.run_file import (
    HEAD,
    RunName,
    UnusableError,
    pack_frame,
    read_section,
    write_run,
)

Frame = tuple[list[int], list[int], list[int]]
TAG = "0123456789abcdef" * 2


def some_lists(seed: int) -> Frame:
    """Return rows of increasing ids, and their weights."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, int(rng.integers(1, 9)))
    ids = [np.sort(rng.choice(70_000, length, replace=False)) for length in lengths]
    indptr = np.append(0, np.cumsum(lengths))
    weights = rng.integers(0, 2**31 - 1, int(lengths.sum()))
    return indptr.tolist(), np.concatenate(ids).astype(int).tolist(), weights.tolist()


def frame(lists: Frame) -> bytes:
    indptr, ids, weights = lists
    return pack_frame(
        np.array(indptr, np.int64), np.array(ids, np.int32), np.array(weights, np.int32)
    )


SECTIONS = [[some_lists(1), some_lists(2)], [], [some_lists(3)]]


@pytest.fixture
def name(tmp_path: Path) -> RunName:
    return RunName(tmp_path, TAG, 2, 7)


@pytest.fixture
def written(name: RunName) -> RunName:
    """A run file of three sections, the second one empty."""
    size = write_run(name, [list(map(frame, section)) for section in SECTIONS])
    assert name.path.stat().st_size == size
    return name


def read(name: RunName, index: int, sections: int = 3, count: int = 1) -> list[Frame]:
    found = read_section(name, sections, index, count)
    return [tuple(part.tolist() for part in lists) for lists in found]


def test_sections_round_trip(written: RunName, tmp_path: Path) -> None:
    assert [read(written, index) for index in range(3)] == SECTIONS
    assert list(tmp_path.iterdir()) == [written.path]


def test_several_sections_in_one_read(written: RunName) -> None:
    for index, count in ((0, 1), (0, 2), (1, 2), (0, 3)):
        found = read(written, index, count=count)
        assert found == [lists for section in SECTIONS[index : index + count] for lists in section]
    raw = written.path.read_bytes()
    written.path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert read(written, 0, count=2) == SECTIONS[0]
    with pytest.raises(UnusableError):
        read(written, 1, count=2)


def test_output_is_reproducible(written: RunName) -> None:
    before = written.path.read_bytes()
    write_run(written, [list(map(frame, section)) for section in SECTIONS])
    assert written.path.read_bytes() == before


def test_no_file(name: RunName) -> None:
    with pytest.raises(UnusableError):
        read(name, 0)
    with pytest.raises(UnusableError):
        read(name._replace(folder=name.folder / "gone"), 0)


def test_incomplete_file(written: RunName) -> None:
    whole = written.path.read_bytes()
    for size in (0, HEAD.size - 1, HEAD.size + 3, len(whole) - 1):
        written.path.write_bytes(whole[:size])
        with pytest.raises(UnusableError):
            read(written, 2)
    written.path.write_bytes(whole)
    assert read(written, 2) == SECTIONS[2]


@pytest.mark.parametrize(
    "other", [{"tag": "f" * 32}, {"batch": 3}, {"sender": 8}], ids=["attempt", "batch", "sender"]
)
def test_a_file_of_another_exchange(written: RunName, other: dict[str, object]) -> None:
    """It has the right name, like a leftover of an earlier attempt."""
    strange = written._replace(**other)
    strange.path.write_bytes(written.path.read_bytes())
    with pytest.raises(UnusableError):
        read(strange, 0)


def test_a_file_for_other_receivers(written: RunName) -> None:
    for sections in (2, 4):
        with pytest.raises(UnusableError):
            read(written, 0, sections)


def test_any_damage_is_detected(written: RunName) -> None:
    """Damage in the head, the table or the section read; other sections do not matter."""
    whole = written.path.read_bytes()
    noticed = []
    for at in range(len(whole)):
        written.path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            found = read(written, 2)
        except UnusableError:
            noticed.append(at)
        else:
            assert found == SECTIONS[2]
    own = len(frame(SECTIONS[2][0])) + 4
    table = HEAD.size + 3 * 20
    assert noticed == [*range(table), *range(len(whole) - own, len(whole))]


def test_a_missing_folder(name: RunName) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_run(name._replace(folder=name.folder / "gone"), [[]])


def test_failed_rename_leaves_no_file(name: RunName) -> None:
    name.path.mkdir()
    with pytest.raises(OSError, match=name.path.name):
        write_run(name, [[b"some"]])
    assert list(name.folder.iterdir()) == [name.path]
