"""`from_nir` and `to_nir`, and the primitives that the page on NIR promises."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from tests.mapper.conftest import Run
from tests.mapper.spiking.graphs import INPUTS, save_graph

nir = pytest.importorskip("nir", reason="needs nir")

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto" / "nir.md"
SIZE = 4
ONES = np.ones(SIZE)
EYE = 2 * np.eye(SIZE)
PLANE = {"input": np.array([1, 4, 4])}


def neurons(size: int = SIZE) -> Any:
    ones = np.ones(size)
    return nir.LIF(tau=8 * ones, r=ones, v_leak=0 * ones, v_threshold=ones)


def conv(two: bool) -> Any:
    more = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": np.ones(2)}
    if two:
        return nir.Conv2d(input_shape=(4, 4), weight=np.ones((2, 1, 3, 3)), **more)
    return nir.Conv1d(input_shape=4, weight=np.ones((2, 1, 3)), **more)


def pool(kind: Any) -> Any:
    two = np.array([2, 2])
    return kind(kernel_size=two, stride=two, padding=np.array([0, 0]))


def nested() -> Any:
    ends = {
        "input": nir.Input({"input": np.array([SIZE])}),
        "fc": nir.Linear(EYE),
        "output": nir.Output({"output": np.array([SIZE])}),
    }
    return nir.NIRGraph(ends, [("input", "fc"), ("fc", "output")])


CUBA = {"tau_syn": 4 * ONES, "tau_mem": 8 * ONES, "r": ONES, "v_leak": 0 * ONES}
# nodes between the input and the output, and the shape of the input
CHAINS: dict[str, tuple[tuple[int, ...], list[Callable[[], Any]]]] = {
    "Affine": ((SIZE,), [lambda: nir.Affine(EYE, 0.1 * ONES), neurons]),
    "AvgPool2d": ((1, 4, 4), [lambda: pool(nir.AvgPool2d), lambda: flat((1, 2, 2)), neurons]),
    "Conv1d": ((1, 4), [lambda: conv(False), lambda: flat((2, 2)), neurons]),
    "Conv2d": ((1, 4, 4), [lambda: conv(True), lambda: flat((2, 2, 2)), lambda: neurons(8)]),
    "CubaLI": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.CubaLI(**CUBA)]),
    "CubaLIF": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.CubaLIF(**CUBA, v_threshold=ONES)]),
    "Delay": ((SIZE,), [lambda: nir.Delay(2 * ONES), lambda: nir.Linear(EYE), neurons]),
    "Flatten": ((2, 2), [lambda: flat((2, 2)), lambda: nir.Linear(EYE), neurons]),
    "I": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.I(ONES)]),
    "IF": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.IF(ONES, ONES)]),
    "Input": ((SIZE,), [lambda: nir.Linear(EYE), neurons]),
    "LI": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.LI(8 * ONES, ONES, 0 * ONES)]),
    "LIF": ((SIZE,), [lambda: nir.Linear(EYE), neurons]),
    "Linear": ((SIZE,), [lambda: nir.Linear(EYE), neurons]),
    "NIRGraph": ((SIZE,), [nested, neurons]),
    "Output": ((SIZE,), [lambda: nir.Linear(EYE), neurons]),
    "Scale": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.Scale(2 * ONES), neurons]),
    "SumPool2d": ((1, 4, 4), [lambda: pool(nir.SumPool2d), lambda: flat((1, 2, 2)), neurons]),
    "Threshold": ((SIZE,), [lambda: nir.Linear(EYE), lambda: nir.Threshold(0.5 * ONES)]),
}


def flat(shape: tuple[int, ...]) -> Any:
    return nir.Flatten(input_type={"input": np.array(shape)}, start_dim=0, end_dim=-1)


def graph_with(primitive: str) -> Any:
    shape, chain = CHAINS[primitive]
    inside = {f"node{at}": create() for at, create in enumerate(chain)}
    last = list(inside.values())[-1]
    nodes = {
        "input": nir.Input({"input": np.array(shape)}),
        **inside,
        "output": nir.Output({"output": np.array(next(iter(last.output_type.values())))}),
    }
    return nir.NIRGraph(nodes, list(pairwise(nodes)))


def kinds_of(graph: Any) -> set[str]:
    return {type(node).__name__ for node in graph.nodes.values()}


def test_the_page_lists_all_primitives() -> None:
    known = vars(nir.ir).values()
    base = nir.ir.NIRNode
    names = {one.__name__ for one in known if isinstance(one, type) and issubclass(one, base)}
    assert names - {"NIRNode"} == CHAINS.keys() == rows().keys()


def rows() -> dict[str, list[str]]:
    """Return the cells of the page's table by primitive."""
    section = PAGE.read_text().partition("## Supported primitives")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (\w+) \| (.*) \| (.*) \| (.*) \|$", section, re.MULTILINE)
    return {name: cells for name, *cells in lines if name != "primitive"}


