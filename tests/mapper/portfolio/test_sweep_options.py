"""`mapper sweep` without a file, and options that replace keys of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.mapper.portfolio.test_sweep import rows_of

SMALL = ("--neurons-per-core", "8", "--memory", "300MiB", "--threads", "1", "-q")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_the_same_runs_as_with_a_file(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 100, 500)
    (folder / "s.toml").write_text(
        'network = "net.bin"\nchip = ["4x4", "13x1"]\nneurons-per-core = 8\npreset = "fast"\n'
        'starts = [1, 2]\nseed = "1..2"\n'
    )
    words = ("--chip", "4x4", "13x1", "--preset", "fast", "--set", "starts=1,2", "--seeds", "1..2")
    assert run("sweep", "net.bin", *words, *SMALL).code == 0
    assert run("sweep", "s.toml", *SMALL[2:], "-o", "file").code == 0
    changing = ("seconds", "peak_anon_bytes")
    first, second = (
        [{k: v for k, v in row.items() if k not in changing} for row in rows_of(Path(name))]
        for name in ("net-sweep", "file")
    )
    assert first == second
    assert len(first) == 8
    replaced = run("sweep", "s.toml", *SMALL, "--chip", "5x5", "--seeds", "7", "-o", "other")
    assert replaced.code == 0
    rows = rows_of(Path("other"))
    assert [(row["chip"], row["starts"], row["seed"]) for row in rows] == [
        ("5x5", "1", "7"), ("5x5", "2", "7"),
    ]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.jit
def test_the_front_spans_chips(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 100, 500)
    words = ("--chip", "4x4", "20x1", "--neurons-per-core", "8", "20", "--preset", "fast")
    found = run("sweep", "net.bin", *words, *SMALL[2:], "--json")
    assert found.code == 0
    runs = json.loads(found.out)["runs"]
    points = [
        tuple(one["figures"][name] for name in ("hops", "cores_used", "link_load_max"))
        for one in runs
    ]
    for one, point in zip(runs, points, strict=True):
        beaten = any(
            other != point and all(a <= b for a, b in zip(other, point, strict=True))
            for other in points
        )
        assert one["front"] == (not beaten)
    assert {row["front"] for row in rows_of(Path("net-sweep"))} == {"true", "false"}
    shown = run("sweep", "net.bin", *words, *SMALL[2:-1], "--resume")
    assert shown.code == 0
    for word in ("Pareto front by hops, cores and busiest link", "best", "front"):
        assert word in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("net.bin", "--chip is missing; give one or more, such as --chip 8x8 16x16"),
        ("net.bin --chip 4x4 --preset fats", "--preset: preset is 'fats'; give fast, default"),
        ("net.bin --chip 4x4 4x4", "--chip: '4x4' is repeated; give it once"),
        ("net.bin --chip 4x4 --seeds 4..1", "--seeds: seeds '4..1': 4..1 is empty; give 1..4"),
        ("net.bin --chip 4x4 --set starts=1,x", "starts is 'x'; give a whole number"),
        ("net.bin --chip 4x4 --set starts", "expected NAME=VALUE"),
        ("net.bin --chip 4x4 --set seed=1", "seed is not a method setting; use --seed"),
        ("net.bin --chip 4x4 --set starts=1 starts=2", "--set: duplicate starts"),
        (
            "net.bin --chip 4x4 --objective cut --set objective=core",
            "--set: duplicate objective; give its values once",
        ),
        ("s.toml net.bin --chip 4x4", "s.toml: give a TOML file alone; it names the networks"),
        (
            "net.bin --chip 4x4 --seeds 0..99999 --set starts=1,2",
            "has 200,000 runs; give at most 100,000",
        ),
    ],
)
def test_wrong_options(words: str, said: str, run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 30, 90)
    found = run("sweep", *words.split(), "-o", "out")
    assert found.code == 2
    assert found.err.startswith("mapper sweep: ")
    assert said in found.err
    assert found.err.count("\n") == 1
    assert not Path("out").exists()


def test_files_that_are_missing(run: Run, folder: Path) -> None:
    found = run("sweep", "no.bin", "--chip", "4x4")
    assert (found.code, found.err) == (
        1, "mapper sweep: options: network: no.bin is not a file; name a network file\n"
    )  # fmt: skip
