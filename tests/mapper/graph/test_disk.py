"""The predicted scratch size matches the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.model import Chip
from mapper.graph.disk import with_disk
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.planning.strategy import make_plan
from mapper.results.output import scratch_in
from mapper.settings import Settings, preset
from storage.generate import Cortex, Layered, Microcircuit, NetworkSpec, generate
from storage.graph import Csr
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network

CHIP = Chip("c", 12, 12, neurons=160)
SETTINGS = preset("default", memory_bytes=1 << 30, block_vertices=2048, bisection_repeats=2)
SPECS: dict[str, NetworkSpec] = {
    "sheet": Cortex(side=128, fanout=30),
    "layers": Layered(layers="48x48x4,24x24x8,12x12x16"),
    "populations": Microcircuit(scale=0.05),
}


def foretold_and_taken(
    path: Path, folder: Path, settings: Settings, **changes: Any
) -> tuple[int, int]:
    """Return the predicted and the used scratch bytes of a run with a modified plan."""
    with (
        Monitor() as monitor,
        NetworkFile(path) as network,
        scratch_in(folder / "scratch") as scratch,
    ):
        plan = replace(make_plan(network, CHIP, settings), **changes)
        found = with_disk(plan, network, CHIP, settings)
        changed = {"scratch": plan.scratch, "rows": plan.rows, "scattered": plan.scattered}
        assert replace(found, **changed) == plan
        assert found.rows <= found.scratch
        map_network(network, CHIP, settings, scratch, monitor, plan=found)
        return found.scratch, scratch.stored_bytes()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", SPECS)
def test_streamed_networks(kind: str, shuffle: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    generate(SPECS[kind], path, 1, shuffle)
    told, taken = foretold_and_taken(path, tmp_path, SETTINGS, held=False, levels=False)
    assert told == pytest.approx(taken, rel=0.2)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_a_sample_of_the_connections(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    generate(SPECS["populations"], path, 1)
    settings = replace(SETTINGS, degree=60)
    told, taken = foretold_and_taken(path, tmp_path, settings, held=False, levels=False)
    assert told == pytest.approx(taken, rel=0.2)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("levels", [False, True])
def test_held_networks_store_only_their_steps(levels: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    generate(SPECS["sheet"], path, 1, True)
    told, taken = foretold_and_taken(path, tmp_path, SETTINGS, levels=levels)
    assert taken / 2 < told < 2 * taken
    assert told < 25 * 128 * 128


@pytest.mark.jit
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("kind", ["sheet", "layers"])
def test_scattered_ids(kind: str, shuffle: bool, tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    generate(SPECS[kind], path, 1, shuffle)
    with NetworkFile(path) as network:
        plan = make_plan(network, CHIP, SETTINGS)
        found = with_disk(plan, network, CHIP, SETTINGS).scattered
    assert found == shuffle


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the blocks that are read, in order."""
    found: list[int] = []
    read: Callable[..., Csr] = NetworkFile.read_undirected

    def noted(network: NetworkFile, index: int) -> Csr:
        found.append(index)
        return read(network, index)

    monkeypatch.setattr(NetworkFile, "read_undirected", noted)
    return found


@pytest.mark.parametrize(("blocks", "read"), [(1, [0]), (3, [0, 1, 2]), (96, range(3, 96, 6))])
def test_few_blocks_are_read(
    blocks: int, read: list[int], reads: list[int], tmp_path: Path
) -> None:
    path = random_network(tmp_path / "net.bin", 16 * blocks, 400, block_size=16)
    with NetworkFile(path) as network:
        plan = replace(make_plan(network, CHIP, SETTINGS), held=False)
        assert with_disk(plan, network, CHIP, SETTINGS).rows > 0
        assert reads == list(read)


def test_fewer_large_blocks_are_read(reads: list[int], tmp_path: Path) -> None:
    path = random_network(tmp_path / "net.bin", 320, 8000, block_size=4)
    with NetworkFile(path) as network:
        network.connections = 10**9
        with_disk(replace(make_plan(network, CHIP, SETTINGS), held=False), network, CHIP, SETTINGS)
    assert set(reads) == {*range(5, 80, 10)}


def test_networks_without_connections(tmp_path: Path) -> None:
    path = random_network(tmp_path / "net.bin", 40, 0)
    with NetworkFile(path) as network:
        plan = replace(make_plan(network, CHIP, SETTINGS), held=False)
        assert 0 < with_disk(plan, network, CHIP, SETTINGS).scratch < 1 << 14


def test_presets_that_keep_levels_are_unchanged(reads: list[int], tmp_path: Path) -> None:
    path = random_network(tmp_path / "net.bin", 40, 100)
    settings = preset("classic", memory_bytes=1 << 30)
    with NetworkFile(path) as network:
        plan = make_plan(network, CHIP, settings)
        assert with_disk(plan, network, CHIP, settings) is plan
    assert reads == []