@pytest.mark.parametrize("primitive", CHAINS)
def test_a_primitive_is_read_and_written(primitive: str, folder: Path) -> None:
    network, cores, written = rows()[primitive]
    graph = graph_with(primitive)
    assert primitive in kinds_of(graph)
    found = mapper.import_network(graph)
    assert found.synapses > 0
    if network == "neurons":
        assert found.neurons > SIZE
    assert cores.startswith("yes")
    compiled = mapper.from_nir(graph, "2x2", tick_length=1.0)
    back = kinds_of(mapper.to_nir(compiled))
    if written.startswith("no"):
        assert primitive not in back
    else:
        assert back & set(re.findall(r"[A-Z]\w*", written))


def test_a_compiled_model(folder: Path, run: Run) -> None:
    """From a graph or its file, and back as the command writes it."""
    save_graph(Path("model.nir"))
    spikes = np.random.default_rng(1).random((3, 20, INPUTS)) < 0.3
    loose: dict[str, Any] = {"tick_length": 1e-3, "max_loss": 100, "min_agreement": 0}
    of_file = mapper.from_nir("model.nir", "2x2", calibrate=spikes, output="out", **loose)
    of_graph = mapper.from_nir(nir.read("model.nir"), "2x2", calibrate=spikes, **loose)
    same = mapper.compile_model("model.nir", "2x2", calibrate=spikes, **loose)
    wanted = same.simulate(spikes).outputs["output"].counts
    for found in (of_file, of_graph):
        assert (found.simulate(spikes).outputs["output"].counts == wanted).all()
    assert run("export", "out", "back.nir").code == 0
    written = nir.read("back.nir")
    for given in (of_file, "out"):
        back = mapper.to_nir(given)
        assert back.nodes.keys() == written.nodes.keys() and back.edges == written.edges
        assert (back.nodes["weights0"].weight == written.nodes["weights0"].weight).all()
    again = mapper.from_nir(back, "2x2", weight_bits=of_file.weight_bits, tick_length=1e-3)
    assert (again.simulate(spikes).outputs["output"].counts == wanted).all()


def test_a_mapping(folder: Path) -> None:
    graph = graph_with("Affine")
    mapping = mapper.map_network(graph, "2x2", neurons_per_core=3)
    nir.write("source.nir", graph)
    for given in (graph, "source.nir"):
        back = mapper.to_nir(mapping, graph=given)
        assert back.nodes["node1"].metadata["core"].tolist() == mapping.core[SIZE:].tolist()
        assert (back.nodes["node0"].weight == EYE).all()
    per_core = mapper.to_nir(mapping)
    assert sum(name.startswith("core_") for name in per_core.nodes) >= 3
    edges = (np.array([0, 1]), np.array([1, 2]))
    traffic = mapper.map_network(edges, "2x2", neurons_per_core=2)
    assert kinds_of(mapper.to_nir(traffic, threshold=1.0, magnitudes=True)) >= {"IF", "Linear"}


REFUSED: list[tuple[type[mapper.MapperError], str, Callable[[Any], Any]]] = [
    (mapper.UsageError, "graph is 3; give a nir.NIRGraph",
     lambda mapping: mapper.from_nir(3, "2x2")),
    (mapper.UsageError, "bits: applies to ONNX models only", lambda mapping: mapper.from_nir(
        graph_with("LIF"), "2x2", bits=8)),
    (mapper.MapperError, "none.nir: cannot read",
     lambda mapping: mapper.from_nir("none.nir", "2x2")),
    (mapper.UsageError, "the first argument is 3", lambda mapping: mapper.to_nir(3)),
    (mapper.UsageError, "graph is 3; give a nir.NIRGraph", lambda mapping: mapper.to_nir(
        mapping, graph=3)),
    (mapper.MapperError, "graph: is not the source graph of the mapping",
     lambda mapping: mapper.to_nir(mapping, graph=graph_with("Conv2d"))),
    (mapper.UsageError, "graph has its own thresholds; leave out threshold",
     lambda mapping: mapper.to_nir(mapping, graph=graph_with("LIF"), threshold=1.0)),
    (mapper.UsageError, "memory: 'x' is not a size", lambda mapping: mapper.to_nir(
        mapping, memory="x")),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said", "call"), REFUSED, ids=range(len(REFUSED)))
def test_refused(
    error: type[Exception], said: str, call: Callable[[Any], Any], folder: Path
) -> None:
    mapping = mapper.map_network(graph_with("LIF"), "2x2", neurons_per_core=4)
    with pytest.raises(mapper.MapperError) as caught:
        call(mapping)
    assert type(caught.value) is error
    assert said in str(caught.value) and "--" not in str(caught.value)
    assert "tmp" not in str(caught.value).replace(str(folder.parent), "")
