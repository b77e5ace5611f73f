"""Mapping from Python: what can be given, what comes back; and `mapper run` gives the same."""

from __future__ import annotations

import copy
import gc
import json
import multiprocessing
import pickle
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import mapper
from mapper.cli.main import main
from mapper.errors import DoesNotFitError, MapperError, UsageError
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import random_network

# Kernels have twins of their own; what is around them does the same with the JIT off.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md"
SMALL: dict[str, Any] = {"neurons_per_core": 4, "threads": 1, "memory": "300MiB"}
OPTIONS = ("--neurons-per-core", "4", "--threads", "1", "--memory", "300MiB", "--seed", "3")


@pytest.fixture
def edges(folder: Path) -> tuple[np.ndarray[Any, Any], ...]:
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, (2, 200))
    source[0], target[0] = 49, 0
    return source, target, rng.integers(1, 6, 200)


def synapses_of(path: Path) -> dict[tuple[int, int], float]:
    with NetworkFile(path) as network:
        found = {}
        for index in range(network.block_count):
            indptr, ids, weights = network.read_outgoing(index)
            first = network.block_bounds(index)[0]
            source = np.repeat(np.arange(indptr.size - 1) + first, np.diff(indptr))
            rows = zip(source.tolist(), ids.tolist(), weights.tolist(), strict=True)
            found.update({(s, t): w * network.meta.weight_unit for s, t, w in rows})
        return found


def test_a_path_gives_what_run_gives(run: Run, folder: Path) -> None:
    path = random_network(folder / "net.bin", 50, 200)
    report = run("run", path, "--chip", "4x4", *OPTIONS, "-o", "run", "--json").json()
    for network in (path, str(path)):
        mapping = mapper.map_network(network, "4x4", seed=3, **SMALL)
        assert mapping.metrics == report["metrics"]
    with NetworkFile(path) as network:
        mapping = mapper.map_network(network, mapper.Chip("4x4", 4, 4), seed=3, **SMALL)
        assert network.read_block(0).vertices == 50  # it is still open
    assert mapping.save("api") == Path("api")
    assert sorted(p.name for p in Path("api").iterdir()) == [
        "mapping.npz", "report.html", "report.json", "run.log", "traffic.npz",
    ]  # fmt: skip
    assert Path("api/traffic.npz").read_bytes() == Path("run/traffic.npz").read_bytes()
    assert Path("api/mapping.npz").read_bytes() == Path("run/mapping.npz").read_bytes()
    saved = json.loads(Path("api/report.json").read_text())
    assert saved == mapping.to_json()
    changing = ("stages", "resources")
    assert saved.keys() == report.keys() - {"output", "command"}
    for part in saved.keys() - set(changing):
        assert saved[part] == report[part], part
    assert saved["resources"].keys() == report["resources"].keys()
    assert "coarsen" in Path("api/run.log").read_text()
    assert run("verify", "api").code == 0


def test_the_report_page(folder: Path, run: Run) -> None:
    """It is the one that `mapper report` makes of the saved folder."""
    path = random_network(folder / "net.bin", 50, 200)
    mapping = mapper.map_network(path, "4x4", **SMALL)
    page = mapping.report("same.html").read_bytes()
    assert f'<data value="{mapping.metrics["hops_mean"]}">'.encode() in page
    mapping.save("same")
    assert Path("same/report.html").read_bytes() == page
    assert run("report", "same").code == 0
    assert Path("same/report.html").read_bytes() == page
    with pytest.raises(mapper.MapperError, match=r"none/page.html: "):
        mapping.report("none/page.html")


def test_arrays(folder: Path, edges: tuple[Any, ...]) -> None:
    mapping = mapper.map_network(edges, "4x4", **SMALL)
    assert (mapping.core.dtype, mapping.core.shape) == (np.int32, (50,))
    assert np.array_equal(mapping.y * 4 + mapping.x, mapping.core)
    assert mapping.x.max() < 4
    assert np.bincount(mapping.core).max() <= 4
    assert (mapping.nodes, mapping.interrupted) == (None, False)
    assert (mapping.chip.neurons, mapping.settings.preset) == (4, "default")
    assert mapping.to_json()["network"]["path"] is None


