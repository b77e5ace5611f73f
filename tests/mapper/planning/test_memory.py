"""Memory needs are planned before a run: monotonic in the budget, refused with a reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chipsim.chip.model import Chip
from mapper.errors import DoesNotFitError
from mapper.planning.plan import Plan, megabytes
from mapper.planning.sampling import Sample
from mapper.planning.strategy import enough_memory, make_plan
from mapper.settings import PRESETS, preset
from storage.store.meta import AttributeMeta
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

CHIPS = [Chip("c", 8, 8, neurons=16), Chip("s", 8, 8, neurons=16, synapses=600)]
WIDE = Chip("w", 2000, 2000, neurons=1000)
SMALL = Plan(300 << 20, {"coarsen": 200 << 20, "score": 301 << 20}, 0, 0, False, 0, 0, 0, 1)
MEMORY = [1 << 28, 3 << 27, 1 << 29, 1 << 30, 1 << 33, 1 << 40]


def scaled(network: NetworkFile, scale: int) -> None:
    """Make a network appear larger by a factor."""
    network.vertices *= scale
    network.connections *= scale
    network.meta = replace(network.meta, total_size=network.vertices)


def planned(path: Path, chip: Chip, scale: int = 1, name: str = "default", **changes: Any) -> Plan:
    """Return the plan for a network `scale` times as large as the one at `path`."""
    with NetworkFile(path) as network:
        scaled(network, scale)
        return make_plan(network, chip, preset(name, **changes))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_network(tmp_path_factory.mktemp("plan") / "net.bin", 1000, 8000)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("chip", CHIPS, ids=["neurons", "synapses"])
@pytest.mark.parametrize("scale", [1, 1000, 100_000])
def test_stages_are_positive_and_need_no_more_with_fewer_threads(
    name: str, chip: Chip, scale: int, path: Path
) -> None:
    needed = []
    for threads in (1, 2, 8):
        plan = planned(path, chip, scale, name, threads=threads, memory_bytes=1 << 32)
        assert all(isinstance(need, int) and need > 0 for need in plan.stages.values())
        assert plan.memory == max(plan.stages.values())
        assert plan.scratch >= 0
        assert plan.sorting >= 0
        assert plan.budget == 1 << 32
        needed.append(min(plan.stages.values()))
    assert needed == sorted(needed)


@pytest.mark.sample(73)
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("chip", CHIPS, ids=["neurons", "synapses"])
@pytest.mark.parametrize("scale", [1, 100, 1000, 10_000, 50_000])
def test_more_memory_never_makes_a_plan_refuse(
    name: str, threads: int, chip: Chip, scale: int, path: Path
) -> None:
    fits = []
    for memory in MEMORY:
        plan = planned(path, chip, scale, name, threads=threads, memory_bytes=memory)
        try:
            plan.require()
        except DoesNotFitError:
            fits.append(False)
        else:
            fits.append(True)
            assert plan.memory <= memory
    assert fits == sorted(fits)
    assert fits[-1]


@pytest.mark.parametrize("name", ["fast", "default"])
def test_a_plan_keeps_its_budget_if_less_memory_was_enough(name: str, path: Path) -> None:
    """In steps of 16 MiB: planned memory grows with the budget and never exceeds it."""
    for scale in (1, 300, 3000):
        fits = False
        for memory in range(1 << 28, 1 << 30, 1 << 24):
            plan = planned(path, CHIPS[0], scale, name, threads=2, memory_bytes=memory)
            assert not fits or plan.memory <= memory
            fits = plan.memory <= memory


@pytest.mark.parametrize("name", ["fast", "default"])
def test_hundred_million_neurons_fit_eighty_bytes_each(name: str, path: Path) -> None:
    """Plus 1 GiB; with two threads as with any number, because memory for more is missing."""
    n = 10**8
    for fanout in (10, 50):
        with NetworkFile(path) as network:
            network.vertices, network.connections = n, 2 * fanout * n
            meta = replace(network.meta, neurons=n, synapses=fanout * n, total_size=n)
            network.meta = replace(meta, largest_block_bytes=3 << 20)
            chip = Chip("large", 640, 640, neurons=264)
            settings = preset(name, memory_bytes=80 * n + (1 << 30), threads=16)
            plan = make_plan(network, chip, settings)
        assert not plan.shortage
        assert plan.threads >= 2


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_names_of_neurons_count(path: Path) -> None:
    """They are in memory during all stages; a few are negligible compared with Python itself."""

    def named(count: int, memory: int = 1 << 32, name: str = "default") -> Plan:
        with NetworkFile(path) as network:
            labels = [f"neuron {i:08d}" for i in range(count)]
            about = {"id": AttributeMeta(labels=labels)}
            network.meta = replace(network.meta, attributes=about)
            return make_plan(network, CHIPS[0], preset(name, memory_bytes=memory))

    few, many = named(10_000), named(1_000_000)
    assert few == named(0)
    more = [many.stages[stage] - need for stage, need in few.stages.items()]
    assert set(more) == {(150 + 2 * 15) * 1_000_000}
    assert named(1_000_000, 1 << 28).shortage
    assert named(1_000_000, 1 << 28, "classic").shortage
    assert not named(10_000, 1 << 28).shortage


def test_networks_are_held_only_while_there_is_room(path: Path) -> None:
    assert planned(path, CHIPS[0]).held
    assert planned(path, CHIPS[0], 1000, memory_bytes=1 << 32).held
    assert not planned(path, CHIPS[0], 10_000, memory_bytes=1 << 30).held
    held = [planned(path, CHIPS[0], 3000, memory_bytes=memory).held for memory in MEMORY]
    assert held == sorted(held)
    scratch = [planned(path, CHIPS[0], 3000, memory_bytes=memory).scratch for memory in MEMORY]
    assert scratch == sorted(scratch, reverse=True)


def test_the_strategy_of_a_plan(path: Path) -> None:
    chip, much = Chip("c", 64, 64), {"memory_bytes": 1 << 40}
    by_nets = planned(path, chip, objective="multicast", **much)
    assert by_nets.strategy == "partition by nets in memory"
    assert planned(path, chip, **much).strategy == "partition of coarsening levels in memory"
    held = planned(path, chip, level_budget=0, **much)
    assert held.strategy == "partition by connections in memory"
    streamed = planned(path, chip, 10_000, memory_bytes=1 << 30)
    assert streamed.strategy == "partition by connections streamed from disk"
    sampled = replace(streamed, net_share=0.25)
    assert sampled.strategy.endswith("streamed from disk, refined by 25% of the nets")


def test_packets_refine_networks_within_the_time_budget(path: Path) -> None:
    def stages(scale: int, name: str = "default", **changes: Any) -> bool:
        changes |= {"objective": "core", "net_pins": 0, "net_time": 1 << 50}
        changes["memory_bytes"] = 1 << 40
        plan = planned(path, Chip("c", 64, 64), scale, name, **changes)
        assert ("packet refinement" in plan.stages) == plan.nets_after
        return plan.nets_after

    with NetworkFile(path) as network:
        pins = network.meta.synapses + network.vertices
    assert stages(1, hop_budget=4 * pins)
    assert not stages(1, hop_budget=4 * pins - 1)
    assert stages(10_000)
    assert not stages(20_000)  # neurons alone are more pins than the budget allows
    assert stages(20_000, "strong")


def test_small_networks_are_cut_without_sampling(path: Path) -> None:
    assert planned(path, CHIPS[0]).sample is None  # on levels
    assert planned(path, CHIPS[0], level_budget=0).sample is None  # one block
    assert planned(path, CHIPS[0], 100_000, "classic").sample is None
    sample = planned(path, CHIPS[0], level_budget=0, block_vertices=64, coarse_degree=100).sample
    assert sample is not None
    assert sample.kept == sample.whole
    assert not sample.thin


@pytest.mark.parametrize(
    ("memory", "scale", "levels"),
    [(128 << 30, 1_000_000, 2), (16 << 30, 100_000, 1), (2 << 30, 10_000, 1)],
)
def test_levels_are_built_until_enough_of_the_network_fits(
    memory: int, scale: int, levels: int, path: Path
) -> None:
    """With one level there would be 4.5, 7.7 and 9.9 connections per cluster."""
    found = planned(path, WIDE, scale, memory_bytes=memory)
    assert not found.shortage
    sample = found.sample
    assert sample is not None
    assert sample.levels == levels
    assert sample.kept >= min(sample.whole, 50 * sample.clusters)
    assert not sample.thin
    flat = planned(path, WIDE, scale, memory_bytes=8 * memory)
    assert flat.sample is not None
    assert flat.sample.levels == 0
    assert found.scratch > flat.scratch  # includes the levels
    assert found.sorting > flat.sorting == 0
    assert found.on_workers() == replace(found, sorting=0)


@pytest.mark.parametrize("fanout", [10, 100, 1000])
@pytest.mark.parametrize("neurons", [10**6, 10**7, 10**8, 10**9])
@pytest.mark.parametrize("name", ["fast", "default"])
def test_eighty_bytes_per_neuron_and_a_gibibyte_are_enough(
    name: str, neurons: int, fanout: int, path: Path
) -> None:
    chip = Chip("w", side := int((neurons / 250) ** 0.5) + 1, side, neurons=264)
    with NetworkFile(path) as network:
        scaled(network, neurons // network.vertices)
        network.connections = 2 * fanout * neurons
        plan = make_plan(
            network, chip, preset(name, memory_bytes=80 * neurons + (1 << 30), threads=2)
        )
    assert not plan.shortage
    assert plan.sample is not None
    assert plan.sample.kept >= min(plan.sample.whole, 20 * plan.sample.clusters)


def test_a_thin_sample_is_noted_with_sufficient_memory(path: Path) -> None:
    """Blocks so small that clusters cannot become larger."""
    memory, scale, small = 3 << 29, 10_000, {"block_vertices": 100}
    chip = Chip("w", 2000, 2000, neurons=100)
    sample = planned(path, chip, scale, memory_bytes=memory, **small).sample
    assert sample is not None
    assert sample.thin
    with NetworkFile(path) as network:
        scaled(network, scale)
        settings = preset("default", memory_bytes=memory, **small)
        enough = enough_memory(network, chip, settings)
        assert enough is not None
        assert enough_memory(network, chip, replace(settings, coarse_degree=19)) is None
    assert f"use --memory {-(-enough >> 20)}MiB or more" in sample.describe(enough)
    for much, thin in ((enough, False), (enough * 100 // 106, True)):
        found = planned(path, chip, scale, memory_bytes=much, **small).sample
        assert found is not None
        assert found.thin == thin


def test_descriptions_of_samples() -> None:
    assert Sample(1000, 64_000, 100_000).describe(None) == (
        "the initial partition uses about 64 connections per cluster of neurons"
    )
    assert not Sample(1000, 5000, 5000).thin  # all connections
    thin = Sample(1000, 5000, 100_000)
    assert thin.describe(300 << 20) == (
        "the initial partition uses about 5 connections per cluster of neurons; fewer than 20 "
        "give a much worse mapping: use --memory 300MiB or more"
    )
    assert thin.describe(None).endswith(": use --set coarse-degree=20 or more")
    assert thin.facts(7) == {
        "levels": 0,
        "clusters": 1000,
        "connections": 5000,
        "per_cluster": 5.0,
        "enough_memory": 7,
    }
    for levels, words in ((1, "1 more level of"), (2, "2 more levels of")):
        assert Sample(1000, 100_000, 10**6, levels).describe(None) == (
            "the initial partition uses about 100 connections per cluster of neurons, after "
            f"{words} clusters"
        )


@pytest.mark.jit
@pytest.mark.parametrize("degree", [4, 40])
def test_runs_and_checks_report_a_thin_sample(
    degree: int, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = random_network(folder / "net.bin", 600, 9000)
    few = replace(PRESETS["fast"], level_budget=0, block_vertices=64, coarse_degree=degree)
    monkeypatch.setitem(PRESETS, "fast", few)
    command = (network, "--chip", "6x6", "--neurons-per-core", "20", "--preset", "fast", "--json")
    checked = run("check", *command)
    made = run("run", *command, "-o", "out")
    assert (checked.code, made.code) == (0, 0)
    said = checked.err.splitlines()[-1]
    assert said.startswith(f"note: the initial partition uses about {degree} connections per")
    assert checked.json()["run"]["sample"]["per_cluster"] == degree
    assert ("use --set coarse-degree=20 or more" in said) == (degree < 20)
    assert (made.err == said + "\n") == (degree < 20)
    assert made.json()["sample"]["per_cluster"] == degree
    assert f"  {degree} sampled connections per cluster\n" in Path("out/run.log").read_text()


def test_a_refusal_names_the_stage_and_the_shortage() -> None:
    with pytest.raises(DoesNotFitError) as error:
        SMALL.require()
    assert str(error.value) == SMALL.shortage
    assert SMALL.shortage == (
        "the stage 'score' needs 301 MiB, --memory is 300 MiB (1 MiB short); give more memory"
    )
    enough = replace(SMALL, budget=301 << 20)
    enough.require()
    assert enough.shortage == ""


def test_a_disk_that_is_too_small_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []
    free = int(1.1 * (2 << 20)) + (1 << 20) - 1  # 10 % above the predicted scratch size

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder)
        return SimpleNamespace(free=free)

    monkeypatch.setattr("mapper.planning.plan.shutil.disk_usage", usage)
    plan = replace(SMALL, budget=1 << 30, scratch=2 << 20, sorting=1 << 20)
    plan.require()  # no folder, no query
    assert asked == []
    with pytest.raises(DoesNotFitError) as error:
        plan.require(tmp_path)
    assert asked == [tmp_path]
    assert str(error.value) == (
        f"{tmp_path}: the run needs 4 MiB of disk for scratch, 4 MiB are free; "
        "choose another place with -o"
    )
    free += 1
    plan.require(tmp_path)
    with pytest.raises(DoesNotFitError, match="give more memory"):
        SMALL.require(tmp_path)


@pytest.mark.parametrize("name", ["fast", "default"])
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("scale", [1, 1000, 50_000])
def test_threads_change_only_their_own_number(
    name: str, memory: int, scale: int, path: Path
) -> None:
    """Memory shares determine the result, which must not depend on the number of threads."""
    plans = [
        planned(path, CHIPS[0], scale, name, threads=threads, memory_bytes=memory)
        for threads in (1, 2, 7, 500)
    ]
    found = [plan.threads for plan in plans]
    assert found[0] == 1
    assert found == sorted(found)
    assert all(plan.threads <= asked for plan, asked in zip(plans, (1, 2, 7, 500), strict=True))
    shared = {
        (
            p.held, p.sampled, p.sampled_above, p.gathered, p.grouped, p.summed, p.scratch,
            p.sorting, p.sample,
        )
        for p in plans
    }  # fmt: skip
    assert len(shared) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_classic_uses_the_requested_threads(threads: int, path: Path) -> None:
    assert planned(path, CHIPS[0], name="classic", threads=threads).threads == threads


def test_megabytes_are_rounded_up() -> None:
    assert megabytes(0) == "0 MiB"
    assert megabytes(1) == "1 MiB"
    assert megabytes(1 << 20) == "1 MiB"
    assert megabytes((5000 << 20) + 1) == "5,001 MiB"


@pytest.mark.parametrize("name", PRESETS)
def test_every_stage_holds_the_tables_of_constraints(name: str, path: Path) -> None:
    tables, memory = 100 << 20, 1 << 30
    with NetworkFile(path) as network:
        scaled(network, 1000)
        settings = preset(name, memory_bytes=memory)
        plan = make_plan(network, CHIPS[0], settings, tables)
        smaller = make_plan(network, CHIPS[0], replace(settings, memory_bytes=memory - tables))
    assert plan.budget == memory
    assert plan.stages == {name: need + tables for name, need in smaller.stages.items()}


def test_tables_of_constraints_that_exceed_the_memory_are_refused(path: Path, run: Run) -> None:
    """There are 400 regions, and the neurons in none of them."""
    regions = (f"[[region]]\nneurons = [{v}]\ncores = [{v}]\n" for v in range(400))
    file = path.parent / "regions.toml"
    file.write_text("".join(regions))
    arguments = ("check", path, "--chip", "128x128", "--constraints", file)
    found = run(*arguments, "--memory", "400MiB")
    assert found.code == 3
    assert "constraints: " in found.err
    assert "combinations of regions and groups on 16,384 cores need" in found.err
    assert "use fewer tables, or raise --memory" in found.err
