"""Bad input of partitions: one clear line, the right exit code, and no file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import mapper
from mapper.partitions.request import capacity_of
from tests.mapper.conftest import Run

GRAPH = "4 4 010\n9 2 3\n1 1 4\n1 1 4\n1 2 3\n"  # the first vertex weighs 9 of 12


@pytest.fixture
def graph(folder: Path) -> Path:
    Path("g.graph").write_text(GRAPH)
    return Path("g.graph")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--parts", "0"), 2, "argument --parts: '0' is not a whole number of 1 or more"),
        (("--parts", "x"), 2, "argument --parts: 'x' is not a whole number of 1 or more"),
        ((), 2, "the following arguments are required: --parts"),
        (("--parts", "2", "--imbalance", "-0.1"), 2, "imbalance is -0.1; give a number from 0 to"),
        (("--parts", "2", "--imbalance", "nan"), 2, "imbalance is nan; give a number from 0 to"),
        (("--parts", "2", "--imbalance", "inf"), 2, "imbalance is inf; give a number from 0 to"),
        (("--parts", "2", "--imbalance", "x"), 2, "imbalance is 'x'; give a number from 0 to"),
        (("--parts", "2", "--preset", "classic"), 2, "argument --preset: 'classic' is not known"),
        (("--parts", "2", "--workers", "srun"), 2, "--workers srun is for `mapper run`"),
    ],
)
def test_bad_options(words: tuple[str, ...], code: int, said: str, graph: Path, run: Run) -> None:
    found = run("partition", graph, *words)
    assert found.code == code
    assert said in found.err
    assert sorted(path.name for path in Path().iterdir()) == ["g.graph"]


def test_more_parts_than_vertices(graph: Path, fails: Callable[..., str]) -> None:
    said = fails("partition", graph, "--parts", "5", code=3)
    assert said == "5 parts, but the graph has 4 vertices; give at most that many"


def test_a_vertex_heavier_than_a_part(graph: Path, fails: Callable[..., str], run: Run) -> None:
    said = fails("partition", graph, "--parts", "2", code=3)
    assert said == (
        "vertex 0 (from 0) weighs 9, but a part holds 6 with 2 parts and "
        "imbalance 0.03; give fewer parts or an imbalance of 0.5"
    )
    # the advice is enough
    assert run("partition", graph, "--parts", "2", "--imbalance", "0.5", "-q").code == 0
    assert Path("g.graph.part.2").is_file()


def test_weights_that_cannot_be_packed(folder: Path, fails: Callable[..., str]) -> None:
    Path("g.graph").write_text("3 2 010\n2 2\n2 1 3\n2 2\n")  # 2 + 2 > 3
    said = fails("partition", "g.graph", "--parts", "2", "--imbalance", "0", code=3)
    assert "no 2 parts of at most 3 were found: the vertex weights leave too little" in said


def test_a_graph_that_memory_cannot_hold(
    folder: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("g.graph").write_text("4 3\n2\n1 3\n2 4\n3\n")
    monkeypatch.setattr("mapper.planning.memory.INTERPRETER", 300 << 20)
    said = fails("partition", "g.graph", "--parts", "2", "--memory", "256MiB", code=3)
    assert said.startswith("the stage '")
    assert "--memory is 256 MiB" in said
    assert said.endswith("give more memory")


def test_missing_files_and_folders(graph: Path, fails: Callable[..., str]) -> None:
    assert "no.graph" in fails("partition", "no.graph", "--parts", "2")
    assert "nowhere" in fails("partition", graph, "--parts", "2", "-o", "nowhere/parts")
    said = fails("partition", graph, "--parts", "2", "--workdir", "nowhere")
    assert "nowhere" in said


def test_a_faulty_graph_leaves_nothing(folder: Path, fails: Callable[..., str]) -> None:
    Path("g.graph").write_text("3 1\n2\n9\n\n")
    assert "line 3" in fails("partition", "g.graph", "--parts", "2")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"parts": 0}, "parts is 0; give a whole number of 1 or more"),
        ({"parts": 1.5}, "parts is 1.5"),
        ({"parts": True}, "parts is True"),
        ({"imbalance": -1}, "imbalance is -1; give a number"),
        ({"imbalance": float("nan")}, "imbalance is nan"),
        ({"imbalance": "x"}, "imbalance is 'x'"),
        ({"preset": "classic"}, "preset is 'classic'; give fast, default or strong"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"threads": 0}, "threads is 0"),
        ({"memory": "much"}, "memory: "),
        ({"memory": [1]}, "memory is "),
        ({"vertices": "x"}, "vertices is 'x'"),
        ({"columns": {"source": "a"}}, "columns are for a table; leave them out"),
        ({"progress": 1}, "progress is 1; give a function"),
        ({"sizes": [1, 2]}, "2"),
        ({"sizes": [1, 2, -1]}, "negative"),
        ({"graph": "x.graph", "sizes": [1]}, "sizes are for a network without a file"),
        ({"graph": "x.graph", "vertices": 3}, "vertices is for edge lists only"),
        ({"graph": 5}, "network is 5; give"),
    ],
)
def test_bad_arguments(given: dict[str, object], said: str, folder: Path) -> None:
    usual: dict[str, object] = {"graph": ([0, 1], [1, 2]), "parts": 2}
    with pytest.raises(mapper.MapperError) as caught:
        mapper.partition(**(usual | given))  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("weight", "parts", "imbalance", "most"),
    [(100, 2, 0.03, 51), (100, 1, 0.15, 115), (7, 2, 0.0, 4), (0, 3, 0.5, 0), (10, 3, 1.0, 8)],
)
def test_the_capacity_is_exact(weight: int, parts: int, imbalance: float, most: int) -> None:
    assert capacity_of(weight, parts, imbalance) == most