@pytest.mark.parametrize("form", ["arrays", "csr", "bsr", "networkx", "lists"])
def test_every_form_is_the_same_network(
    form: str, folder: Path, edges: tuple[Any, ...], run: Run
) -> None:
    source, target, weight = edges
    expected: dict[tuple[int, int], float] = {}
    for s, t, w in zip(*(array.tolist() for array in edges), strict=True):
        if s != t:
            expected[s, t] = expected.get((s, t), 0) + w
    network: Any = edges
    if form in ("csr", "bsr"):
        network = scipy.sparse.coo_array((weight, (source, target)), (50, 50)).asformat(form)
    elif form == "networkx":
        nx = pytest.importorskip("networkx")
        network = nx.DiGraph()
        network.add_nodes_from(range(50))
        network.add_weighted_edges_from((s, t, w) for (s, t), w in expected.items())
    elif form == "lists":
        network = [array.tolist() for array in edges]
    mapping = mapper.map_network(network, "4x4", **SMALL)
    mapping.save("out")
    assert synapses_of(Path("out/network.bin")) == expected
    assert run("verify", "out").code == 0
    assert json.loads(Path("out/report.json").read_text())["network"]["path"] == str(
        Path("out/network.bin").resolve()
    )


def test_an_undirected_graph_and_its_nodes(folder: Path) -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    graph.add_edge("b", "a", weight=2.5)
    graph.add_edge("a", "c")
    graph.add_edge("c", "c")
    mapping = mapper.map_network(graph, "2x2", **SMALL)
    assert mapping.nodes == ["b", "a", "c"]
    facts = mapping.to_json()["network"]
    assert (facts["undirected"], facts["synapses"], facts["weight_total"]) == (True, 2, 3.5)
    assert facts["self_loops"] == 1


def test_ids_of_a_file_with_gaps(folder: Path) -> None:
    Path("a.txt").write_text("3 500\n500 9\n")
    mapping = mapper.map_network("a.txt", "2x2", **SMALL)
    assert mapping.nodes is not None
    assert list(mapping.nodes) == [3, 9, 500]


def test_sizes_rates_and_more_neurons(folder: Path) -> None:
    network = (np.array([0, 1]), np.array([1, 2]))
    mapping = mapper.map_network(
        network, "4x4", neurons=6, sizes=[4, 4, 4, 2, 2, 1], rates=np.arange(6) / 4, **SMALL
    )
    used = np.bincount(mapping.core, [4, 4, 4, 2, 2, 1])
    assert used.max() == 4
    mapping.save("out")
    with NetworkFile(Path("out/network.bin")) as file:
        assert file.attribute("rate").values.tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]


