"""D02, D05, D06, D07, D08: functions as quantised operators, and as core operators."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.ir.node import Activation, Add
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.partition.patterns import (
    functions_text,
    lowered,
    quantised_functions,
    run_function,
)
from tests.compiler.networks import Builder, residual
from tests.compiler.partition.test_hostplan import NODES, made_of, samples
from tests.compiler.programs import Made, compiled
from tests.mapper.conftest import Run
from tests.storage.formats.onnx_models import onnx

LOW = {"conv2d_zp", "bias_add_zp", "round_multiply", "round_rshift", "add", "max", "min"}


def leaky() -> Builder:
    build = Builder(7, 8, 5, seed=3)
    first = build.like(Activation(slope=0.1), build.conv(build.input, 20))
    build.end(build.relu(build.conv(first, 6)))
    return build


def require_equal(build: Builder, made: Made) -> None:
    """Check that both levels give the bytes of the reference, in every value that both have."""
    graph = made.compiled.graph
    random = np.random.default_rng(0)
    (function,) = quantised_functions(made.compiled.partition)
    (low,) = lowered([function])
    written = made.compiled.partition.functions[0].inputs
    given = {t: random.integers(-128, 128, (2, *t.shape[1:])) for t in written}
    values = {tensor.name: data for tensor, data in given.items()}
    stored = [tensor for macro in made.compiled.macros for tensor in macro.outputs]
    wanted = run_graph(graph, given, INTEGER, stored)
    for level in (function, low):
        found = run_function(level, values)
        for tensor in stored:
            assert np.array_equal(found[tensor.name], wanted[tensor]), tensor.name
    kinds = {one.kind for group in low.groups for one in group.operators}
    assert kinds >= LOW
    assert not {kind for kind in kinds if kind in ("q.conv2d", "q.bias_add", "q.requantize")}


@pytest.mark.sample(3)
@pytest.mark.jit
@pytest.mark.parametrize("scheme", ["asym", "sym"])
@pytest.mark.parametrize("build", [residual, leaky])
def test_both_levels_give_equal_bytes(build: object, scheme: str) -> None:
    """R6.4, D05 to D08; with and without zero points of the input."""
    network = build()  # type: ignore[operator]
    require_equal(network, compiled(network, scheme=scheme))


@pytest.mark.jit
def test_d02_groups_of_a_residual_block() -> None:
    """D02: q.conv2d, q.bias_add, q.requantize and the operators after them form one group.

    ReLU is the lower bound of q.requantize, or q.relu where its input is also used.
    """
    build = Builder(6, 6, 16, 2)
    first = build.conv(build.input, 16)
    build.end(build.like(Add(), build.conv(build.relu(first), 16), first))
    (function,) = quantised_functions(compiled(build).compiled.partition)
    layer = ["q.conv2d", "q.bias_add", "q.requantize"]
    groups = [[one.kind for one in group.operators] for group in function.groups]
    assert groups == [layer, ["q.relu"], [*layer, "q.add"]]


@pytest.mark.jit
def test_d02_groups_have_a_target_and_a_name(tmp_path: Path) -> None:
    """D02: groups are cut out and renamed; unsupported operators stay on the host, between them."""
    made = made_of(NODES["between"], tmp_path)
    text = functions_text(quantised_functions(made.compiled.partition))
    assert "function npu_0_n_c, target npu" in text
    assert "function npu_1_n_d, target npu\n  group of n_d, n_y\n    q.conv2d" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("    ")] == [
        "q.conv2d", "q.bias_add", "q.requantize", "q.conv2d", "q.bias_add", "q.requantize"
    ]  # fmt: skip
    assert "Sigmoid" not in text
    steps = [one for one in made.compiled.host if one["do"] in ("start", "node")]
    assert [one.get("op") for one in steps] == [None, "Sigmoid", None]


@pytest.mark.jit
def test_both_levels_are_dumped(folder: Path, run: Run) -> None:
    """B13: with --keep-graphs, and the three lists of packing."""
    made_of(NODES["between"], folder)
    assert onnx.load(str(folder / "model.onnx")).graph.node
    np.savez(folder / "samples.npz", x=samples(6))
    how = ["--calibrate", "samples.npz", "--min-signal", "-99", "--max-loss", "100"]
    assert run("compile", "model.onnx", "--chip", "1x1", *how, "--keep-graphs").code == 0
    graphs = folder / "out" / "graphs"
    assert "q.requantize" in (graphs / "functions.txt").read_text()
    assert "round_multiply" in (graphs / "functions_lowered.txt").read_text()
    lists = (graphs / "packing.txt").read_text()
    assert "part 2: s.windows" in lists  # windows that the host builds for few channels
    assert "npu_1_n_d: pack yes, unpack yes" in lists
