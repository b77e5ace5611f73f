"""Words of shared synapse lists: runs, scores and checks all count them exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.evaluation.verify import SlowReader
from mapper.evaluation.verify_lists import stored_words
from mapper.scoring.list_words import list_words
from mapper.scoring.measure import measure_network
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run
from tests.reference import lists as twin

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Synapses = dict[tuple[int, int], float]
SHARED = 'neurons = 64\nsynapses = {}\nsharing = "offset"\nwidth = 3\nheight = 3\n'


def write(path: Path, neurons: int, synapses: Synapses, weights: str, undirected: bool) -> None:
    ends = np.array(list(synapses), np.int64).reshape(-1, 2)
    with NetworkWriter(path, neurons, weights=weights, undirected=undirected, block_size=8) as file:
        values = np.array(list(synapses.values()))
        file.add(ends[:, 0], ends[:, 1], values if weights == "both" else values.astype(np.int64))
        file.finish()


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("weights", ["rate", "both"])
@pytest.mark.parametrize("seed", range(12))
def test_words_are_those_of_different_lists(
    folder: Path, seed: int, weights: str, undirected: bool
) -> None:
    """Targets at few distances and two weights, so that many lists coincide."""
    rng = np.random.default_rng(seed)
    neurons, cores = int(rng.integers(2, 40)), int(rng.integers(1, 5))
    kinds = (1, 2) if weights == "rate" else (-0.75, 1.5)
    synapses: Synapses = {}
    for source in range(neurons):
        for target in {source + int(step) for step in rng.choice([-3, -1, 1, 2, 5], 3)}:
            if 0 <= target < neurons and (target, source) not in synapses:
                synapses[source, target] = kinds[int(rng.random() < 0.2)]
    write(folder / "net.bin", neurons, synapses, weights, undirected)
    core = np.sort(rng.integers(0, cores, neurons)).astype(np.int32)
    rng.shuffle(core[: neurons // 2])
    if undirected:
        synapses |= {(t, s): weight for (s, t), weight in synapses.items()}
    expected = [twin.stored_words(synapses, core.tolist()).get(k, 0) for k in range(cores)]
    with NetworkFile(folder / "net.bin") as network:
        assert list_words(network, core, cores).tolist() == expected
        chip = Chip("c", cores, 1, synapses=999, sharing="offset")
        usage = measure_network(network, chip, core).usage
        assert usage.synapses.tolist() == expected
        assert sum(expected) <= len(synapses)
    reader = SlowReader(folder / "net.bin")
    assert stored_words(reader, core.astype(np.int64), cores).tolist() == expected
    reader.close()


def write_convolution(path: Path, populations: bool = True) -> None:
    """Write 8x8 inputs and four channels of 8x8 neurons, each of 3x3 inputs."""
    places = [(y, x) for y in range(8) for x in range(8)]
    synapses: Synapses = {
        (8 * y + x, 64 + 64 * channel + 8 * b + a): 1.0 + 9 * channel + 3 * (b - y) + (a - x)
        for channel in range(4) for y, x in places for b, a in places
        if abs(b - y) <= 1 and abs(a - x) <= 1
    }  # fmt: skip
    ends = np.array(list(synapses), np.int64)
    with NetworkWriter(path, 320, weights="synapse") as file:
        file.add(ends[:, 0], ends[:, 1], np.array(list(synapses.values())))
        if populations:
            file.set_attribute("population", np.repeat([0, 1], [64, 256]), ["in", "conv"])
        file.finish()


@pytest.mark.parametrize("preset", ["fast", "default", "classic"])
def test_runs_share_lists_of_populations(
    folder: Path, run: Run, fails: Callable[..., str], preset: str
) -> None:
    """1,936 synapses in at most nine cores of 120 words: their lists coincide."""
    write_convolution(folder / "net.bin")
    (folder / "chip.toml").write_text(SHARED.format(120))
    words = ("run", "net.bin", "--chip", "chip.toml", "--preset", preset, "-q")
    assert run(*words, "-o", "out").code == 0
    report = json.loads((folder / "out" / "report.json").read_text())
    assert report["metrics"]["list_words"] < 1936 / 2
    assert run("verify", "out").code == 0
    assert run("score", "net.bin", "out/mapping.npz", "--chip", "chip.toml").code == 0
    report["chip"]["synapses"] = 20
    (folder / "out" / "report.json").write_text(json.dumps(report))
    assert "synapses of 20" in fails("verify", "out")


def test_a_population_that_no_core_holds_is_named(folder: Path, fails: Callable[..., str]) -> None:
    write_convolution(folder / "net.bin")
    (folder / "chip.toml").write_text(SHARED.format(8))
    error = fails("run", "net.bin", "--chip", "chip.toml", "-o", "out", code=3)
    assert "population conv: " in error
    assert "a core holds 8; use cores with more list words" in error


def test_other_networks_count_all_synapses(
    folder: Path, run: Run, fails: Callable[..., str]
) -> None:
    """A mapping within the limit of synapses is within the limit of words."""
    write_convolution(folder / "net.bin", populations=False)
    (folder / "chip.toml").write_text(SHARED.format(120))
    error = fails("run", "net.bin", "--chip", "chip.toml", "-o", "out", code=3)
    assert "needs 1,936 synapses; the chip holds 1,080" in error
    (folder / "chip.toml").write_text(SHARED.format(240))
    assert run("run", "net.bin", "--chip", "chip.toml", "-o", "out", "-q").code == 0
    assert run("verify", "out").code == 0


def test_pins_are_kept(folder: Path, run: Run) -> None:
    write_convolution(folder / "net.bin")
    (folder / "chip.toml").write_text(SHARED.format(260))
    (folder / "pins.toml").write_text("[[pin]]\nneurons = [3, 100]\ncore = 4\n")
    words = ("--constraints", "pins.toml", "-o", "out", "-q")
    assert run("run", "net.bin", "--chip", "chip.toml", *words).code == 0
    assert run("verify", "out").code == 0
