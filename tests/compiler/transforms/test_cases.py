"""Every pass on small graphs as text: the graph after it, or why it does not apply.

A file of `cases` has the name of its pass. A case begins with `== title`, after which
`| name=value` sets options of `context`. The line `-> text` is followed by the graph after the
pass, without the input lines if these are as before, or by nothing if only memory changes; the text
is part of the log. The line `-x text` ends a graph that the pass does not change; the text is part
of the reason or of the log, or `no site`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Conv, Node
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.ir.text import graph_text
from mapper.compiler.ir.verifier import faults
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.base import Context, Pass, Taken, sweep
from mapper.compiler.transforms.copies import load_rest
from mapper.compiler.transforms.floats.blocks import whole_blocks
from mapper.compiler.transforms.floats.dense import flatten_rest
from mapper.compiler.transforms.floats.legalise import activate_first, channel_convolutions
from mapper.compiler.transforms.floats.shuffles import fold_shuffles
from mapper.compiler.transforms.floats.signs import pack_bits, signs_in_bytes, simplify_signs
from mapper.compiler.transforms.registry import PASSES, optimise, run
from mapper.compiler.transforms.share import copy_parts
from mapper.compiler.transforms.split_groups import join_groups
from mapper.compiler.transforms.split_outputs import split_outputs
from tests.compiler.graph_text import GraphTextError, parse, written
from tests.compiler.programs import FOUR

FOLDER = Path(__file__).parent / "cases"
BY_NAME = {one.name: one for one in PASSES}
SHAPES = {
    **NPU_SHAPES,
    "six": NpuShape("six", 6, 6, multiply_lanes=6, load_bits=48),
    "ref32-filters": replace(NPU_SHAPES["ref32"], filters=4),
    "few": replace(FOUR, name="few", parameter_words=64),
}


def calls(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken:
    """Count matrix calls only."""
    found = 0
    for node in nodes:
        if isinstance(node.operator, Conv):
            outputs, kh, kw, inputs = node.inputs[1].shape
            blocks = -(-outputs // 16) * -(-inputs // 16)
            found += node.output.height * node.output.width * kh * kw * blocks
    return Taken(found, 0)


def fewer(nodes: Sequence[Node], results: Sequence[Tensor]) -> Taken:
    """Count convolutions only."""
    count = sum(isinstance(one.operator, Conv) for one in nodes)
    return Taken(100 * count, 10 * count)


TRIALS: dict[str, Any] = {
    "calls": calls, "fewer": fewer, "same": lambda *_: Taken(7, 0), "never": lambda *_: None,
}  # fmt: skip


def context(
    trial: str = "never", fits: str = "yes", few: Any = "host", shape: str = "npu", **_: str
) -> Context:
    """Return a context from the options of a case."""
    return Context(SHAPES[shape], TRIALS[trial], lambda _: fits == "yes", few)


def signs_as_bytes(graph: Graph, known: Context) -> None:
    before = written(graph)
    signs_in_bytes(graph)
    if written(graph) != before:
        known.log.add("in bytes")


Run = Callable[[Graph, Context], object]
STEPS: dict[str, Run] = {
    "activate-first": activate_first,
    "blocks": whole_blocks,
    "channel-convolutions": channel_convolutions,
    "copy-parts": copy_parts,
    "flatten-rest": flatten_rest,
    "join-groups": join_groups,
    "load-rest": load_rest,
    "optimise": lambda graph, known: optimise(graph, (), known),
    "pack-bits": pack_bits,
    "shuffles": fold_shuffles,
    "signs": simplify_signs,
    "signs-in-bytes": signs_as_bytes,
    "split-outputs": split_outputs,
}
"""Steps that always run; they have no legality function."""
RUNS: dict[str, Run] = {**STEPS, **{name: partial(sweep, one) for name, one in BY_NAME.items()}}


def log_of(name: str, graph: Graph, known: Context) -> list[str]:
    """Run a pass or step; return its log lines."""
    before = len(known.log.lines)
    RUNS[name](graph, known)
    return known.log.lines[before:]


UNLIKE = {"blocks", "optimise", "signs"}
"""Passes after which a name may stand for another value."""


class Case(NamedTuple):
    """A graph before a pass, and after it; applied : whether it applies, else `said` is why not"""

    name: str
    title: str
    options: dict[str, str]
    before: str
    applied: bool
    said: str
    after: str


def cases() -> list[Case]:
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        for block in path.read_text().split("\n== ")[1:]:
            head, _, body = block.partition("\n")
            title, _, options = head.partition(" | ")
            before, arrow, rest = re.split(r"\n-([>x])", body)
            said, _, after = rest.partition("\n")
            given = "\n".join(line for line in before.splitlines() if line.startswith("input "))
            if "input " not in after:
                after = f"{given}\n{after}" if after.strip() else before
            words = dict(word.split("=") for word in options.split())
            found.append(Case(path.stem, title, words, before, arrow == ">", said.strip(), after))
    return found


CASES = cases()


def values(graph: Graph, names: set[str]) -> dict[str, np.ndarray]:
    """Return the outputs for random maps as "output 0" ..., and results by name."""
    random = np.random.default_rng(5)
    feeds = {}
    for one in (view.tensor for view in graph.inputs.values()):
        shape = (2, *one.shape[1:])
        whole = random.integers(one.low, one.high + 1, shape) if one.type != "float32" else None
        whole = np.where(whole < 0, -1, 1) if one.type == "bits" and whole is not None else whole
        feeds[one] = random.normal(0, 1, shape).astype(np.float32) if whole is None else whole
    rules = INTEGER if any(one.type != "float32" for one in graph.tensors()) else FLOATING
    wanted = {f"output {at}": view.tensor for at, view in enumerate(graph.outputs.values())}
    wanted |= {one.name: one for node in graph.nodes for one in node.outputs if one.name in names}
    made = run_graph(graph, feeds, rules, [*wanted.values()])
    return {name: made[one] for name, one in wanted.items()}


def require_same(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> None:
    """Check results: integers to the bit, real numbers to 1e-5 of the largest one."""
    for name, one in after.items():
        wanted = before[name]
        if one.dtype == np.float32:
            assert np.abs(one - wanted).max() <= 1e-5 * max(np.abs(wanted).max(), 1e-3), name
        else:
            np.testing.assert_array_equal(one, wanted, name)


def reasons(one: Pass | None, graph: Graph, known: Context) -> list[str]:
    """Return why a pass does not change its sites; "" for sites that it may change."""
    if one is None:
        return []
    return [one.legal(graph, site, known) or "" for site in one.sites(graph, known)] or ["no site"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_pass_on_a_graph(case: Case) -> None:
    """R4.1: results are kept, the graph stays sound, and a second run changes nothing."""
    graph, known, one = parse(case.before), context(**case.options), BY_NAME.get(case.name)
    before = written(graph)
    assert faults(graph) == []
    names = {tensor.name for node in graph.nodes for tensor in node.outputs}
    wanted = values(graph, names)
    assert all(np.unique(array).size > 1 for array in wanted.values()), "the case shows nothing"
    whys = reasons(one, graph, context(**case.options))
    if one is not None:
        assert not run(one, graph, known, [case.name])
        assert written(graph) == before
    lines = log_of(case.name, graph, known)
    assert faults(graph) == []
    assert written(graph) == written(parse(case.after))
    assert any(case.said in line for line in (lines if case.applied else [*whys, *lines, ""]))
    if one is not None and case.applied:
        assert all(line.startswith(f"{case.name}: ") for line in lines)
        assert all(" cycle" in line and " byte" in line for line in lines), lines
    require_same(wanted, values(graph, set() if case.name in UNLIKE else names))
    again = written(graph)
    assert log_of(case.name, graph, known) == [] or one is None
    assert written(graph) == again


@pytest.mark.parametrize("name", RUNS)
def test_every_pass_applies_and_does_not(name: str) -> None:
    """R4.1: a graph where it applies, and one where it must not."""
    assert {case.applied for case in CASES if case.name == name} == {True, False}
    assert {case.name for case in CASES} == set(RUNS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.title}")
def test_text_and_graph_are_inverse(case: Case) -> None:
    for text in (case.before, case.after):
        graph = parse(text)
        once = written(graph)
        assert written(parse(once)) == once
        assert written(deepcopy(graph)) == once
        for one, other in zip(graph.tensors(), parse(once).tensors(), strict=True):
            assert (one.name, one.type, one.shape) == (other.name, other.type, other.shape)
            assert np.array_equal(one.value, other.value)  # type: ignore[arg-type]


def test_lines_of_dumps_are_read() -> None:
    """Sizes of constants are added, as dumps have none."""
    given = "input x int8[4,4,8] s=0.1 z=3\n"
    graph = parse(f"{given}conv a <- x, w(4,1,1,8), b(4)\ncopy c <- x [d, e]\noutput a, c")
    text = graph_text(graph).replace("w, b", "w(4,1,1,8), b(4)")
    assert written(parse(f"{given}{text}output a, c")) == written(graph)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("input x [4,4,8]\nconf y <- x", "line 2: 'conf y <- x': no operator 'conf'; operators"),
        ("conv y <- x", "'x' is not computed by a line above"),
        ("input x [4,4,8]\nconv y <- x, w(4,3,3,6)", "the shapes of its inputs do not fit"),
        ("input x [4,4,8]\nconv y <- x, w(4,3,3,8)  pads=1", "conv has no pads"),
        ("input x [4,4,8]\npool y <- x  kind=max", "kernel= is missing"),
        ("input x [4,4,8]\nupsample y x", "'<-' is missing"),
        ("input x [4,4,8] scale=2", "'scale=2' is none of s=, z=, stored, unstored, planes"),
        ("input x int8[4,4,8]\nrequantise y <- x", "factor= is missing"),
    ],
)
def test_wrong_lines_are_reported(text: str, said: str) -> None:
    with pytest.raises(GraphTextError, match="line ") as caught:
        parse(text)
    assert said in str(caught.value)
