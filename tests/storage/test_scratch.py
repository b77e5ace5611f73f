"""Scratch compared with a dictionary, and its levels with their graphs."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage.errors import CorruptError, WriteError
from storage.scratch.scratch import Scratch, ScratchGraph
from storage.store.memory import load
from tests.reference import storage as naive
from tests.reference.storage import Edge
from tests.storage.strategies import NetCase, networks
from tests.storage.test_graphs import memory

names = st.sampled_from(["a", "b", "a/b", "größe", "level/000", "n" * 400])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


class ScratchMachine(RuleBasedStateMachine):
    """Stored values are found, also after closing and reopening the scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.scratch = Scratch(self.folder / "scratch")
        self.twin: dict[str, bytes] = {}
        self.arrays: dict[str, tuple[str, list[int]]] = {}

    def teardown(self) -> None:
        self.scratch.close()
        assert [path.name for path in self.folder.iterdir()] == ["scratch"]
        shutil.rmtree(self.folder)

    @rule(name=names, raw=st.binary(max_size=200))
    def put(self, name: str, raw: bytes) -> None:
        self.scratch.put(name, raw)
        self.twin[name] = raw

    @rule(name=names, value=values)
    def put_json(self, name: str, value: Any) -> None:
        self.scratch.put_json(f"json/{name}", value)
        assert self.scratch.get_json(f"json/{name}") == value
        self.twin[f"json/{name}"] = self.scratch.get(f"json/{name}")

    @rule(
        name=names,
        kind=st.sampled_from(["int32", "int64"]),
        array=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9),
    )
    def put_array(self, name: str, kind: str, array: list[int]) -> None:
        self.scratch.put_array(f"array/{name}", np.array(array, kind))
        self.arrays[f"array/{name}"] = kind, array

    @rule(read_only=st.booleans())
    def reopen(self, read_only: bool) -> None:
        self.scratch.close()
        if read_only:
            with Scratch(self.folder / "scratch", read_only=True) as scratch:
                assert {name: scratch.get(name) for name in self.twin} == self.twin
        self.scratch = Scratch(self.folder / "scratch")

    @rule(name=names)
    def missing(self, name: str) -> None:
        with pytest.raises(KeyError, match=f"none/{name}"):
            self.scratch.get(f"none/{name}")

    @invariant()
    def same(self) -> None:
        assert {name: self.scratch.get(name) for name in self.twin} == self.twin
        found = {name: self.scratch.get_array(name) for name in self.arrays}
        assert {n: (a.dtype.name, a.tolist()) for n, a in found.items()} == self.arrays
        helpers = [f"{name}/dtype" for name in self.arrays]
        assert sorted(self.scratch.names()) == sorted([*self.twin, *self.arrays, *helpers])
        assert self.scratch.stored_bytes() > 0


TestScratch = ScratchMachine.TestCase
TestScratch.settings = settings(max_examples=15, stateful_step_count=12)


@settings(max_examples=40)
@given(networks(), st.sampled_from([1, 1 << 26]))
def test_levels(case: NetCase, commit_every: int) -> None:
    edges: list[Edge] = [(s, t, int(w) % 1000) for s, t, w in case.edges]
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as name,
        memory(Path(name), case.neurons, edges, case.block_size, case.undirected) as graph,
        Scratch(Path(name) / "scratch") as scratch,
    ):
        patch.setattr("storage.scratch.scratch.WRITE_EVERY", commit_every)
        whole = load(graph)
        whole.block_size = case.block_size
        sizes = whole.vertex_sizes()
        for level in ("level/000", "level/001"):
            scratch.write_graph(level, sizes, case.block_size, whole.blocks())
        for level in ("level/000", "level/001"):
            found = ScratchGraph(scratch, level)
            assert naive.flatten(found.blocks(threads=case.threads)) == naive.flatten(
                whole.blocks()
            )
            assert found.connections == whole.connections


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(2, np.uint8), np.array(5)],
    ids=["float", "two dimensions", "uint8", "none"],
)
def test_arrays_that_cannot_be_stored(array: Any, tmp_path: Path) -> None:
    with Scratch(tmp_path / "scratch") as scratch:
        with pytest.raises(ValueError, match=r"^a: .* dimensions cannot be stored$"):
            scratch.put_array("a", array)
        assert scratch.names() == []


def test_missing_block(tmp_path: Path) -> None:
    with (
        memory(tmp_path, 20, [(0, 1, 2)], 6, True) as graph,
        Scratch(tmp_path / "scratch") as scratch,
    ):
        level = scratch.write_graph("g", graph.vertex_sizes(), 6, list(graph.blocks())[:2])
        assert level.read_block(1).vertices == 6
        with pytest.raises(CorruptError, match=r"g/block/00000002 is missing; run again$"):
            level.read_block(2)
        with pytest.raises(KeyError, match="nothing/graph"):
            ScratchGraph(scratch, "nothing")


def test_open_errors(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="no scratch here; run with --keep-scratch"):
        Scratch(tmp_path / "none", read_only=True)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match="cannot open scratch"):
        Scratch(tmp_path / "file")


def test_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that was written incompletely is missing; earlier values remain."""
    noise = np.random.default_rng(1).bytes(1 << 19)
    genuine = os.pwrite
    left = 1 << 18

    def write(descriptor: int, data: memoryview, place: int) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = genuine(descriptor, data[:left], place)
        left -= done
        return done

    with Scratch(tmp_path / "scratch") as scratch:
        scratch.put("a", b"kept")
        before = scratch.stored_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", write)
            with pytest.raises(WriteError, match="No space left on device; free some disk space"):
                scratch.put("b", noise)
        assert scratch.names() == ["a"]
        assert (tmp_path / "scratch" / "records").stat().st_size == before
        scratch.put("b", noise)
        assert scratch.get("a") == b"kept"
        assert scratch.get("b") == noise

        def fail(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(WriteError, match="cannot write scratch: Input/output error"):
                scratch.sync()
        scratch.sync()


def test_leftovers_of_a_killed_run(tmp_path: Path) -> None:
    folder = tmp_path / "scratch"
    with Scratch(folder) as scratch:
        scratch.put("a", b"kept")
    (folder / "tmpabc").mkdir()
    (folder / "tmpabc" / "split.bin").write_bytes(b"")
    (folder / "data.mdb").write_bytes(b"of an older version")
    with Scratch(folder, read_only=True) as scratch:
        assert scratch.get("a") == b"kept"
    assert len(list(folder.iterdir())) == 3
    with Scratch(folder) as scratch:
        assert scratch.get("a") == b"kept"
        assert scratch.dropped == 0
    assert [path.name for path in folder.iterdir()] == ["records"]
    (folder / "records").rename(folder / "data.mdb")
    with pytest.raises(CorruptError, match="it has another version; run with --keep-scratch"):
        Scratch(folder, read_only=True)
