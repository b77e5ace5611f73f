"""Scoring by workers equals scoring by one process, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.errors import ChipError
from mapper.concurrency.stop_flag import StoppedError
from mapper.concurrency.threads import ThreadTeam
from mapper.distributed.remote import RemoteShardExecutor
from mapper.errors import ResumableError
from mapper.executors.executor import GatherTask, LocalShardExecutor
from mapper.executors.shard import State
from mapper.executors.worker_interface import RowSource
from mapper.monitoring.monitor import Monitor
from mapper.scoring.measure import measure_network
from mapper.scoring.worked import SweepHere, SynapseSource, sweep_on
from storage.blobs.access import StoreAccess
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.mapper.distributed.conftest import CHIP, Made
from tests.mapper.distributed.stand_in import StandIn

NEURONS = 400


def plain(value: Any) -> Any:
    """Return the bytes of all arrays in a value, with types and shapes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if is_dataclass(value):
        return [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, tuple | list):
        return list(map(plain, value))
    return [plain(one) for one in vars(value).values()] if hasattr(value, "__dict__") else value


class Nearby(NamedTuple):
    """Workers of an in-process engine; see `Workers`."""

    engine: StandIn

    def executor(
        self, source: RowSource, chunks: int, entries: int, monitor: Monitor
    ) -> RemoteShardExecutor:
        return RemoteShardExecutor(self.engine, source, chunks, entries, monitor)

    def facts(self) -> dict[str, Any]:
        raise AssertionError("must not be called")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[StandIn]:
    with StandIn(tmp_path, 3) as made:
        yield made


@pytest.fixture
def core() -> NDArray[np.int32]:
    return np.random.default_rng(5).integers(0, CHIP.cores, NEURONS).astype(np.int32)


def written(path: Path, rates: bool, undirected: bool) -> Path:
    """Write a network of thirteen blocks."""
    rng = np.random.default_rng(4)
    source, target = rng.integers(0, NEURONS, (2, 5000))
    with NetworkWriter(path, NEURONS, block_size=32, undirected=undirected) as writer:
        writer.add(source, target, rng.integers(1, 9, 5000))
        writer.set_attribute("size", rng.integers(1, 3, NEURONS))
        if rates:
            writer.set_attribute("rate", rng.integers(0, 50, NEURONS))
        writer.finish()
    return path


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("rates", [False, True])
@pytest.mark.parametrize("delivery", ["synapse", "core", "tree"])
def test_the_same_bits(
    delivery: Any, rates: bool, undirected: bool, core: NDArray[np.int32], engine: StandIn,
    tmp_path: Path,
) -> None:  # fmt: skip
    chip = replace(CHIP, delivery=delivery)
    with NetworkFile(written(tmp_path / "net.bin", rates, undirected)) as network:
        alone, worked = Monitor(), Monitor()
        expected = measure_network(network, chip, core, 2, advance=alone.advance)
        swept = sweep_on(Nearby(engine), network, chip, core, worked)
        found = measure_network(network, chip, core, 2, swept=swept)
        assert plain(found) == plain(expected)
        assert worked.visited == alone.visited == network.connections
    assert engine.amounts["bytes_to"] > 3 * 300  # a byte per core, and three workers
    assert engine.amounts["bytes_from"] > 8 * CHIP.cores
    assert engine.amounts["calls"] == 4  # twelve ranges of blocks, three at a time
    assert engine.amounts["bytes_shared"] == 0
    assert engine.amounts["cpu_seconds"] > 0


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lost_worker_changes_nothing(
    replaced: bool, core: NDArray[np.int32], engine: StandIn, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("mapper.distributed.owners.COMES_BACK_WITHIN", 0.0)
    gathered = []

    def lose(address: str, method: str) -> None:
        gathered.append((address, method))
        if gathered.count(("worker-1", "gather")) == 2 and address == "worker-1":
            engine.lose(address, replaced)

    engine.before = lose
    with NetworkFile(written(tmp_path / "net.bin", True, False)) as network:
        expected = measure_network(network, CHIP, core)
        monitor = Monitor()
        swept = sweep_on(Nearby(engine), network, CHIP, core, monitor)
        assert plain(measure_network(network, CHIP, core, swept=swept)) == plain(expected)
        assert monitor.visited == network.connections
    assert engine.lost == ["worker-1"]
    assert ("worker-1-again" in dict(gathered)) == replaced


def test_all_workers_are_lost(core: NDArray[np.int32], engine: StandIn, tmp_path: Path) -> None:
    def lose(address: str, method: str) -> None:
        if method == "gather":
            engine.lose(address)

    engine.before = lose
    with NetworkFile(written(tmp_path / "net.bin", True, False)) as network:
        swept = sweep_on(Nearby(engine), network, CHIP, core, Monitor())
        with pytest.raises(ResumableError, match="all workers were lost; start new ones and"):
            measure_network(network, CHIP, core, swept=swept)


def test_incomplete_parts(core: NDArray[np.int32], tmp_path: Path) -> None:
    with NetworkFile(written(tmp_path / "net.bin", True, False)) as network:
        with Scratch(tmp_path / "scratch") as scratch, ThreadTeam(1) as team:
            rows = SynapseSource(network.path, network.identity, StoreAccess()).open(scratch)
            executor = LocalShardExecutor(rows, team)
            executor.begin(State(core))
            parts = list(executor.run(GatherTask(SweepHere, [(4, 13), (0, 4)], (CHIP,))))
            (whole,) = executor.gather(SweepHere, CHIP)
        expected = plain(measure_network(network, CHIP, core))
        for swept in (parts, parts[::-1], [whole]):
            assert plain(measure_network(network, CHIP, core, swept=swept)) == expected
        with pytest.raises(ChipError, match="the blocks hold 272 vertices, the mapping 400"):
            measure_network(network, CHIP, core, swept=parts[:1])


@pytest.mark.parametrize("finishing", [False, True])
def test_a_finishing_run_is_not_stopped(
    finishing: bool, core: NDArray[np.int32], engine: StandIn, tmp_path: Path
) -> None:
    """Ctrl-C ends a run with the mapping so far, which is still scored."""
    engine.late = True
    monitor = Monitor(finishing=finishing)
    with NetworkFile(written(tmp_path / "net.bin", True, False)) as network:
        swept = sweep_on(Nearby(engine), network, CHIP, core, monitor)
        monitor.stop.ask()
        if finishing:
            found = measure_network(network, CHIP, core, swept=swept)
            assert plain(found) == plain(measure_network(network, CHIP, core))
        else:
            with pytest.raises(StoppedError):
                list(swept)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_a_run_is_scored_by_its_workers(made: Made, two_workers: Any) -> None:
    expected = made()
    two_workers.stages.clear()
    monitor = Monitor()
    found = made(two_workers, monitor)
    assert found.metrics == expected.metrics
    assert plain(found.traffic) == plain(expected.traffic)
    score = two_workers.stages["score"]
    assert score["calls"] == 4
    assert 600 < score["bytes_to"] < 2 * 4 * 600 + 8 * 4 * 600
    assert score["bytes_from"] > 4 * CHIP.cores
    assert score["cpu_seconds"] > 0
