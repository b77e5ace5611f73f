"""`mapper simulate --spikes`: simulation of the network, bit for bit as the cores compute it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.time import ChipTime
from hw.chip import ChipDesign as Hardware
from hw.chip import chip_shape
from hw.core.arithmetic import simulate
from hw.core.network import SpikingNetwork
from hw.core.shape import CoreShape
from hw.run import ChipSimulator
from hw.tables import ChipTables, make_tables
from mapper.evaluation.spiking import play
from mapper.spiking.slots import Slots
from storage.formats.trains import Trains, read_trains, save_trains
from storage.store.network import POPULATION, NetworkFile
from storage.store.writer import NetworkWriter
from tests.hw.networks import TINY, random_network, recurrent
from tests.mapper.conftest import Run

Fails = Callable[..., str]
TICKS = 30
CORE = CoreShape(neurons=64, axons=256, routes=512, synapses=1024)


def given_at(rng: np.random.Generator, neurons: int, count: int) -> Trains:
    tick, neuron = np.sort(rng.integers(0, TICKS, count)), rng.integers(0, neurons, count)
    order = np.lexsort((neuron, tick))
    return Trains(neuron[order], tick[order])


def with_inputs(network: SpikingNetwork) -> SpikingNetwork:
    """Add an input with the same synapses for each neuron."""
    return replace(
        network, inputs=network.neurons,
        source=np.r_[network.source, network.source + network.neurons],
        target=np.r_[network.target, network.target], weight=np.r_[network.weight, network.weight],
        delay=np.r_[network.delay, network.delay],
    )  # fmt: skip


def trains_of(spikes: np.ndarray[Any, Any]) -> Trains:
    tick, neuron = np.nonzero(spikes)
    return Trains(neuron, tick)


@pytest.mark.parametrize("seed", range(30))
def test_tables_compute_the_network(seed: int) -> None:
    """Extreme values of all words, any mapping; sums of the same spikes wrap."""
    rng = np.random.default_rng(seed)
    shape = replace(TINY, x_bits=2, y_bits=1)
    network = random_network(
        rng, int(rng.integers(2, 9)), int(rng.integers(1, 30)), shape, inputs=0
    )
    core = rng.integers(0, 6, network.neurons)
    tables = make_tables(network, core, 3, 2, shape)
    given = given_at(rng, network.neurons, int(rng.integers(0, 60)))
    told = [given.neuron[a:b].tolist() for a, b in pairwise(given.ends(TICKS))]
    spikes, _ = simulate(with_inputs(network), shape, TICKS, told)
    played = play(tables, Chip("c", 3, 2), given, TICKS, 4)
    expected = trains_of(spikes)
    assert np.array_equal(played.trains.neuron, expected.neuron)
    assert np.array_equal(played.trains.tick, expected.tick)
    sent = np.bincount(given.neuron, minlength=network.neurons) + spikes.sum(axis=0)
    events = sent @ np.bincount(network.source, minlength=network.neurons)
    assert played.facts["events"] == events


@cache
def hardware() -> ChipSimulator:
    return ChipSimulator(Hardware(3, 2, CORE))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit  # ticks of six cores, cycle by cycle
@pytest.mark.parametrize("seed", range(3))
def test_spikes_and_cycles_of_the_amaranth_chip(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = recurrent(120, 5, seed)
    shape = chip_shape(3, 2, CORE)
    tables = make_tables(network, rng.permutation(np.arange(120) % 6), 3, 2, shape)
    given = given_at(rng, 120, 100)
    packets = {
        int(neuron): tuple(
            map(tuple, core.routes[core.route_indptr[n] : core.route_indptr[n + 1]].tolist())
        )
        for core in tables.cores
        for n, neuron in enumerate(core.neurons)
    }
    ends = given.ends(TICKS)
    slot = Slots.of(tables).sender
    told = [sorted(given.neuron[a:b].tolist(), key=lambda n: slot[n]) for a, b in pairwise(ends)]
    by_host: ChipTables = replace(tables, input_packets=tuple(packets[n] for n in range(120)))
    run = hardware().run(by_host, TICKS, told)
    chip = Chip("c", 3, 2, delivery="core", time=ChipTime())
    arranged = Trains(np.array([n for one in told for n in one]), given.tick)
    played = play(tables, chip, arranged, TICKS, 4)
    found, expected = played.trains, trains_of(run.spikes)
    assert np.array_equal(found.neuron, expected.neuron)
    assert np.array_equal(found.tick, expected.tick)
    assert played.facts["cycles"]["mean"] == run.cycles.mean()
    assert played.facts["cycles"]["max"] == run.cycles.max()
    counted = (run.spikes.sum(axis=0) + np.bincount(given.neuron, minlength=120)) / TICKS
    assert np.array_equal(played.rate, counted)


@pytest.fixture
def net(folder: Path) -> Path:
    """A ring of ten neurons in two populations with weighted synapses."""
    path = folder / "net.bin"
    here = np.arange(10)
    with NetworkWriter(path, 10) as writer:
        writer.add(here, (here + 1) % 10, np.full(10, 5))
        writer.set_attribute(POPULATION, here % 2, ["even", "odd"])
        writer.finish()
    return path


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_files_of_trains(name: str, net: Path) -> None:
    pytest.importorskip("h5py")
    rng = np.random.default_rng(3)
    trains, path = given_at(rng, 10, 40), net.parent / name
    with NetworkFile(net) as network:
        save_trains(path, network, trains, np.zeros(10), TICKS, 0.1)
        found = read_trains(path, network, 0.1)
    assert np.array_equal(found.neuron, trains.neuron)
    assert np.array_equal(found.tick, trains.tick)


@pytest.fixture(params=["core", "synapse", "core, tiles", "tree, tiles"])
def out(request: pytest.FixtureRequest, net: Path, run: Run) -> Path:
    delivery, *tiles = request.param.split(", ")
    (net.parent / "chip.toml").write_text(
        f'width = 3\nheight = 2\nneurons = 2\ndelivery = "{delivery}"\n[time]\n'
        + ("[tile]\nwidth = 1\nheight = 2\n" if tiles else "")
    )
    assert run("run", net, "--chip", "chip.toml", "--preset", "fast", "-o", "out", "-q").code == 0
    return net.parent / "out"


def save_given(path: Path, neuron: list[int], tick: list[int]) -> Path:
    np.savez(path, neuron=np.array(neuron), tick=np.array(tick))
    return path


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
def test_a_spike_travels_round_the_ring(out: Path, run: Run) -> None:
    """It reaches neuron 3 in tick 2 and the next neuron in each tick; one input is after the
    end.
    """
    spikes = save_given(out.parent / "in.npz", [2, 5], [2, 30])
    found = run("simulate", out, "--spikes", spikes, "--ticks", "20", "--threshold", "5", "--json")
    result = found.json()
    with np.load(out / "spikes.npz") as saved:
        assert saved["tick"].tolist() == list(range(2, 20))
        assert saved["neuron"].tolist() == [(tick + 1) % 10 for tick in range(2, 20)]
        assert saved["rate"][3] == 2 / 20 and saved["rate"][2] == 2 / 20
    assert (result["spikes"], result["given"], result["given_later"]) == (18, 1, 1)
    assert result["events"] == 19  # the last spike acts after the end
    assert "1 spikes of in.npz ignored: in tick 20 or later" in found.err.replace(
        str(spikes), "in.npz"
    )
    chip = json.loads((out / "report.json").read_text())["chip"]
    assert ("cycles" in result) == (chip["delivery"] != "synapse")
    if "cycles" in result:
        assert result["cycles"]["mean"] >= 2 * ChipTime().neuron + ChipTime().barrier
    assert run("verify", out).code == 0
    assert "spikes given" in run("simulate", out, "--spikes", spikes, "--threshold", "5").out


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
def test_rates_are_fed_back(out: Path, run: Run) -> None:
    spikes = save_given(out.parent / "in.npz", [2], [0])
    assert run("simulate", out, "--spikes", spikes, "--threshold", "5", "-q").code == 0
    rated = run("score", "net.bin", out / "mapping.npz", "--chip", "chip.toml", "--rates",
                out / "spikes.npz", "--json")  # fmt: skip
    assert rated.code == 0, rated.err
    metrics = rated.json()["metrics"]
    assert metrics["core"]["packets"] <= 1.01
    pytest.importorskip("h5py")
    more = run("simulate", out, "--spikes", spikes, "--threshold", "5", "--save", "a.h5", "-q")
    assert more.code == 0
    with NetworkFile(Path("net.bin")) as network:
        assert read_trains(Path("a.h5"), network, 1.0).tick.tolist() == list(range(100))


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize(
    ("neuron", "tick", "said"),
    [
        ([1, 10], [0, 0], "in.npz: spike 1 (from 0) has neuron 10; the network has 10"),
        ([-1], [0], "in.npz: spike 0 (from 0) has neuron -1; the network has 10"),
        ([1], [-2], "in.npz: spike 0 (from 0) has tick -2"),
        ([1], [0, 1], "in.npz: 1 neurons and 2 ticks; give one of each per spike"),
        ([0.5], [0], "in.npz: neuron is float64 of shape (1,); give a list of whole numbers"),
    ],
)
def test_bad_spikes(out: Path, fails: Fails, neuron: list[int], tick: list[int], said: str) -> None:
    save_given(out.parent / "in.npz", neuron, tick)
    assert said in fails("simulate", "out", "--spikes", "in.npz", "--threshold", "5")


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
def test_other_faults(out: Path, fails: Fails) -> None:
    folder = out.parent
    np.savez(folder / "other.npz", x=np.zeros(2))
    (folder / "text.csv").write_text("1,2\n")
    save_given(folder / "in.npz", [0], [0])
    for name, said in (
        ("other.npz", "holds x; it must hold arrays `neuron` and `tick`"),
        ("text.csv", "neither an npz archive nor a SONATA spike report"),
        ("none.npz", "cannot read: No such file"),
    ):
        assert said in fails("simulate", "out", "--spikes", name, "--threshold", "5")
    said = fails("simulate", "out", "--spikes", "in.npz", code=2)
    assert "has no neuron thresholds; add --threshold" in said
    assert "add --spikes" in fails("simulate", "out", "--threshold", "5", code=2)
    said = fails(
        "simulate", "out", "--spikes", "in.npz", "--threshold", "5", "--cycles", "9", code=2
    )
    assert "--cycles only the mesh; omit one" in said


def test_networks_of_rates_cannot_be_simulated(folder: Path, run: Run, fails: Fails) -> None:
    """Without synaptic weights nothing can be computed."""
    (folder / "e.csv").write_text("source,target,weight\n0,1,3\n")
    assert run("import", "e.csv", "net.bin", "--rates", "uniform").code == 0
    assert run("run", "net.bin", "--chip", "2x2", "-o", "out", "-q").code == 0
    save_given(folder / "in.npz", [0], [0])
    said = fails("simulate", "out", "--spikes", "in.npz", "--threshold", "5")
    assert "not synaptic weights: they are firing rates" in said
