"""`mapper sweep`: all combinations of a file, one row each."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mapper.portfolio.executor import LocalExecutor
from mapper.portfolio.sweep_file import read_sweep
from mapper.settings import SETTINGS
from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import random_network
from tests.mapper.portfolio.test_portfolio import result

BASE = 'network = "net.bin"\nchip = "4x4"\n'
SMALL = f'{BASE}neurons-per-core = 8\nmemory = "300MiB"\n'


def rows_of(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "sweep.csv").read_text().splitlines()))


def test_all_combinations(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text('network = ["a.bin", "b.bin"]\nchip = "4x4"\nfm-passes = [1, 2]\nseed = "3..4"')
    sweep = read_sweep(path)
    assert sweep.lists == {
        "network": ["a.bin", "b.bin"], "chip": ["4x4"], "fm_passes": [1, 2], "seed": [3, 4],
    }  # fmt: skip
    found = [(one["network"], one["fm_passes"], one["seed"]) for one in sweep.combinations()]
    assert found == [
        ("a.bin", 1, 3), ("a.bin", 1, 4), ("a.bin", 2, 3), ("a.bin", 2, 4),
        ("b.bin", 1, 3), ("b.bin", 1, 4), ("b.bin", 2, 3), ("b.bin", 2, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'network is missing; give one as network = "net.bin"'),
        ('network = "net.bin"', 'chip is missing; give one as chip = "16x16"'),
        (f"{BASE}chips = 1", "unknown key 'chips'; did you mean chip?"),
        (f"{BASE}xyzzy = 1", "unknown key 'xyzzy'; `mapper docs portfolio` lists the keys"),
        (f"{BASE}fill = 0.5\nFill = 0.7", "key fill is repeated; give it once"),
        (f"{BASE}starts = []", "starts: the list is empty; give a value, or leave the key out"),
        (f"{BASE}starts = [2, 2]", "starts: 2 is repeated; give it once"),
        (f"{BASE}starts = 0", "starts: starts is 0; give a whole number, 1 to 1,000"),
        (f"{BASE}starts = [1, true]", "starts: starts is True; give a whole number"),
        (f'{BASE}preset = "fats"', "preset is 'fats'; give fast, default, strong or classic"),
        (f'{BASE}seed = "4..1"', "seed: seeds '4..1': 4..1 is empty; give 1..4"),
        (f"{BASE}seed = [-1]", "seed: seed is -1; give a whole number, 0 to 2^63 - 1"),
        (f'{BASE}memory = "1MiB"', "memory: 1MiB is too small; give at least 256MiB"),
        (f"{BASE}memory = true", "memory: True is not a size"),
        (f"{BASE}neurons-per-core = 0", "neurons-per-core: 0 is not a whole number greater than 0"),
        (f"{BASE}split-neurons = 1", "split-neurons: 1 is not true or false"),
        (f'{BASE}weights-are = "x"', "'x' is not known; choose from rate, synapse"),
        ("network = 1", "network: 1 is not the path of a network"),
        ("network = [", "Invalid value"),
        (f"{BASE}[starts]\na = 1", "starts: starts is {'a': 1}; give a whole number"),
        (f"{BASE}seed = '0..99999'\nstarts = [1, 2]", "has 200,000 runs; give at most 100,000"),
        ('network = "no.bin"\nchip = "4x4"', "network: no.bin is not a file; name a network file"),
        (f'{SMALL}constraints = "no.toml"', "no.toml: cannot read: No such file"),
        (BASE.replace("4x4", "4y4"), "4y4"),
        (
            f'{SMALL}preset = ["fast", "classic"]\nobjective = "core"',
            "preset classic, objective core: the preset classic has no objective core",
        ),
    ],
)
def test_rejected_files(fails: Callable[..., str], folder: Path, text: str, said: str) -> None:
    random_network(folder / "net.bin", 30, 90)
    (folder / "s.toml").write_text(text)
    found = fails("sweep", "s.toml")
    assert said in found
    assert len(found) < 200


def test_unreadable_files(fails: Callable[..., str], folder: Path) -> None:
    assert fails("sweep", "no.toml") == "no.toml: cannot read: No such file or directory"
    (folder / "s.toml").write_bytes(b"\xff")
    assert fails("sweep", "s.toml") == "s.toml: byte 0 is not UTF-8"


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_rows_are_runs(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 100, 500)
    random_network(folder / "other.bin", 60, 300, seed=1)
    text = SMALL.replace('"net.bin"', '["net.bin", "other.bin"]').replace("8", "[8, 2]")
    (folder / "s.toml").write_text(f'{text}preset = "fast"\nseed = [5, 6]\n')
    found = run("sweep", "s.toml", "--json", "-q")
    # 2 neurons per core are not enough
    assert found.code == 1
    rows = rows_of(Path("s-sweep"))
    assert [row["folder"] for row in rows] == [f"run-{number}" for number in range(1, 9)]
    assert [row["state"] for row in rows] == (["done"] * 2 + ["failed"] * 2) * 2
    assert [row["exit_code"] for row in rows] == ["0", "0", "3", "3"] * 2
    assert all(bool(row["error"]) == (row["state"] == "failed") for row in rows)
    assert found.err.count("\n") == 4
    assert set(SETTINGS) < set(rows[0])
    report = json.loads(Path("s-sweep/run-6/report.json").read_text())
    row = rows[5]
    assert (row["network"], row["neurons_per_core"], row["seed"]) == ("other.bin", "8", "6")
    assert float(row["hops"]) == report["metrics"]["hops_total"]
    assert float(row["cut_weight"]) == report["metrics"]["cut_weight"]
    for name, value in report["settings"].items():
        assert row[name] == str(value), name
    # runs are compared within a network and chip: the two groups have no common link
    assert [row["best"] for row in rows].count("true") == 2
    for pair in (rows[0:2], rows[4:6]):
        hops = [float(row["hops"]) for row in pair]
        assert pair[hops.index(min(hops))]["best"] == "true"
    assert not Path("s-sweep/best").is_symlink()
    chip = ("--chip", "4x4", "--neurons-per-core", "8", "--memory", "300MiB")
    line = ("run", "other.bin", *chip, "--preset", "fast", "--seed", "6", "-o", "one", "-q")
    assert run(*line).code == 0
    assert result(Path("s-sweep/run-6")) == result(Path("one"))


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_resumed(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_network(folder / "net.bin", 100, 500)
    (folder / "s.toml").write_text(f'{SMALL}preset = "fast"\nstarts = [1, 2]\nseed = "1..2"\n')
    line = ("sweep", "s.toml", "--json", "-q")
    assert run(*line, "-o", "whole").code == 0
    done: list[str] = []
    genuine = LocalExecutor.outcomes

    def outcomes(self: LocalExecutor, tasks: list[Any]) -> Any:
        for outcome in genuine(self, tasks):
            done.append(outcome.name)
            yield outcome
            if len(done) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(LocalExecutor, "outcomes", outcomes)
    stopped = run(*line, "-o", "out")
    assert (stopped.code, stopped.out) == (130, "")
    assert (
        stopped.err == "mapper sweep: interrupted; repeat the command with --resume to continue\n"
    )
    assert [row["state"] for row in rows_of(Path("out"))] == ["done"] * 2 + ["waiting"] * 2
    assert run(*line, "-o", "out", "--resume", "--keep", "best").code == 0
    assert done == ["run-1", "run-2", "run-3", "run-4"]
    changing = ("seconds", "peak_anon_bytes", "kept")
    first, second = (
        [{k: v for k, v in row.items() if k not in changing} for row in rows_of(Path(name))]
        for name in ("whole", "out")
    )
    assert first == second
    best = next(row["folder"] for row in rows_of(Path("out")) if row["best"] == "true")
    assert [row["folder"] for row in rows_of(Path("out")) if row["kept"] == "true"] == [best]
    assert result(Path("out/best")) == result(Path("whole") / best)
    before = tree(Path("out")).keys()
    assert run(*line, "-o", "out", "--resume", "--keep", "best").code == 0
    assert tree(Path("out")).keys() == before
    assert len(done) == 4
    (folder / "s.toml").write_text(f'{SMALL}preset = "fast"\nstarts = [1, 3]\nseed = "1..2"\n')
    other = run(*line, "-o", "out", "--resume")
    assert (other.code, other.out) == (1, "")
    assert "out: was started with starts [1, 2], now it is [1, 3]; repeat" in other.err


@pytest.mark.jit
def test_a_broken_network_does_not_affect_the_others(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 100, 500)
    (folder / "bad.txt").write_text("what is this\n")
    (folder / "good.txt").write_text("".join(f"{i} {(i * 7) % 50}\n" for i in range(50)))
    text = SMALL.replace('"net.bin"', '["bad.txt", "good.txt", "net.bin"]')
    (folder / "s.toml").write_text(f'{text}preset = "fast"\n')
    found = run("sweep", "s.toml", "-q", "--json")
    assert found.code == 1
    assert found.err.startswith("run-1: failed: ")
    assert "bad.txt" in found.err
    assert [one["state"] for one in found.json()["runs"]] == ["failed", "done", "done"]
    assert Path("s-sweep/run-2/network.bin").is_file()
    assert run("verify", "s-sweep/run-2").code == 0
