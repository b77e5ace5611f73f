"""R4.1: requirements of every pass: legality, gain, unchanged results.

Each pass is also listed in the command line, the ablation and the documentation.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import onnx
import pytest

from mapper.cli.compile_options import list_names
from mapper.compiler.frontend.onnx import ASKED
from mapper.compiler.ir.graph import Graph, View
from mapper.compiler.ir.node import (
    Activation,
    Add,
    Affine,
    Dense,
    Host,
    Node,
    PadMap,
    Pool,
    Upsample,
    Window,
)
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.log import CompileLog
from mapper.compiler.memory.regions import share as share_regions
from mapper.compiler.model import UNFOLDED
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.base import Context, Pass, sweep
from mapper.compiler.transforms.registry import ON_FLOATS, PASSES
from mapper.compiler.transforms.switches import CHANGES_NUMBERS, SWITCHES
from storage.formats.layers.onnxgraph import OnnxNode
from tests.compiler.networks import SAME, Builder, residual
from tests.compiler.quantisation.test_convert import quantised
from tests.compiler.tiling.test_order import shortcut
from tests.compiler.transforms.test_fold import Calls
from tests.compiler.transforms.test_integer_passes import (
    Fewer,
    fire,
    grouped,
    inception,
    pooled,
    unlike,
)
from tests.docs.blocks import DOCS

ORDER = [
    "constants", "input-scale", "pad", "batchnorm", "dense", "siblings", "concat", "pool-first",
    "fuse", "few-channels", "split-groups", "share", "copy",
]  # fmt: skip
"""As in R4.3; after `dense` the graph is quantised."""
POINT = Window((1, 1))
HALF = Window((2, 2), (2, 2))
Make = Callable[[], Graph]


BY_NAME = {one.name: one for one in PASSES}


class Case(NamedTuple):
    """Graphs that a pass changes and must not change, with the reason."""

    changed: Make
    illegal: Make
    why: str


def floats(build: Callable[[Builder], Tensor]) -> Make:
    """Return a maker of a floating-point graph on a map of 8x8 pixels of 6 channels."""

    def make() -> Graph:
        builder = Builder(8, 8, 6, 3)
        return builder.end(build(builder))

    return make


def integers(build: Callable[[], Builder]) -> Make:
    return lambda: quantised(build()).graph


def affine(build: Builder, data: Tensor, offset: float = 0.5) -> Tensor:
    factor = build.constant(build.random.uniform(0.5, 2, data.channels))
    more = build.constant(np.full(data.channels, offset))
    return build.like(Affine(), data, factor, more)


def padded(build: Builder, value: float) -> Tensor:
    made = build.node(PadMap(Pad(1, 1, 2, 0), value), [build.input], (10, 10, 6))
    return build.conv(made, 4, Window((3, 3)))


def dense(build: Builder, value: bool = True) -> Tensor:
    data = build.conv(build.input, 4)
    weights = build.constant(build.random.normal(0, 0.1, (5, 8, 8, 4)))
    if not value:
        weights = build.node(Dense(), [data, weights], (1, 1, 5))
    return build.node(Dense(), [data, weights], (1, 1, 5))


def of_constants(why: str) -> Graph:
    """Return a graph with a host node that doubles constants, and one that adds them to the
    input."""

    def host(taken: tuple[object, ...], made: Tensor, reason: str) -> Node:
        views = [one for one in taken if isinstance(one, View)]
        result = View(made, shape=(1, 6, 8, 8))
        names = ["data", "data" if len(taken) == 1 else "other"]
        node = OnnxNode(onnx.helper.make_node("Add", names, ["sum"], made.name), {})
        given = (taken[0], taken[-1])
        operator = Host(node, given, (result,), reason, (("", 17),))
        return Node(operator, [one.tensor for one in views], [made], (made.name,))

    build = Builder(8, 8, 6, 3)
    doubled, made = Tensor("doubled", (1, 8, 8, 6)), Tensor("made", (1, 8, 8, 6))
    value = build.random.normal(0, 1, (1, 6, 8, 8)).astype(np.float32)
    seen = View(doubled, shape=(1, 6, 8, 8))
    build.graph.nodes = [
        host((value,), doubled, why),
        host((build.graph.inputs["x"], seen), made, "no core computes Pow"),
    ]
    return build.end(made)


def halves() -> Builder:
    build = Builder(9, 9, 3, 5)
    pooled_map = build.pool(build.relu(build.conv(build.input, 8)), Pool("max", HALF))
    build.end(build.conv(pooled_map, 4, POINT))
    return build


def padded_pool() -> Builder:
    build = Builder(9, 9, 3, 5)
    pool = Pool("max", Window((3, 3), (2, 2), Pad(1, 1, 1, 1)))
    build.end(build.conv(build.pool(build.relu(build.conv(build.input, 8)), pool), 4, POINT))
    return build


def mean() -> Builder:
    build = Builder(8, 8, 3, 5)
    build.end(build.pool(build.conv(build.input, 8), Pool("average", HALF)))
    return build


def doubled() -> Builder:
    build = Builder(8, 8, 3, 5)
    build.end(build.node(Upsample(), [build.conv(build.input, 8)], (16, 16, 8)))
    return build


def equal_addends() -> Builder:
    build = Builder(8, 8, 16, 5)
    first = build.relu(build.conv(build.input, 16))
    build.end(build.like(Add(), build.conv(first, 16), build.conv(first, 16)))
    return build


def twice(of_input: bool = False) -> Builder:
    """Build a map in two unrelated concatenations."""
    build = Builder(8, 8, 16, 5)
    first = build.input if of_input else build.relu(build.conv(build.input, 16))
    parts = [build.like(Activation(low=0.0), build.conv(first, 16)) for _ in range(2)]
    left, right = (build.concat(first, part) for part in parts)
    build.end(build.like(Add(), build.conv(left, 16), build.conv(right, 16)))
    return build


def in_two_regions(of_input: bool = False) -> Graph:
    graph = quantised(twice(of_input)).graph
    share_regions(graph, {"int8": 16, "bits": 128}, CompileLog())
    return graph


def unlike_scales() -> Graph:
    graph = quantised(fire()).graph
    concat = next(node for node in graph.nodes if node.kind == "concat")
    concat.inputs[0].scale *= 2
    return graph


CASES = {
    "constants": Case(
        lambda: of_constants(UNFOLDED), lambda: of_constants(ASKED), "kept on the host"
    ),
    "input-scale": Case(
        floats(lambda build: build.conv(affine(build, build.input), 4, Window((3, 3)))),
        floats(lambda build: build.conv(affine(build, build.input), 4)), "the layer pads",
    ),
    "pad": Case(
        floats(lambda build: padded(build, 0.0)), floats(lambda build: padded(build, 1.5)),
        "pads with zeros",
    ),
    "batchnorm": Case(
        floats(lambda build: affine(build, build.conv(build.input, 4))),
        floats(lambda build: affine(build, build.relu(build.conv(build.input, 4)))),
        "follows no layer",
    ),
    "dense": Case(
        floats(dense), floats(lambda build: dense(build, value=False)), "not constant",
    ),
    "siblings": Case(integers(inception), integers(lambda: unlike("stride")), "strides"),
    "concat": Case(integers(pooled), integers(lambda: pooled(1)), "rows or columns"),
    "fold": Case(
        integers(lambda: eight_channels(8)), integers(lambda: eight_channels(7)), "not a multiple"
    ),
    "pool-first": Case(integers(halves), integers(padded_pool), "pads"),
    "fuse": Case(integers(doubled), integers(mean), "averaging"),
    "few-channels": Case(
        integers(residual), integers(lambda: one_layer(groups=3)), "it has groups"
    ),
    "split-groups": Case(integers(lambda: grouped(2, 64)), integers(lambda: grouped(2, 16)), ""),
    "addends": Case(
        integers(lambda: shortcut("light")), integers(equal_addends), "not two separate layers"
    ),
    "share": Case(integers(fire), unlike_scales, "another scale"),
    "copy": Case(in_two_regions, lambda: in_two_regions(of_input=True), "host computes the map"),
}  # fmt: skip


def eight_channels(width: int) -> Builder:
    build = Builder(6, width, 16, 5)
    made = build.relu(build.conv(build.input, 8))
    build.end(build.conv(build.relu(build.conv(made, 16)), 4))
    return build


def one_layer(groups: int) -> Builder:
    build = Builder(8, 8, 3, 5)
    build.end(build.conv(build.input, 6, SAME, groups))
    return build


def context(name: str = "") -> Context:
    return Context(trial=Calls() if name == "fold" else Fewer())


def results(graph: Graph) -> np.ndarray:
    """Return a graph's results for random maps."""
    random = np.random.default_rng(5)
    (view,), (wanted,) = graph.inputs.values(), graph.outputs.values()
    shape = (2, *view.tensor.shape[1:])
    if view.tensor.type == "float32":
        x, rules = random.normal(0, 1, shape).astype(np.float32), FLOATING
    else:
        x, rules = random.integers(-128, 128, shape), INTEGER
    return run_graph(graph, {view.tensor: x}, rules, [wanted.tensor])[wanted.tensor]


