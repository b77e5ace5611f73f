"""Processor time is estimated before a run, stage by stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from mapper.hop_refinement import refine
from mapper.hypergraph import partition
from mapper.monitoring.monitor import Monitor
from mapper.planning import processor_time
from mapper.planning.plan import REFINED_BY
from mapper.planning.processor_time import processor_seconds, slowness
from mapper.planning.strategy import make_plan
from mapper.settings import BY_NETS, PRESETS, preset
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

CHIP = Chip("c", 64, 64, neurons=264)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_network(tmp_path_factory.mktemp("plan") / "net.bin", 1000, 8000)


def seconds(
    path: Path, memory: int, name: str = "default", fanout: int = 50, **changes: Any
) -> dict[str, float]:
    """Return the estimated seconds for a network of a million neurons."""
    with NetworkFile(path) as network:
        network.vertices, network.connections = 1 << 20, 2 * fanout << 20
        network.meta = replace(network.meta, total_size=1 << 20)
        settings = preset(name, memory_bytes=memory << 20, **changes)
        return processor_seconds(network, CHIP, settings, make_plan(network, CHIP, settings))


def test_more_work_takes_longer(path: Path) -> None:
    much = seconds(path, 1024)
    assert all(value > 0 for stage, value in much.items() if stage != "hop refinement")
    for other, stage in (
        (seconds(path, 420), "initial partition"),  # more levels
        (seconds(path, 340), "split blocks"),  # gathered in more passes
        (seconds(path, 1024, cluster_rounds=6), "coarsen"),
        (seconds(path, 1024, block_passes=6), "refine blocks"),
        (seconds(path, 1024, hop_budget=0, refinement_passes=9), "uncoarsen and refine"),
        (seconds(path, 1024, hop_budget=1 << 40), "hop refinement"),
        (seconds(path, 2048, fanout=100), "score"),
    ):
        assert other[stage] > much[stage]
        assert other["placement"] == much["placement"]
    fast = seconds(path, 1024, "fast")
    assert sum(fast.values()) < sum(much.values())


@pytest.mark.parametrize("objective", ["unicast", "cut", "core", "multicast", "time"])
@pytest.mark.parametrize("nets", [True, False])
@pytest.mark.parametrize("level_budget", [0, 1 << 40])
@pytest.mark.parametrize("name", ["fast", "default", "strong"])
def test_every_stage_of_every_strategy_has_an_estimate(
    name: str, level_budget: int, nets: bool, objective: str, path: Path
) -> None:
    chip = Chip("c", 9, 9, neurons=20, time=ChipTime())
    pins = 1 << 40 if nets else 0
    settings = preset(name, objective=objective, level_budget=level_budget, net_pins=pins)
    with NetworkFile(path) as network:
        plan = make_plan(network, chip, settings)
        found = processor_seconds(network, chip, settings, plan)
        longer = processor_seconds(network, chip, settings, replace(plan, net_work=9.0))
    refined = REFINED_BY.get(objective, "none")
    assert plan.nets_held == (nets and objective in BY_NETS)
    stages = {"read", "placement", "score"}
    stages |= {"partition"} if plan.nets_held else {"split blocks"}
    if plan.levels:
        stages = stages - {"split blocks"} | {"coarsen", "initial partition", "hop refinement"}
    elif not plan.nets_held and objective not in ("cut", "multicast"):
        stages.add("hop refinement")
    stages |= {stage for stage in ("net refinement", refined) if stage in plan.stages}
    assert stages <= set(found)
    assert min(found.values()) >= 0
    if refined in found and not plan.net_share:
        assert longer[refined] > found[refined]
        assert longer | {refined: 0} == found | {refined: 0}
    else:
        assert longer == found


def test_the_preset_classic_has_no_estimates(path: Path) -> None:
    with NetworkFile(path) as network:
        settings = preset("classic")
        assert processor_seconds(network, CHIP, settings, make_plan(network, CHIP, settings)) == {}


def test_a_slow_processor_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = slowness()
    monkeypatch.setattr("mapper.planning.processor_time.STEPS", 1_600_000)
    assert slowness() > 2 * usual


@pytest.mark.jit
def test_checks_report_the_time_of_a_run(
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
    monkeypatch.setattr("mapper.jobs.check.slowness", lambda: 2.0)
    assert run("run", *command, "--threads", "2", "-o", "out").code == 0
    told = run("check", *command, "--json").json()["run"]["processor_seconds"]
    assert {"read", "coarsen", "split blocks", "score"} <= set(told)
    assert kept[0] == {stage: value / 4 for stage, value in told.items()}, (
        "estimates of the progress bar"
    )
    shown = run("check", *command, "--details").out
    assert "s of processor time" in shown
    assert "connections each for the initial cut" in shown
    classic = run("check", *command[:-1], "classic", "--json")
    assert classic.json()["run"]["processor_seconds"] == {}


def test_estimates_use_the_constants_of_the_stages() -> None:
    assert processor_time.REBISECTION == partition.REBISECTION
    assert processor_time.LEAST_PROPOSALS == refine.LEAST_PROPOSALS
