"""Networks written as several files equal those split from one file; errors leave no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import WriteError
from storage.files import PARTIAL_FOLDER
from storage.generate import Folder, Helpers, NetworkSpec, generate
from storage.store import writer as writing
from storage.store.network import NetworkFile
from storage.store.resharding import write_sharded
from storage.store.sharded_writer import ShardedWriter
from storage.store.writer import NetworkWriter
from tests.reference import storage as naive
from tests.storage.generate.test_generate import SMALL, small
from tests.storage.generate.test_spread import in_ranges
from tests.storage.strategies import random_edges


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fill(writer: NetworkWriter) -> None:
    writer.add(*naive.columns(random_edges(90, 900, 5)))
    writer.set_attribute("size", np.arange(90) % 7)
    writer.set_attribute("layer", np.arange(90) % 2, ["in", "out"])
    writer.set_real("tau", np.arange(90) / 3)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 23, 1000])
def test_files_equal_a_split_network(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of attributes do not align with blocks."""
    monkeypatch.setattr(writing, "ATTRIBUTE_BLOCK", 10)
    with NetworkWriter(tmp_path / "net.bin", 90, block_size=4) as one:
        fill(one)
        expected = one.finish({"from": "a test"})
    with NetworkFile(tmp_path / "net.bin") as net:
        write_sharded(net, tmp_path / "cut", count)
    (tmp_path / "made").mkdir()  # an empty folder is accepted
    with NetworkWriter(ShardedWriter(tmp_path / "made", count), 90, block_size=4) as several:
        fill(several)
        assert several.finish({"from": "a test"}) == expected
    assert expected.total_size == sum(v % 7 for v in range(90))
    assert len(contents(tmp_path / "made")) == min(count, 23) + 1
    assert contents(tmp_path / "made") == contents(tmp_path / "cut")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut", "made", "net.bin"]


def test_synaptic_weights_need_one_file(tmp_path: Path) -> None:
    with (
        ShardedWriter(tmp_path / "net", 2) as files,
        pytest.raises(ValueError, match="can be written to only one file"),
    ):
        NetworkWriter(files, 90, weights="synapse")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sample(3)
@small
def test_generated_files(
    spec: NetworkSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with helpers, whose pieces end anywhere."""
    monkeypatch.setattr(writing, "choose_block_size", lambda *_: 3)
    generate(spec, tmp_path / "net.bin", 1)
    for count in (1, 4, 1000):
        with NetworkFile(tmp_path / "net.bin") as net:
            write_sharded(net, tmp_path / f"cut-{count}", count)
        for name, helpers in (("a", None), ("b", Helpers(in_ranges(0.3, 0.6), 1 << 16))):
            folder = tmp_path / f"{name}-{count}"
            generate(spec, Folder(folder, count), 1, helpers=helpers)
            assert contents(folder) == contents(tmp_path / f"cut-{count}")
    assert len(list(tmp_path.iterdir())) == 10


def test_an_occupied_destination(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_bytes(b"x")
    for name, message in (("file", "is a file"), ("folder", "is not empty")):
        with pytest.raises(WriteError, match=f"{name}: {message}; choose another place"):
            generate(SMALL[0], Folder(tmp_path / name, 2))
    with pytest.raises(WriteError, match="none/net: cannot write: No such file"):
        generate(SMALL[0], Folder(tmp_path / "none" / "net", 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("step", ["encode_numbers", "pack"])
def test_no_file_remains_after_an_error(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise WriteError("x: cannot write: No space left on device")

    monkeypatch.setattr(writing, step, fail)
    with pytest.raises(WriteError, match="No space left"):
        generate(SMALL[0], Folder(tmp_path / "net", 2))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    left = tmp_path / f"net{PARTIAL_FOLDER}"
    left.mkdir()
    (left / "part-00099.bin").write_bytes(b"x")
    generate(SMALL[0], Folder(tmp_path / "net", 2))
    assert [path.name for path in tmp_path.iterdir()] == ["net"]
    assert "part-00099.bin" not in contents(tmp_path / "net")