def test_passes_are_in_the_order_of_their_switches() -> None:
    """R4.3."""
    names = [one.name for one in PASSES]
    assert names == list(SWITCHES) == list(BY_NAME)
    assert [name for name in names if name in ORDER] == ORDER
    assert {one.name for one in ON_FLOATS} == set(ORDER[:5])
    of_steps = {"bias-correction"}
    assert {"constants", "input-scale", "pad", "batchnorm"} | of_steps == CHANGES_NUMBERS
    assert set(CASES) == set(names)


@pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
def test_every_pass_module_is_complete(one: Pass) -> None:
    """R4.1: legal, gain, apply, a switch, a line of the documentation."""
    parts = (one.sites, one.legal, one.gain, one.apply)
    module = inspect.getmodule(one.legal)
    assert module is not None
    assert {inspect.getmodule(part) for part in parts} == {module}
    assert [part.__name__ for part in parts] == ["sites", "legal", "gain", "apply"]
    assert module.__doc__
    for words in one.texts:
        assert words
        assert not words.endswith(".")
    row = rf"^  {one.name} +{re.escape(one.texts.about)}(\*?)$"
    (mark,) = re.findall(row, list_names(), re.MULTILINE)
    assert (mark == "*") == (one.name in CHANGES_NUMBERS)
    found = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert found is not None
    assert found.loader is not None
    generated = importlib.util.module_from_spec(found)
    found.loader.exec_module(generated)
    page = generated.fill((DOCS / "compiler.md").read_text())
    assert f"| `{one.name}` | {one.texts.what}" in page


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", list(CASES))
def test_results_are_kept_and_a_second_run_changes_nothing(name: str) -> None:
    """R4.1: floats to 1e-5 of the largest, integers to the bit; a log line with the gain per
    change.
    """
    one, known = BY_NAME[name], context(name)
    graph = CASES[name].changed()
    before = results(graph)
    assert sweep(one, graph, known)
    for line in known.log.lines:
        assert line.startswith(f"{name}: ")
        assert " cycle" in line
        assert " byte" in line
    after = results(graph)
    if before.dtype == np.float32:
        assert np.abs(after - before).max() <= 1e-5 * np.abs(before).max()
    else:
        assert np.array_equal(after, before)
    assert not sweep(one, graph, known)
    nodes = [(node.operator, list(node.inputs)) for node in graph.nodes]
    sweep(one, deepcopy(graph), context(name))
    assert [(node.operator, list(node.inputs)) for node in graph.nodes] == nodes


@pytest.mark.parametrize("name", list(CASES))
def test_illegal_sites_are_kept_with_a_reason(name: str) -> None:
    one, known, graph = BY_NAME[name], context(name), CASES[name].illegal()
    whys = [one.legal(graph, site, known) for site in one.sites(graph, known)]
    if CASES[name].why:
        assert any(CASES[name].why in (why or "") for why in whys), whys
    nodes = [(node.operator, list(node.inputs)) for node in graph.nodes]
    sweep(one, graph, known)
    if None not in whys or one.weighed:
        assert known.log.lines == []
        assert [(node.operator, list(node.inputs)) for node in graph.nodes] == nodes
