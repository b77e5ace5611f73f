"""The network file as a state machine: writers that end, give up or die, readers, and damage."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from storage.errors import CorruptError, LockedError
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.crashes import Act, Paused, dies, explore, names, needs_fork
from tests.reference import storage as naive
from tests.storage.strategies import random_edges

NEURONS, SYNAPSES, BLOCK, CHUNK = 40, 300, 7, 50
seeds = st.integers(1, 4)
Contents = tuple[naive.Records, list[int]]
"""Records and the attribute `layer` of all neurons."""


def contents(seed: int) -> Contents:
    """Return the contents of the network with a seed."""
    edges = random_edges(NEURONS, SYNAPSES, seed)
    return naive.network(NEURONS, edges, undirected=False), [seed] * NEURONS


def write(path: Path, seed: int, finish: bool = True, pause: Act = lambda: None) -> None:
    """Write the network with a seed in chunks, sorted in runs on disk."""
    edges = random_edges(NEURONS, SYNAPSES, seed)
    with NetworkWriter(path, NEURONS, memory=1, threads=1, block_size=BLOCK) as writer:
        writer._sorter._capacity = writer._sorter._filling._capacity = CHUNK
        for first in range(0, SYNAPSES, CHUNK):
            writer.add(*naive.columns(edges[first : first + CHUNK]))
        writer.set_attribute("layer", np.full(NEURONS, seed))
        pause()
        if finish:
            writer.finish()


def read(net: NetworkFile) -> Contents:
    """Return the contents of an open network."""
    return naive.flatten(net.blocks()), net.attribute("layer").values.tolist()


class StoreMachine(RuleBasedStateMachine):
    """Readers find the last finished network, or the whole network of a writer that died.

    done : the network that was finished or read last; None if there is none
    left : seeds of writers that died later, perhaps after the file got its name
    readers : open files, with their contents
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "net.bin"
        self.done: Contents | None = None
        self.left: set[int] = set()
        self.readers: list[tuple[NetworkFile, Contents]] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda descriptor: None)
        self.patch.setattr("storage.locks.PATIENCE", 0.0)

    def teardown(self) -> None:
        for net, _ in self.readers:
            net.close()
        self.patch.undo()
        shutil.rmtree(self.folder)

    @initialize(exists=st.booleans())
    def start(self, exists: bool) -> None:
        if exists:
            self.finish(1)

    @rule(seed=seeds)
    def finish(self, seed: int) -> None:
        write(self.path, seed)
        self.done, self.left = contents(seed), set()
        assert names(self.folder) == ["net.bin"]

    @rule(seed=seeds)
    def give_up(self, seed: int) -> None:
        write(self.path, seed, finish=False)
        assert names(self.folder) == ["net.bin"] * self.path.exists()

    @rule(seed=seeds, moment=st.integers(1, 80))
    def die(self, seed: int, moment: int) -> None:
        dies(lambda: write(self.path, seed), moment)
        self.left.add(seed)

    @rule(seed=seeds, kill=st.booleans())
    def together(self, seed: int, kill: bool) -> None:
        """Another process writes meanwhile."""
        process = Paused(lambda pause: write(self.path, seed, True, pause))
        with pytest.raises(LockedError):
            write(self.path, 1)
        self.read()
        if kill:
            process.kill()
        else:
            process.go()
            self.done, self.left = contents(seed), set()
            assert names(self.folder) == ["net.bin"]

    @rule()
    def read(self) -> None:
        if not self.path.exists():
            assert self.done is None
            return
        with NetworkFile(self.path) as net:
            found = read(net)
            net.check()
        assert found in (self.done, *map(contents, self.left))
        self.done = found

    @rule()
    def open(self) -> None:
        """Keep a file open that may be replaced."""
        self.read()
        if self.done is not None:
            self.readers.append((NetworkFile(self.path), self.done))

    @rule(first=st.integers(0, NEURONS // BLOCK), count=st.integers(1, 3))
    def read_a_range(self, first: int, count: int) -> None:
        for net, (records, _) in self.readers:
            for index in range(first, min(first + count, net.block_count)):
                start, stop = net.block_bounds(index)
                assert naive.records_of(net.read_block(index)) == records[start:stop]
                found = naive.lists_of(*net.read_outgoing(index))
                assert found == naive.outgoing(records[start:stop])

    @rule(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), cut=st.booleans())
    def damage(self, place: float, bit: int, cut: bool) -> None:
        """A damaged file is refused, or its damage is in bytes that nobody uses."""
        self.read()
        if self.done is None:
            return
        good = self.path.read_bytes()
        at = int(place * len(good))
        damaged = bytearray(good)
        damaged[at] ^= 1 << bit
        self.path.write_bytes(good[:at] if cut else damaged)
        try:
            with NetworkFile(self.path) as net:
                found = read(net)
        except CorruptError as error:
            assert str(error).startswith(str(self.path))
        else:
            assert not cut
            assert found == self.done
        self.path.write_bytes(good)

    @invariant()
    def the_name_appears_once(self) -> None:
        assert self.path.exists() or self.done is None


@pytest.mark.heavy
@needs_fork
def test_networks_are_old_or_new(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    write(tmp_path / "net.bin", 1)  # compiles in this process, for all forks of it
    with NetworkFile(tmp_path / "net.bin") as net:
        assert read(net) == contents(1)
        net.read_outgoing(0)
    explore(StoreMachine, pytestconfig, 20, 10)
