"""`--min-fill` and `--spread` of the commands, the page, and cores below the least fill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.mapper.limits.test_constraints import LAYERED

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

CHIP = ("--chip", "4x4", "--neurons-per-core", "8")


@pytest.fixture
def network(folder: Path) -> Path:
    return random_network(folder / "net.bin", 60, 240)


def held(out: str) -> np.ndarray[Any, Any]:
    return np.bincount(np.load(f"{out}/mapping.npz")["core"], minlength=16)


def test_verify_and_score_find_cores_below_the_least_fill(network: Path, run: Run) -> None:
    assert run("run", network, *CHIP, "--min-fill", "0.7", "-o", "out").code == 0
    assert held("out")[held("out") > 0].min() >= 6  # 5.6, rounded up
    assert run("verify", "out").code == 0
    page = Path("out/report.html").read_text()
    assert "min_fill 70.0 %" in page
    report = json.loads(Path("out/report.json").read_text())
    assert report["settings"]["min_fill"] == 0.7
    few = int(held("out")[held("out") > 0].min())
    report["settings"]["min_fill"] = (few + 1) / 8
    Path("out/report.json").write_text(json.dumps(report))
    wrong = run("verify", "out")
    assert wrong.code == 1
    assert f"holds {few} neurons, less than {(few + 1) / 8} of 8" in wrong.err

    words = ("score", network, "out/mapping.npz", *CHIP, "--json", "--min-fill")
    assert run(*words, "0.7").code == 0
    scored = run(*words, str((few + 1) / 8))
    assert scored.code == 1
    below = scored.json()["below_min_fill"]
    assert len(below) == np.count_nonzero(held("out") == few)
    assert below[0] == f"core {int(np.flatnonzero(held('out') == few)[0])} holds {few} neurons " + (
        f"(least {few + 1})"
    )
    assert f"below the least fill: {below[0]}" in scored.err
    found = mapper.score(str(network), "out/mapping.npz", (4, 4), neurons_per_core=8, min_fill=1)
    assert found.below
    assert not found.valid


def test_impossible_fills_are_proven(folder: Path, run: Run) -> None:
    path = random_network(folder / "net.bin", 10, 30)
    for command in ("check", "run"):
        found = run(command, path, *CHIP, "--min-fill", "0.9")
        assert found.code == 3
        assert (
            "min_fill is 0.9: 10 neurons need at least 2 cores, which hold at least 16 neurons"
        ) in found.err
    assert run("check", path, *CHIP, "--min-fill", "0.6").code == 0
    assert not mapper.check(str(path), (4, 4), neurons_per_core=8, min_fill=0.9).fits


@pytest.mark.parametrize("words", [("--min-fill", "1.1"), ("--min-fill", "x")])
def test_shares_out_of_range(words: tuple[str, ...], network: Path, run: Run) -> None:
    for command in (("run", network), ("score", network, "none.npz")):
        found = run(*command, *CHIP, *words)
        assert (found.code, found.out) == (2, "")
        assert "min_fill is" in found.err


@pytest.mark.parametrize("preset", ["fast", "classic"])
def test_spread_uses_all_cores(preset: str, network: Path, run: Run) -> None:
    words = (network, *CHIP, "--preset", preset, "--spread")
    assert run("run", *words, "-o", "out").code == 0
    assert held("out").min() > 0
    assert held("out").max() <= 4  # 60 / 16 / 0.97
    assert "least fill " in Path("out/report.html").read_text()
    assert run("run", *words, "--cores", "10", "--force", "-o", "out").code == 0
    assert np.count_nonzero(held("out")) == 10
    assert held("out").max() <= 7  # 60 / 10 / 0.97
    assert run("verify", "out").code == 0
    found = mapper.map_network(
        str(network), (4, 4), neurons_per_core=8, preset="fast", spread="yes"
    )
    assert np.unique(found.core).size == 16


def test_fewer_neurons_than_cores(folder: Path, run: Run) -> None:
    path = random_network(folder / "net.bin", 9, 30)
    assert run("run", path, *CHIP, "--spread", "-o", "out").code == 0
    assert held("out").max() == 1


@pytest.mark.heavy
@pytest.mark.parametrize("words", [("--min-fill", "0.8"), ("--spread",)])
def test_regions_and_groups(words: tuple[str, ...], folder: Path, run: Run) -> None:
    path = random_network(folder / "net.bin", 10_000, 40_000)
    Path("c.toml").write_text(LAYERED)
    chip = (path, "--chip", "8x8", "--neurons-per-core", "180", "--constraints", "c.toml")
    found = run("run", *chip, *words, "--preset", "fast", "-o", "out")
    assert found.code == 0, found
    assert run("verify", "out").code == 0
    count = np.bincount(np.load("out/mapping.npz")["core"], minlength=64)
    assert count[count > 0].min() >= (144 if words[0] == "--min-fill" else 1)
    assert count.max() <= (180 if words[0] == "--min-fill" else 162)