def test_constraints_splitting_and_settings(folder: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    network = (rng.integers(0, 30, 300), np.zeros(300, np.int64) + rng.integers(0, 2, 300) * 7)
    Path("constraints.toml").write_text('[[pin]]\nneurons = [5, 6]\ncore = "1,2"\n')
    mapping = mapper.map_network(
        network, "4x4", synapses_per_core=20, split_neurons=True, constraints="constraints.toml",
        preset="fast", hop_passes=0, threads=1,
    )  # fmt: skip
    assert mapping.core[[5, 6]].tolist() == [9, 9]
    assert mapping.core.size == 30
    assert mapping.to_json()["split"]["helpers"] > 0
    assert (mapping.settings.preset, mapping.settings.hop_passes) == ("fast", 0)
    mapping.save("out")
    assert run("verify", "out").code == 0
    assert Path("out/constraints.toml").read_bytes() == Path("constraints.toml").read_bytes()


def test_progress_and_silence(
    folder: Path, edges: tuple[Any, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, float]] = []
    mapper.map_network(edges, "4x4", progress=lambda *told: seen.append(told), **SMALL)
    stages = [stage for stage, fraction in seen if fraction == 0]
    assert stages[:2] == ["compile kernels", "import"]
    assert stages[-1] == "score"
    for stage in stages:
        assert (stage, 1.0) in seen
    assert all(0 <= fraction <= 1 for _, fraction in seen)
    assert capfd.readouterr() == ("", "")


def test_progress_may_end_the_run(folder: Path, edges: tuple[Any, ...]) -> None:
    class EnoughError(Exception):
        pass

    def stop(stage: str, fraction: float) -> None:
        if stage == "score":
            raise EnoughError

    with pytest.raises(EnoughError):
        mapper.map_network(edges, "4x4", progress=stop, **SMALL)


def test_temporary_files_go_with_the_mapping(folder: Path, edges: tuple[Any, ...]) -> None:
    work = folder / "work"
    work.mkdir()
    mapping = mapper.map_network(edges, "4x4", workdir=work, **SMALL)
    assert list(work.iterdir()) == []  # its network is there, but has no name
    mapping.save("kept")
    assert Path("kept/network.bin").is_file()
    del mapping
    assert tree(work) == {}
    path = random_network(folder / "net.bin", 50, 200)
    mapper.map_network(path, "4x4", workdir=work, **SMALL)
    assert tree(work) == {}


def skip_kernels() -> None:
    """In a worker: kernels are compiled when they are used, as everywhere in the tests."""
    import mapper.warmup

    mapper.warmup.compile_kernels = lambda *given, **named: None  # type: ignore[assignment]


def test_mappings_of_worker_processes(folder: Path, edges: tuple[Any, ...]) -> None:
    """They are whole, though the worker and its files are gone."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=skip_kernels) as pool:
        mapping = pool.submit(mapper.map_network, edges, "4x4", **SMALL).result()
    again = pickle.loads(pickle.dumps(copy.deepcopy(mapping)))
    whole = mapper.map_network(edges, "4x4", **SMALL)
    for name, found in (("here", whole), ("out", mapping), ("again", again)):
        found.save(name)
        assert main(["verify", name, "-q", "--json"]) == 0
        assert Path(name, "network.bin").read_bytes() == Path("here/network.bin").read_bytes()
        assert (found.core == mapping.core).all() or found is whole


def test_saving_does_not_replace(folder: Path, edges: tuple[Any, ...]) -> None:
    mapping = mapper.map_network(edges, "4x4", **SMALL)
    mapping.save("out")
    before = tree(folder)
    with pytest.raises(MapperError, match="out: exists"):
        mapping.save("out")
    assert tree(folder) == before
    mapping.save("out", force=True)
    assert tree(folder) == before


def test_columns_of_a_table(folder: Path) -> None:
    rows = [f"{a},a,{b},b,{a + b}\n" for a in range(4) for b in range(4)]
    (folder / "a.csv").write_text("x,of x,y,of y,n\n" + "".join(rows))
    columns = {
        "source": "x", "target": "y", "weight": "n",
        "source-population": "of x", "target-population": "of y",
    }  # fmt: skip
    mapping = mapper.map_network(folder / "a.csv", "2x2", columns=columns, **SMALL)
    network = mapping.to_json()["network"]
    assert (mapping.core.size, network["columns"]) == (8, columns)
    assert mapping.nodes is not None
    assert list(mapping.nodes) == [(name, i) for name in "ab" for i in range(4)]
    (folder / "b.csv").write_text("source,target\nn1,n2\nn2,n3\n")
    assert mapper.map_network(folder / "b.csv", "2x2", **SMALL).nodes == ["n1", "n2", "n3"]


def test_shown_as_a_table(folder: Path, edges: tuple[Any, ...]) -> None:
    chip = mapper.Chip("<b>&", 4, 4, neurons=4)
    mapping = mapper.map_network(edges, chip)
    shown = mapping._repr_html_()
    assert shown.startswith("<table>")
    assert "&lt;b&gt;&amp;, 4x4 cores" in shown
    assert "<b>" not in shown
    assert re.search(r">neurons</th><td[^>]*>50</td>", shown)
    assert repr(mapping).startswith("<NetworkMapping: 50 neurons on ")


ONE = np.array([0])
BAD: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ("nowhere.bin", {}, MapperError, r"nowhere\.bin"),
    (".", {}, UsageError, "is a folder"),
    (7, {}, UsageError, r"network is a builtins\.int; give a path"),
    (np.eye(3), {}, UsageError, r"network is a numpy\.ndarray; give a path"),
    ((ONE,), {}, UsageError, "give a path"),
    ((ONE, [0, 1]), {}, UsageError, "1 sources, 2 targets; a synapse has one of each"),
    ((ONE, [0.5]), {}, UsageError, "target is float64"),
    ((ONE, [[0]]), {}, UsageError, r"target is int64 of shape \(1, 1\)"),
    ((ONE, ["a"]), {}, UsageError, "give whole numbers"),
    ((ONE, ONE, ["a"]), {}, UsageError, "weight is <U1"),
    (
        (ONE, -ONE - 1),
        {},
        UsageError,
        r"target of entry 0 \(from 0\): -1 is negative; ids are 0 or more",
    ),
    ((ONE, ONE + 1), {"columns": {"source": "a"}}, UsageError, "columns are those of a table"),
    ("a.csv", {"columns": {"colour": "a"}}, UsageError, "columns: 'colour': 'a'; give names by"),
    ("a.csv", {"columns": "source=a"}, UsageError, "columns is 'source=a'; give names by what"),
    ((ONE, ONE + 5), {"neurons": 3}, MapperError, r"id 5 is outside 0\.\.2"),
    ((ONE, ONE + 1, [np.nan]), {}, MapperError, "weight"),
    (([], []), {}, UsageError, "no neurons; a network needs at least one"),
    ((ONE, ONE + 1), {"sizes": [1]}, MapperError, "1 values for 2 neurons"),
    ((ONE, ONE + 1), {"sizes": [1, 2.5]}, MapperError, "whole numbers"),
    (scipy.sparse.coo_array((2, 3)), {}, UsageError, "2 x 3; a network needs a square one"),
    (scipy.sparse.coo_array(np.eye(3) * 1j), {}, UsageError, "weight is complex128"),
    (scipy.sparse.eye_array(3), {"neurons": 3}, UsageError, "neurons is for"),
    ((ONE, ONE + 1), {"chip": "loihii"}, MapperError, "chip 'loihii' is unknown"),
    ((ONE, ONE + 1), {"chip": 3}, UsageError, "chip is 3; give"),
    ((ONE, ONE + 1), {"chip": "none.toml"}, MapperError, "none.toml does not exist"),
    ((ONE, ONE + 1), {"preset": "best"}, UsageError, "preset 'best' is not known"),
    ((ONE, ONE + 1), {"colour": 1}, UsageError, "there is no setting 'colour'$"),
    (
        (ONE, ONE + 1),
        {"hop_pases": 1},
        UsageError,
        "no setting 'hop_pases'; did you mean hop_passes",
    ),
    ((ONE, ONE + 1), {"seed": "a"}, UsageError, "seed is 'a'; give a whole number$"),
    ((ONE, ONE + 1), {"seed": 1.5}, UsageError, "seed is 1.5; give a whole number$"),
    ((ONE, ONE + 1), {"seed": None}, UsageError, "seed is None; give a whole number$"),
    ((ONE, ONE + 1), {"starts": True}, UsageError, "starts is True; give a whole number, 1 to"),
    ((ONE, ONE + 1), {"degree": "9"}, UsageError, "degree is '9'; give a whole number, 8 to"),
    (
        (ONE, ONE + 1),
        {"stop_shrink": "a"},
        UsageError,
        "stop_shrink is 'a'; give a number, 0.001 to 1",
    ),
    ((ONE, ONE + 1), {"threads": "2"}, UsageError, "threads is '2'; give a whole number"),
    ((ONE, ONE + 1), {"threads": 0}, UsageError, "threads is 0; give a whole number of 1 or more"),
    ((ONE, ONE + 1), {"memory": [1]}, UsageError, r"memory is \[1\]; give bytes, or a text"),
    ((ONE, ONE + 1), {"constraints": {"pin": []}}, UsageError, "give the path of a TOML file"),
    ((ONE, ONE + 1), {"split_neurons": "yes"}, UsageError, "split_neurons is 'yes'; give True"),
    ((ONE, ONE + 1), {"neurons": "3"}, UsageError, "neurons is '3'; give a whole number"),
    ((ONE, ONE + 1), {"progress": 3}, UsageError, "progress is 3; give a function"),
    ((ONE, ONE + 1), {"workdir": 3}, UsageError, "workdir is 3; give the path"),
    ((ONE, ONE + 1), {"objective": "speed"}, UsageError, "objective is 'speed'"),
    ((ONE, ONE + 1), {"memory": "much"}, UsageError, "memory: 'much' is not a size"),
    ((ONE, ONE + 1), {"neurons_per_core": 0}, MapperError, "neurons is 0"),
    ((ONE, ONE + 1), {"constraints": "none.toml"}, MapperError, "none.toml: cannot read"),
    ((ONE, ONE + 1), {"workdir": "nowhere"}, MapperError, "nowhere"),
    ((ONE, ONE + 1), {"sizes": [9000, 1]}, DoesNotFitError, "needs 9,000 neurons"),
]


@pytest.mark.parametrize(("network", "options", "kind", "message"), BAD)
def test_errors(
    network: Any, options: dict[str, Any], kind: type[Exception], message: str, folder: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(kind, match=message) as caught:
        mapper.map_network(network, **({"chip": "4x4"} | options))
    assert "\n" not in str(caught.value)
    assert tree(folder) == {}
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_file_has_sizes_of_its_own(folder: Path) -> None:
    path = random_network(folder / "net.bin", 5, 9)
    with pytest.raises(UsageError, match="sizes are for a network without a file"):
        mapper.map_network(path, "4x4", sizes=[1] * 5)


def test_a_file_is_given_rates(folder: Path) -> None:
    path = folder / "net.csv"
    path.write_text("0,1,9\n1,2,9\n2,0,9\n3,4,9\n4,1,9\n0,3,9\n")
    rates = [4, 0, 2.5, 1, 7]
    mapping = mapper.map_network(path, "2x2", rates=rates, **SMALL)
    mapping.save("out")
    assert mapping.to_json()["network"]["imported_from"] == str(path.resolve())
    assert "<title>net.csv on 2x2" in Path("out/report.html").read_text(encoding="utf-8")
    assert synapses_of(Path("out/network.bin")) == {
        (0, 1): 4, (1, 2): 0, (2, 0): 2.5, (3, 4): 1, (4, 1): 7, (0, 3): 4,
    }  # fmt: skip
    with pytest.raises(MapperError, match="rates are 3; the network has 5 neurons"):
        mapper.map_network(path, "2x2", rates=[1, 2, 3])


def test_a_nir_graph(folder: Path) -> None:
    nir = pytest.importorskip("nir")
    ones = np.ones(4)
    nodes = {
        "input": nir.Input({"input": np.array([3])}),
        "dense": nir.Linear(weight=np.array([[1, 0, 2], [0, 3, 0], [4, 0, 0], [0, 0, -5]])),
        "lif": nir.LIF(tau=ones, r=ones, v_leak=ones, v_threshold=ones),
        "output": nir.Output({"output": np.array([4])}),
    }
    names = list(nodes)
    graph = nir.NIRGraph(nodes, list(pairwise(names)))
    mapping = mapper.map_network(graph, "2x2", **SMALL)
    assert mapping.core.shape == (7,)
    assert mapping.to_json()["network"]["traffic"]["source"] == "uniform"
    mapping.save("uniform")
    assert set(synapses_of(Path("uniform/network.bin")).values()) == {1}
    mapping = mapper.map_network(graph, "2x2", rates="weights", **SMALL)
    assert mapping.to_json()["network"]["traffic"]["source"] == "weights"
    mapping.save("out")
    assert synapses_of(Path("out/network.bin")) == {
        (0, 3): 1, (2, 3): 2, (1, 4): 3, (0, 5): 4, (2, 6): 5,
    }  # fmt: skip
    rated = mapper.map_network(graph, "2x2", rates=np.arange(7), **SMALL)
    assert rated.metrics["cut_weight"] <= 0 + 2 + 1 + 0 + 2
    with pytest.raises(UsageError, match="sizes are for"):
        mapper.map_network(graph, "2x2", sizes=ones)


def test_a_graph_that_makes_no_edges(folder: Path) -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(UsageError, match="graph: no neurons"):
        mapper.map_network(nx.Graph(), "4x4")
    graph = nx.Graph()
    graph.add_edge(0, 1, weight="heavy")
    with pytest.raises(UsageError, match="graph: weight is <U5"):
        mapper.map_network(graph, "4x4")


def test_numbers_of_numpy_are_numbers(edges: tuple[Any, ...]) -> None:
    given = {"seed": np.int64(3), "starts": np.int32(1), "threads": np.int8(1), "memory": 3e8}
    mapping = mapper.map_network(edges, "4x4", neurons_per_core=np.int64(8), **given)
    settings = json.loads(json.dumps(mapping.to_json()))["settings"]
    assert (settings["seed"], settings["starts"], settings["memory_bytes"]) == (3, 1, 300_000_000)


def test_importing_is_light() -> None:
    program = (
        "import sys, mapper; before = set(sys.modules); mapper.map_network; mapper.NetworkMapping;"
        "heavy = {'numba', 'scipy', 'rich', 'networkx'}; print(heavy & set(sys.modules),"
        "'numpy' in before, 'map_network' in dir(mapper), hasattr(mapper, 'nothing'))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("set() False True False\n", "")


def test_the_examples_of_the_docs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("networkx")
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, Any] = {}
    try:
        for block in blocks:
            exec(block, names)
        printed = capsys.readouterr().out.removesuffix("\n")
        promised = re.search(r"print\(error\) +# (.*) \.\.\.\n", blocks[-1])
        assert promised is not None
        assert printed.startswith(promised[1])
        assert "\n" not in printed
    finally:
        names.clear()  # the mappings, and with them their temporary files
        gc.collect()
