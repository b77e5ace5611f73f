"""A network is written completely or not at all, without leftovers; bad input is reported."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError, StorageError, WriteError
from storage.files import PartialFile, commit_together, write_file
from storage.graph import MAX_VERTICES
from storage.sorting.sorter import ConnectionSorter
from storage.store.memory import MemoryGraph
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.reference import storage as naive
from tests.storage.strategies import random_edges

OLD = b"the old file"


@pytest.fixture
def destination(tmp_path: Path) -> Iterator[Path]:
    """The path of an existing file; after the test no other file may exist."""
    path = tmp_path / "net.bin"
    path.write_bytes(OLD)
    yield path
    assert list(tmp_path.iterdir()) == [path]


def fill(writer: NetworkWriter, edges: int = 4000) -> None:
    given = random_edges(writer.neurons, edges, 2)
    for first in range(0, edges, 400):
        writer.add(*naive.columns(given[first : first + 400]))


def test_output_is_invisible_until_finished(destination: Path) -> None:
    with NetworkWriter(destination, 300, memory=1) as writer:
        fill(writer)
        names = {path.name for path in destination.parent.iterdir()}
        assert {name for name in names if not name.startswith(".mapper-sort-")} == {
            "net.bin",
            "net.bin.lock",
            "net.bin.partial",
        }
        assert destination.read_bytes() == OLD
        writer.finish()
        assert destination.read_bytes() != OLD
        assert len(list(destination.parent.iterdir())) == 1


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_error_in_the_middle(error: type[BaseException], destination: Path) -> None:
    with pytest.raises(error), NetworkWriter(destination, 300, memory=1) as writer:
        fill(writer)
        raise error
    assert destination.read_bytes() == OLD


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("step", ["encode_block", "pack", "encode_numbers"])
def test_error_while_finishing(
    step: str, threads: int, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def fail_later(*_: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3 or step == "encode_numbers":
            raise RuntimeError("here")
        return original(*_)

    import storage.store.encoding
    import storage.store.writer

    own = step == "encode_numbers"
    module = storage.store.writer if own else storage.store.encoding
    original = getattr(module, step)
    monkeypatch.setattr(module, step, fail_later)
    with (
        pytest.raises(RuntimeError, match="here"),
        NetworkWriter(destination, 300, memory=1, block_size=8, threads=threads) as writer,
    ):
        fill(writer)
        writer.set_attribute("x", np.arange(300))
        writer.finish()
    assert destination.read_bytes() == OLD


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("undirected", [False, True])
def test_edges_made_by_threads(threads: int, undirected: bool, tmp_path: Path) -> None:
    """The file equals one with edges added in order, including counts of self-loops and units."""
    rng = np.random.default_rng(5)
    sizes = ((0, 0), (700, 1), (1, 0), (300, 2), (2000, 0), (50, 1))
    parts = [
        (*rng.integers(0, 40, (2, size)), rng.integers(0, 900, size) / 10**digits)
        for size, digits in sizes
    ]
    found = []
    for name in ("plain", "made"):
        with NetworkWriter(
            tmp_path / name, 40, undirected=undirected, threads=threads, memory=1 << 28
        ) as writer:
            writer._sorter._capacity = 512
            if name == "plain":
                for part in parts:
                    writer.add(*part)
            else:
                counts = list(writer.add_made(range(len(parts)), parts.__getitem__))
                assert counts == [source.size for source, _, _ in parts]
            found.append(writer.finish())
    assert found[0] == found[1]
    assert found[0].self_loops > 0
    assert found[0].weight_unit == 0.01
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "made").read_bytes()


@pytest.mark.parametrize("in_order", [False, True])
def test_error_in_a_generating_thread(in_order: bool, destination: Path) -> None:
    def make(part: int) -> tuple[Any, Any, Any]:
        return np.array([0]), np.array([part]), np.array([1])

    with NetworkWriter(destination, 4, threads=2) as writer:  # noqa: SIM117
        with pytest.raises(BadInputError, match=r"id 7 is outside 0\.\.3"):
            list(writer.add_made([1, 7, 2], make, in_order=in_order))


def test_never_finished(destination: Path) -> None:
    with NetworkWriter(destination, 300, memory=1) as writer:
        fill(writer)
    writer.close()  # closing twice is allowed
    assert destination.read_bytes() == OLD


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """Limit the size of files, as on a full disk; Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda length: resource.setrlimit(resource.RLIMIT_FSIZE, (length, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.heavy
@pytest.mark.sample(6)
@pytest.mark.parametrize("memory", [1, 1 << 20], ids=["runs", "no runs"])
@pytest.mark.parametrize("length", [0, 1, 1000, 9000, 15000])
def test_full_disk(
    length: int, memory: int, destination: Path, limit_files: Callable[[int], None]
) -> None:
    with NetworkWriter(destination, 300, memory=memory, threads=1) as writer:  # compiles
        fill(writer)
    limit_files(length)
    with (
        pytest.raises(
            WriteError, match=r"cannot write: File too large; nothing was kept"
        ) as caught,
        NetworkWriter(destination, 300, memory=memory, block_size=5, threads=2) as writer,
    ):
        fill(writer)
        writer.finish()
    assert isinstance(caught.value, OSError)
    assert str(caught.value).startswith(str(destination.parent))
    assert destination.read_bytes() == OLD


@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_full_disk_at_the_end(
    call: str, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(call, fail)
    for write in (finish_small, lambda path: write_file(path, b"new")):
        with pytest.raises(WriteError, match=f"^{destination}: cannot write: No space left"):
            write(destination)
        assert destination.read_bytes() == OLD


def finish_small(path: Path) -> None:
    with NetworkWriter(path, 3) as writer:
        writer.add(np.array([0, 1]), np.array([1, 2]))
        writer.finish()


def test_partial_file(destination: Path) -> None:
    with PartialFile(destination) as file:
        file.write(b"new")
        assert file.position == 3
    assert destination.read_bytes() == OLD
    write_file(destination, b"new")
    assert destination.read_bytes() == b"new"


def test_files_that_belong_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both get their names, or neither; before that neither exists."""
    paths = [tmp_path / name for name in "ab"]

    def write_both() -> None:
        with PartialFile(paths[0]) as first, PartialFile(paths[1]) as second:
            first.write(b"1")
            second.write(b"2")
            commit_together(first, second)

    replace = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if target == paths[1]:
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(WriteError, match="b: cannot write: Input/output error"):
        write_both()
    assert [*tmp_path.iterdir()] == []
    monkeypatch.undo()
    write_both()
    assert sorted(tmp_path.iterdir()) == paths
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"none/net\.bin: cannot write: No such file or directory"):
        NetworkWriter(tmp_path / "none" / "net.bin", 3)
    with pytest.raises(WriteError, match="is a folder; name a file"):
        NetworkWriter(tmp_path, 3)
    with (
        ConnectionSorter(9, tmp_path / "none", memory=1) as sorter,
        pytest.raises(WriteError, match="none: cannot write: No such file or directory"),
    ):
        ids = np.zeros(3000, np.int64)
        sorter.add(ids, ids + 1, 0, ids)
    assert list(tmp_path.iterdir()) == []


BAD_EDGES: list[tuple[list[int], list[int], Any, str]] = [
    ([0], [3], None, r"^id 3 is outside 0\.\.2$"),
    ([-1], [2], None, r"^id -1 is outside 0\.\.2$"),
    ([2**40, 0], [1, 1], None, r"^id 1099511627776 is outside 0\.\.2$"),
    (
        [0, 0],
        [1, 2],
        [1, -2],
        "^weight -2 is negative, but traffic cannot be; use its magnitude$",
    ),
    ([0, 0], [1, 2], [1.0, -0.5], "^weight -0.5 is negative, but traffic cannot be"),
    ([0, 0], [1, 2], [1.0, float("nan")], "^weight nan is not finite; give finite values$"),
    ([0, 0], [1, 2], [1.0, float("inf")], "^weight inf is not finite"),
    ([0, 0], [1, 2], [1.0, float("-inf")], "^weight -inf is not finite"),
    ([1], [1], [-1], "^weight -1 is negative"),
    ([0, 0], [1], None, "^2 sources, 1 targets and 2 weights: give one of each per synapse$"),
    ([0, 0], [1, 2], [1], "^2 sources, 2 targets and 1 weights: give one of each per synapse$"),
]


@pytest.mark.parametrize(("source", "target", "weight", "message"), BAD_EDGES)
def test_bad_edges(
    source: list[int], target: list[int], weight: Any, message: str, destination: Path
) -> None:
    with (
        pytest.raises(BadInputError, match=message),
        NetworkWriter(destination, 3) as writer,
    ):
        given = None if weight is None else np.array(weight)
        writer.add(np.array(source), np.array(target), given)
    assert destination.read_bytes() == OLD


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("x", [1, 2], "^attribute 'x' has 2 values for 3 neurons$"),
        ("x", [[1], [2], [3]], "^attribute 'x' has 3 values for 3 neurons$"),
        ("x", [1.0, float("nan"), 0.0], "^attribute 'x' nan is not finite"),
        ("x", [1.0, float("-inf"), 0.0], "^attribute 'x' inf is not finite"),
        ("size", [1.5, 2, 3], "^sizes must be whole numbers; scale them up$"),
        ("size", [1, -2, 3], "^attribute 'size' has a negative value: -2$"),
        ("size", [2**61, 2**61, 0], r"^the sum of all sizes exceeds 2\^62; scale them down$"),
        ("rate", [1, -2, 3], "^attribute 'rate' has a negative value: -2$"),
        ("rate", [0.5, -2.0, 3.0], "^attribute 'rate' -2.0 is negative"),
        ("x", [-1, 0, 2**63 - 1], "^attribute 'x' spans more than 63 bits; scale it down$"),
        ("x", np.full(3, 2**63, np.uint64), "^attribute 'x' spans more than 63 bits"),
        ("a/b", [1, 2, 3], "^attribute 'a/b' cannot be stored"),
        ("", [1, 2, 3], "^attribute '' cannot be stored"),
    ],
)
def test_bad_attributes(name: str, values: Any, message: str, destination: Path) -> None:
    with (
        pytest.raises(BadInputError, match=message),
        NetworkWriter(destination, 3) as writer,
    ):
        writer.set_attribute(name, np.array(values))
    assert destination.read_bytes() == OLD


@pytest.mark.parametrize("neurons", [0, -1, MAX_VERTICES + 1])
def test_impossible_number_of_neurons(neurons: int, destination: Path) -> None:
    message = f"^a network of {neurons} neurons cannot be stored; it must have 1 to {MAX_VERTICES}$"
    with pytest.raises(BadInputError, match=message):
        NetworkWriter(destination, neurons)
    with pytest.raises(BadInputError, match=f"at most {MAX_VERTICES} are supported"):
        ConnectionSorter(MAX_VERTICES + 1, destination.parent)


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.uint64])
def test_sums_that_overflow(kind: type, destination: Path) -> None:
    """Each weight fits, but their sum does not."""
    ids = np.zeros(1100, np.int64)
    weight: Any = np.full(1100, 2**52 - 1, kind)
    message = r"^the sum of all weights, at both ends, exceeds 2\^62; scale them down$"
    with pytest.raises(BadInputError, match=message), NetworkWriter(destination, 2) as writer:
        writer.add(ids, ids + 1, weight)
        writer.finish()
    with pytest.raises(BadInputError, match=message):
        MemoryGraph.from_edges(2, ids, ids + 1, weight.astype(np.int64))


def test_a_sum_that_readers_refuse(destination: Path) -> None:
    """Each weight is below the limit of the sum in real units, but their sum is not."""
    ids = np.arange(3)
    message = r"^the sum of weights exceeds 1e\+304; scale them down$"
    with pytest.raises(BadInputError, match=message), NetworkWriter(destination, 4) as writer:
        writer.add(ids, ids + 1, np.full(3, 4e303))
        writer.finish()


def test_no_overflow(tmp_path: Path) -> None:
    """Sums of repeated connections may far exceed the limit of one weight."""
    ids = np.zeros(500, np.int64)
    with NetworkWriter(tmp_path / "net.bin", 2) as writer:
        writer.add(ids, ids + 1, np.full(500, 2**52 - 1))
        assert writer.finish().total_weight == 500 * (2**52 - 1)
    with NetworkFile(tmp_path / "net.bin") as net:
        assert net.read_block(0).weights.tolist() == [500 * (2**52 - 1)] * 2


def test_every_error_is_a_storage_error() -> None:
    assert issubclass(WriteError, StorageError)
    assert issubclass(BadInputError, StorageError)
