"""Processor time is told before a run of a network that is cut into blocks, stage by stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.model import Chip
from mapper.runtime.memory_plan import make_plan
from mapper.runtime.monitor import Monitor
from mapper.runtime.time_plan import processor_seconds
from mapper.settings import PRESETS, preset
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

CHIP = Chip("c", 64, 64, neurons=264)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_network(tmp_path_factory.mktemp("plan") / "net.bin", 1000, 8000)


def seconds(
    path: Path, memory: int, name: str = "default", fanout: int = 50, **changes: Any
) -> dict[str, float] | None:
    """Of a network of a million neurons."""
    with NetworkFile(path) as network:
        network.vertices, network.connections = 1 << 20, 2 * fanout << 20
        network.meta = replace(network.meta, total_size=1 << 20)
        settings = preset(name, memory_bytes=memory << 20, **changes)
        return processor_seconds(network, CHIP, settings, make_plan(network, CHIP, settings))


def test_more_work_takes_longer(path: Path) -> None:
    much = seconds(path, 1024)
    assert much is not None
    assert all(value > 0 for value in much.values())
    for other, stage in (
        (seconds(path, 420), "initial partition"),  # more levels
        (seconds(path, 340), "split blocks"),  # gathered in more passes
        (seconds(path, 1024, cluster_rounds=6), "coarsen"),
        (seconds(path, 1024, block_passes=6), "refine blocks"),
        (seconds(path, 1024, refinement_passes=9), "uncoarsen and refine"),
        (seconds(path, 2048, fanout=100), "score"),
    ):
        assert other is not None
        assert other[stage] > much[stage]
        assert other["placement"] == much["placement"]
    fast = seconds(path, 1024, "fast")
    assert fast is not None
    assert sum(fast.values()) < sum(much.values())


def test_networks_on_levels_in_memory_are_not_foretold(path: Path) -> None:
    with NetworkFile(path) as network:
        settings = preset("default")
        assert (
            processor_seconds(network, CHIP, settings, make_plan(network, CHIP, settings)) is None
        )


@pytest.mark.jit
def test_checks_say_how_long_a_run_takes(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = random_network(folder / "net.bin", 600, 9000)
    few = replace(PRESETS["fast"], level_budget=0, block_vertices=64)
    monkeypatch.setitem(PRESETS, "fast", few)
    command = (network, "--chip", "6x6", "--neurons-per-core", "20", "--preset", "fast")
    kept: list[dict[str, float]] = []
    close = Monitor.close

    def closing(monitor: Monitor) -> None:
        kept.append(monitor.estimates)
        close(monitor)

    monkeypatch.setattr(Monitor, "close", closing)
    assert run("run", *command, "--threads", "2", "-o", "out").code == 0
    told = run("check", *command, "--json").json()["run"]["processor_seconds"]
    assert {"read", "coarsen", "split blocks", "score"} <= set(told)
    assert kept[0] == {stage: value / 2 for stage, value in told.items()}, "moves the bar"
    shown = run("check", *command).out
    assert "s of processor time" in shown
    assert "connections each for the first cut" in shown
    held = run("check", *command, "--set", "level-budget=1000000", "--json")
    assert held.json()["run"]["processor_seconds"] is None
