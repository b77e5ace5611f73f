"""Contract of partitions: balance, a part for every vertex, exact cut, for graphs of many kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mapper
from mapper.partitions.result import GraphPartition
from tests.mapper.conftest import Run
from tests.mapper.partitions.graphs import SAMPLES, Sample
from tests.reference import cut as reference

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = pytest.mark.jit

PARTS = (1, 2, 3, 7)
CASES = [
    pytest.param(sample, parts, id=f"{sample.name}-{parts}")
    for sample in SAMPLES
    for parts in (*PARTS, sample.vertices)
    if parts <= sample.vertices
]


def arrays(sample: Sample) -> tuple[np.ndarray, ...]:
    return tuple(np.array(sample.edges, np.int64).reshape(-1, 3).T)


def divide(sample: Sample, parts: int, **given: object) -> GraphPartition:
    given = {"threads": 1, "memory": "256MiB", "seed": 3} | given
    return mapper.partition(
        arrays(sample), parts, vertices=sample.vertices, sizes=sample.sizes, **given
    )  # type: ignore[arg-type]


def require_valid(found: GraphPartition, sample: Sample, parts: int, imbalance: str) -> None:
    """Check a partition against the reference."""
    part = found.part.tolist()
    assert len(part) == sample.vertices
    assert set(part) == set(range(parts))  # no part is empty
    weights = reference.part_weights(sample.sizes, part, parts)
    assert found.weights.tolist() == weights
    assert max(weights) <= reference.capacity(sample.sizes, parts, imbalance) == found.capacity
    assert found.cut == reference.cut(sample.edges, part)
    mean = sum(sample.sizes) / parts
    assert found.imbalance == pytest.approx(max(weights) / mean - 1 if mean else 0)


def fits(sample: Sample, parts: int, imbalance: str) -> bool:
    return max(sample.sizes) <= reference.capacity(sample.sizes, parts, imbalance)


@pytest.mark.parametrize("preset", ["fast", "default"])
@pytest.mark.parametrize(("sample", "parts"), CASES)
def test_partitions_are_valid(sample: Sample, parts: int, preset: str, folder: Path) -> None:
    if not fits(sample, parts, "0.3"):
        with pytest.raises(mapper.DoesNotFitError, match="weighs"):
            divide(sample, parts, imbalance=0.3)
        return
    require_valid(divide(sample, parts, imbalance=0.3, preset=preset), sample, parts, "0.3")


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.name)
def test_the_usual_imbalance_holds(sample: Sample, folder: Path) -> None:
    if not fits(sample, 2, "0.03"):
        return
    require_valid(divide(sample, 2), sample, 2, "0.03")


def test_clear_structure_is_found(folder: Path) -> None:
    by_name = {sample.name: sample for sample in SAMPLES}
    assert divide(by_name["disconnected"], 6).cut == 0
    assert divide(by_name["grid"], 2, imbalance=0).cut == 12
    assert divide(by_name["path"], 3).cut == 4
    assert divide(by_name["star"], 2).cut == 25  # half of the vertices are without the centre


@pytest.mark.parametrize("name", ["grid", "heavy vertices"])
def test_threads_do_not_matter(name: str, folder: Path) -> None:
    sample = next(one for one in SAMPLES if one.name == name)
    one, two = (divide(sample, 4, threads=threads, imbalance=0.1).part for threads in (1, 2))
    assert (one == two).all()
    other = divide(sample, 4, seed=4, imbalance=0.1).part
    assert (one != other).any()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: one.name)
def test_the_command_gives_the_same_partition(sample: Sample, run: Run) -> None:
    given = [(u, v, w) for u, v, w in sample.edges if u != v]
    Path("g.graph").write_text(reference.metis_lines(sample.vertices, given, sample.sizes))
    words = ("--parts", "2", "--imbalance", "0.3", "--seed", "3", "--threads", "1")
    found = run("partition", "g.graph", *words, "--memory", "256MiB", "--json", "-o", "parts")
    assert (found.code, found.err) == (0, "")
    part = [int(line) for line in Path("parts").read_text().splitlines()]
    assert sorted(path.name for path in Path().iterdir()) == ["g.graph", "parts"]
    result = found.json()
    assert result["cut"] == reference.cut(given, part)
    assert result["heaviest_part"] == max(reference.part_weights(sample.sizes, part, 2))
    file = mapper.partition("g.graph", 2, imbalance=0.3, seed=3, threads=1, memory="256MiB")
    assert file.part.tolist() == part
    file.save("saved")
    assert Path("saved").read_bytes() == Path("parts").read_bytes()
