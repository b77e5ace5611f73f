"""Hops of simple mappings and the lower bound, against plain loops and exhaustive search."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import mapper.scoring.baselines as module
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from mapper.scoring.baselines import hops_of, measure_baselines, nearest
from mapper.scoring.measure import measure_network
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network

DELIVERIES = ("synapse", "core", "tree")


@pytest.mark.heavy
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("undirected", [False, True])
def test_ratios(delivery: str, undirected: bool, tmp_path: Path) -> None:
    path = random_network(tmp_path / "net.bin", 60, 500, undirected=undirected)
    chip = Chip("c", 4, 4, neurons=5, delivery=delivery)  # type: ignore[arg-type]
    core = np.random.default_rng(1).permutation(np.repeat(np.arange(15), 4)).astype(np.int32)
    with NetworkFile(path) as network:
        found = measure_baselines(network, chip, core, 3)
        own = hops_of(chip, measure_network(network, chip, core))
        ordered = hops_of(chip, measure_network(network, chip, np.sort(core)))
    assert found is not None
    assert found["in_order"] == ordered / own
    assert found["sampled"] == 1
    assert 0 < found["lower_bound"] < min(found["in_order"], found["random"], 1)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("tile", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_no_mapping_has_fewer_hops(delivery: str, tile: int, seed: int, tmp_path: Path) -> None:
    """All mappings of six neurons to cores of one neuron."""
    path = random_network(tmp_path / "net.bin", 6, 24, seed, undirected=seed == 2)
    machine = Machine(6, 1, tile=Block(tile, 1)) if tile > 1 else None
    chip = Chip("c", 6, 1, neurons=1, machine=machine, delivery=delivery)  # type: ignore[arg-type]
    with NetworkFile(path) as network:
        every = [
            hops_of(chip, measure_network(network, chip, np.array(core, np.int32)))
            for core in permutations(range(6))
        ]
        core = np.arange(6, dtype=np.int32)
        found = measure_baselines(network, chip, core, 0)
        own = hops_of(chip, measure_network(network, chip, core))
    assert found is not None
    assert 0 < found["lower_bound"] * own <= min(every)


def test_a_sample_is_near(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = random_network(tmp_path / "net.bin", 4000, 60_000, block_size=100)
    chip = Chip("c", 8, 8, neurons=100)
    core = (np.arange(4000) * 7 % 64).astype(np.int32)
    with NetworkFile(path) as network:
        whole = measure_baselines(network, chip, core, 0)
        monkeypatch.setattr(module, "SAMPLED", 30_000)
        some = measure_baselines(network, chip, core, 0)
    assert whole is not None
    assert some is not None
    assert some["sampled"] < 0.4
    assert some["in_order"] == pytest.approx(whole["in_order"], rel=0.05)
    assert some["random"] == pytest.approx(whole["random"], rel=0.05)


def test_nearest() -> None:
    """A router of three, itself one of them: two at 0, then 4 x 3 at 1, 8 x 3 at 2."""
    assert nearest(np.arange(40), 3).tolist() == [0] * 2 + [1] * 12 + [2] * 24 + [3] * 2


def test_nothing_to_compare(tmp_path: Path) -> None:
    path = random_network(tmp_path / "net.bin", 5, 9)
    with NetworkFile(path) as network:
        assert measure_baselines(network, Chip("c", 2, 2), np.zeros(5, np.int32), 0) is None
