"""`mapper simulate` of chips with core times: ticks with random spikes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.noc.mesh import Mesh
from mapper.evaluation.ticks import mapped_routes
from storage.store.network import RATE, NetworkFile
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

pytestmark = pytest.mark.jit  # complete commands

Fails = Callable[..., str]
CHIP = 'width = 4\nheight = 3\nneurons = 20\ndelivery = "{}"\n[time]\ntick = {}\n'


def network_with(path: Path, rates: list[int], synapses: int) -> None:
    rng = np.random.default_rng(1)
    source, target = rng.integers(0, len(rates), (2, synapses))
    with NetworkWriter(path, len(rates)) as writer:
        writer.add(source, target, np.ones(synapses, np.int64))
        writer.set_attribute(RATE, np.array(rates))
        writer.finish()


@pytest.fixture(params=["core", "tree"])
def out(request: pytest.FixtureRequest, folder: Path, run: Run) -> Path:
    """A mapping of 60 neurons with rates of 0, 1 and 2 spikes per unit of time."""
    network_with(folder / "net.bin", [0, 1, 2] * 20, 500)
    (folder / "chip.toml").write_text(CHIP.format(request.param, 0.25))
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    return folder / "out"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_ticks_of_a_mapping(out: Path, run: Run) -> None:
    found = run("simulate", out, "--ticks", "400", "--json").json()
    report = json.loads((out / "report.json").read_text())
    assert report["ticks"] == found
    assert (found["ticks"], found["clamped"], found["silent"]) == (400, 0, 20)
    assert found["spikes"] == pytest.approx(400 * 0.25 * 60, rel=0.1)
    cycles = found["cycles"]
    assert 2 + 1 <= cycles["p50"] <= cycles["mean"] * 1.2 <= cycles["max"] * 1.2
    assert cycles["mean"] == pytest.approx(report["metrics"]["tick_cycles"], rel=0.25)
    assert found["ended_by_neurons"] + found["ended_by_spikes"] == 400
    again = run("simulate", out, "--ticks", "400", "--json").json()
    assert again == found
    assert run("simulate", out, "--json").json()["ticks"] == 100
    assert "cycles per tick, mean" in run("simulate", out).out
    assert run("verify", out).code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_activity_matches_the_metrics(out: Path) -> None:
    """Packets and events of every core, and flits of every link, at the mean rates."""
    from chipsim.chip.presets import from_fields
    from chipsim.ticks.run import TickSimulator
    from mapper.results.mapping_file import load_mapping
    from mapper.scoring.measure import measure_network

    report = json.loads((out / "report.json").read_text())
    chip = from_fields(report["chip"])
    assert chip.time is not None
    with NetworkFile(out.parent / "net.bin") as network:
        core = load_mapping(out / "mapping.npz", 60, chip)
        traffic = measure_network(network, chip, core)
        mapped = mapped_routes(network, core, Mesh(4, 3), chip.delivery == "tree")
    assert mapped.rate.tolist() == [0.0, 1.0, 2.0] * 20
    assert np.array_equal(mapped.neurons[mapped.slot], np.arange(60))
    # Number of ticks: highest rate; in tick t all neurons with a rate above t spike.
    slots = [np.flatnonzero(mapped.rate[mapped.neurons] > tick) for tick in range(2)]
    ends = np.cumsum([0, *map(len, slots)])
    run = TickSimulator(Mesh(4, 3), chip.time, mapped.routes).run(
        np.concatenate(slots), ends, np.zeros(0, np.int64), np.zeros(3, np.int64)
    )
    activity = traffic.activity
    assert np.array_equal(run.events, activity.events)
    assert np.array_equal(run.taken, activity.received + activity.local)
    if chip.delivery == "core":
        assert np.array_equal(run.links, traffic.core_links)
        assert np.array_equal(run.sent, activity.sent + activity.local)
    else:
        assert np.array_equal(run.links, traffic.multicast_links)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_rates_above_one_spike_per_tick_are_noted(folder: Path, run: Run) -> None:
    network_with(folder / "net.bin", [0, 1, 2] * 10, 90)
    (folder / "chip.toml").write_text(CHIP.format("core", 1))
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    found = run("simulate", "out", "--ticks", "3")
    assert "10 neurons have rates above one spike per tick" in found.err
    network_with(folder / "mute.bin", [0] * 30, 90)
    assert run("run", "mute.bin", "--chip", "chip.toml", "-o", "mute", "-q").code == 0
    found = run("simulate", "mute", "--ticks", "3")
    assert "no neuron spiked" in found.err


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("chip", "said"),
    [
        ("4x4", "sends one packet per synapse, which the simulator does not"),
        ("loihi", "has no core times; add a table [time] to its file"),
    ],
)
def test_chips_with_incomplete_times(
    folder: Path, run: Run, fails: Fails, chip: str, said: str
) -> None:
    random_network(folder / "net.bin", 30, 90)
    assert run("run", "net.bin", "--chip", chip, "-o", "out", "-q").code == 0
    assert said in fails("simulate", "out", "--ticks", "5")


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_load_options_apply_to_the_mesh(out: Path, run: Run, fails: Fails) -> None:
    assert "packets_per" in run("simulate", out, "--cycles", "500", "--json").json()
    said = fails("simulate", out, "--ticks", "5", "--tick-cycles", "500", code=2)
    assert "--tick-cycles only the mesh; omit one" in said


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_a_burst_is_estimated(folder: Path) -> None:
    """All neurons spike in the same tick: packets wait for busy cores, and for each other."""
    from chipsim.chip.model import Chip
    from chipsim.chip.time import ChipTime
    from chipsim.traffic.metrics import summarise
    from mapper.evaluation.ticks import random_ticks
    from mapper.scoring.measure import measure_network

    chip, mesh = Chip("c", 5, 4, delivery="core", time=ChipTime()), Mesh(5, 4)
    found = []
    for seed, synapses in enumerate((600, 1500, 3000, 5000, 8000)):
        network_with(folder / f"{seed}.bin", [1] * 500, synapses)
        core = np.random.default_rng(seed).permutation(np.arange(500) % 20).astype(np.int32)
        with NetworkFile(folder / f"{seed}.bin") as network:
            metrics = summarise(chip, measure_network(network, chip, core))
            mapped = mapped_routes(network, core, mesh, False)
        (run, _), = random_ticks(mapped, chip, mesh, 1, seed=0)  # fmt: skip
        others = max(n for name, n in metrics["tick_bounds"].items() if name != "queues")
        found.append((metrics["tick_cycles"] / run.cycles[0], others / run.cycles[0]))
    estimate, bound = np.array(found).T
    assert np.abs(estimate - 1).max() < 0.1
    assert bound.min() < 0.8
