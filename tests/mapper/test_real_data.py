"""Real graphs end to end: a valid mapping of the expected quality."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize(
    ("name", "chip", "capacity", "hops"),
    [
        ("graphs/4elt.graph", "16x16", 63, 18_000),
        ("graphs/wing.graph", "16x16", 250, None),
        ("graphs/fe_body.graph", "16x16", 180, None),
        ("connectomes/larva_subset_edgelist.csv", "8x8", 50, None),
    ],
)
def test_mapping(
    data_dir: Path, run: Run, name: str, chip: str, capacity: int, hops: int | None
) -> None:
    source = data_dir / name
    if not source.exists():
        pytest.skip(f"{name} is not there")
    cores = ("--chip", chip, "--neurons-per-core", str(capacity))
    found = run("run", source, *cores, "--seed", "1", "-o", "out", "--json", "-q")
    assert found.code == 0, found.err
    metrics = found.json()["metrics"]
    assert hops is None or metrics["hops_total"] < hops
    assert metrics["core_fill_max"] <= 1
    assert metrics["hops_mean"] < 4
    verified = run("verify", "out", "--json")
    assert verified.code == 0, verified.err
    assert verified.json()["hops_total"] == pytest.approx(metrics["hops_total"])
