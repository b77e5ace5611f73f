"""Recently measured mappings are not measured again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.traffic.metrics import summarise
from mapper.concurrency.threads import ThreadTeam
from mapper.graph.rows import StreamedRows, copied, directed_copy, weight_shift
from mapper.monitoring.callbacks import ignore
from mapper.scoring.measure import Measurements, measure_network
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from tests.mapper.helpers import random_network, write_network


def test_the_last_two_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, chip = random_network(tmp_path / "net.bin", 60, 300), Chip("c", 3, 3)
    rng = np.random.default_rng(0)
    first, second, third = (rng.integers(0, 9, 60).astype(np.int32) for _ in range(3))
    passes = []

    def measured(*given: object) -> object:
        passes.append(1)
        return measure_network(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("mapper.scoring.measure.measure_network", measured)
    with NetworkFile(path) as network:
        some = Measurements(network, chip, 1)
        for core, count in ((first, 1), (second, 2), (first, 2), (second, 2), (third, 3)):
            found = some.measure(core.copy())
            again = measure_network(network, chip, core)
            assert (found.unicast_links == again.unicast_links).all()
            assert len(passes) == count
        assert some.known(first) is None
        core = second.copy()
        core[0] = (core[0] + 1) % 9
        assert some.known(core) is None
        changed = some.measure(core)
        core[:] = 0  # the cached measurement does not change with it
        assert some.known(core) is None
        assert changed is not None


@pytest.mark.parametrize(
    ("largest", "undirected", "kept"),
    [(5, False, True), (5, True, True), (2**40, False, False)],
    ids=["directed", "undirected", "weights that are shifted"],
)
def test_synapses_are_read_from_the_copy_in_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int, undirected: bool, kept: bool
) -> None:
    """If its weights are not shifted; the traffic is the same."""
    rng, chip = np.random.default_rng(1), Chip("c", 3, 3)
    edges, weights = rng.integers(0, 60, (900, 2)), rng.integers(0, largest, 900)
    path = write_network(tmp_path / "net.bin", edges, 60, weights, undirected=undirected)
    core = rng.integers(0, 9, 60).astype(np.int32)
    with NetworkFile(path) as network, Scratch(tmp_path / "scratch") as scratch:
        expected = measure_network(network, chip, core)
        assert directed_copy(scratch) is None
        shift = weight_shift(network.meta.total_weight, network.meta.synapses)
        with ThreadTeam(2) as team:
            copied(StreamedRows(network, network.vertex_sizes(), shift), scratch, team, ignore)
        assert (directed_copy(scratch) is not None) == kept
        if kept:
            monkeypatch.setattr(NetworkFile, "read_outgoing", None)
        advanced: list[int] = []
        found = Measurements(network, chip, 2, scratch).measure(core, None, advanced.append)
        assert sum(advanced) == network.connections
        assert summarise(chip, found) == summarise(chip, expected)
        for name in ("unicast_links", "core_links", "multicast_links"):
            assert (getattr(found, name) == getattr(expected, name)).all()
