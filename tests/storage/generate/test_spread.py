"""Networks of several processes equal networks of one process byte for byte."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError, CorruptError, WriteError
from storage.generate import Draws, Helpers, Microcircuit, NetworkSpec, draws, generate, spread
from storage.generate.spread import FOLDER
from storage.store import pieces
from tests.storage.generate.test_generate import SMALL, small

LITTLE = 1 << 16


def in_ranges(*shares: float) -> Callable[..., Iterator[Any]]:
    """Return a `ranges` that runs in this process, with ranges that end at these fractions;
    arguments and results are pickled as for another process."""

    def ranges(work: Any, count: int, *arguments: Any) -> Iterator[Any]:
        ends = sorted({0, count, *(round(share * count) for share in shares)})
        for low, high in pairwise(ends) if count else [(0, 0)]:
            call, some, given = pickle.loads(pickle.dumps((work, range(low, high), arguments)))
            yield pickle.loads(pickle.dumps(call(some, *given)))

    return ranges


@pytest.fixture
def _chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "CHUNK", 16)


@pytest.mark.sample(6)
@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize("shuffle", [False, True])
@small
def test_the_same_bytes(spec: NetworkSpec, shuffle: bool, tmp_path: Path) -> None:
    alone = generate(spec, tmp_path / "a", 1, shuffle)
    expected = (tmp_path / "a").read_bytes()
    for shares in ((), (0.5,), (0.1, 0.2, 0.9)):
        for memory in (1, 1 << 22):
            found = generate(
                spec, tmp_path / "b", 1, shuffle, helpers=Helpers(in_ranges(*shares), memory)
            )
            assert found == alone
            assert (tmp_path / "b").read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.usefixtures("_chunks")
@small
def test_blocks_by_ranges(
    spec: NetworkSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many blocks, in spans of one or several blocks."""
    from storage.store import writer

    monkeypatch.setattr(writer, "choose_block_size", lambda *_: 3)
    generate(spec, tmp_path / "a", 1)
    for spans in (1, 3, 1000):
        monkeypatch.setattr(spread, "SPANS", spans)
        helpers = Helpers(in_ranges(0.3, 0.6), LITTLE)
        meta = generate(spec, tmp_path / "b", 1, helpers=helpers)
        assert meta.block_size == 3
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_progress_of_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "CHUNK", 16)
    helpers, seen = Helpers(in_ranges(0.25, 0.5), LITTLE), []
    generate(SMALL[0], tmp_path / "a", progress=seen.append, helpers=helpers)
    assert seen == sorted(seen)
    assert seen[0] < 0.5 <= seen[2] < seen[-1] == 1.0


def test_a_network_without_synapses(tmp_path: Path) -> None:
    spec = Microcircuit(scale=1e-9)
    generate(spec, tmp_path / "a")
    generate(spec, tmp_path / "b", helpers=Helpers(in_ranges(), LITTLE))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_repeated_calls_count_once(tmp_path: Path) -> None:
    """A lost worker may have left a file for the same range."""

    def twice(work: Any, count: int, *arguments: Any) -> Iterator[Any]:
        for some in (range(count // 2), range(count // 2, count)):
            if some:
                work(some, *arguments)
                yield work(some, *arguments)

    generate(SMALL[0], tmp_path / "a")
    generate(SMALL[0], tmp_path / "b", helpers=Helpers(twice, LITTLE))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_one_stream_supports_one_process(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="draws is 1, which supports only one process"):
        generate(SMALL[0], tmp_path / "a", draws=1, helpers=Helpers(in_ranges(), LITTLE))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["draw_runs", "encode_blocks"])
def test_no_file_remains_after_an_error(step: str, tmp_path: Path) -> None:
    def fail(work: Any, *given: Any) -> Iterator[Any]:
        for found in in_ranges(0.5)(work, *given):
            yield found
            if work.__name__ == step:
                raise WriteError("x: cannot write: No space left on device")

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(WriteError, match="No space left"):
        generate(SMALL[0], tmp_path / "a", helpers=Helpers(fail, LITTLE))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["os.pwrite", "tempfile.NamedTemporaryFile", "numpy.save"])
def test_a_full_disk(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(call, fail)
    helpers = Helpers(in_ranges(), LITTLE)
    with pytest.raises(WriteError, match=f"^{tmp_path}/a{FOLDER}.*: cannot write: No space left"):
        generate(SMALL[0], tmp_path / "a", shuffle=True, helpers=helpers)
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave = pieces.PieceWriter.leave

    def cut(writer: pieces.PieceWriter) -> Any:
        piece = leave(writer)
        with piece.path.open("r+b") as file:
            file.truncate(piece.size - 1)
        return piece

    monkeypatch.setattr(pieces.PieceWriter, "leave", cut)
    with pytest.raises(CorruptError, match=r"blocks-.*: was truncated; recreate the network"):
        generate(SMALL[0], tmp_path / "a", helpers=Helpers(in_ranges(), LITTLE))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    """Only leftovers of the same network are removed."""
    for name in (f"a{FOLDER}x", f"b{FOLDER}x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "runs-1").write_bytes(b"1")
    generate(SMALL[0], tmp_path / "a", helpers=Helpers(in_ranges(), LITTLE))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", f"b{FOLDER}x"]


def test_uncalled_parts_draw_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process iterates over all parts and calls only its own."""
    monkeypatch.setattr(draws, "CHUNK", 7)

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(np.random, "Philox", refuse)
    for spec in SMALL:
        if spec.kind != "layered":  # all its parts need the rates
            assert len(list(spec.edges(Draws(1)))) > 2
