"""D02, D05, D06, D07, D08: functions as quantised operators, and as core operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.compiler.ir.node import Activation, Add
from mapper.compiler.numerics.execute import results, run_graph
from mapper.compiler.numerics.formulas import requantise, rounding_shift
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.numerics.windows import convolve
from mapper.compiler.partition.patterns import (
    QFunction,
    QOperator,
    functions_text,
    lowered,
    quantised_functions,
)
from tests.compiler.networks import Builder, residual
from tests.compiler.partition.test_hostplan import NODES, made_of, samples
from tests.compiler.programs import Made, compiled
from tests.mapper.conftest import Run
from tests.storage.formats.onnx_models import onnx

Data = NDArray[Any]
LOW = {"conv2d_zp", "bias_add_zp", "round_multiply", "round_rshift", "add", "max", "min"}


def leaky() -> Builder:
    build = Builder(7, 8, 5, seed=3)
    first = build.like(Activation(slope=0.1), build.conv(build.input, 20))
    build.end(build.relu(build.conv(first, 6)))
    return build


def products(one: QOperator, inputs: list[Data], zero_point: int) -> Data:
    operator, data = one.given["operator"], inputs[0].astype(np.float64)
    made = convolve(data, one.given["weights"], operator.window, operator.groups, zero_point)
    return made.astype(np.int64)


def shifted(one: QOperator, inputs: list[Data]) -> Data:
    n = np.asarray(one.given["n"])
    if "negative_n" in one.given:
        n = np.where(inputs[0] < 0, one.given["negative_n"], n)
    return rounding_shift(inputs[0], n, one.given["rounding"])


def multiplied(one: QOperator, inputs: list[Data]) -> Data:
    m0 = np.asarray(one.given["m0"])
    if "negative_m0" in one.given:
        m0 = np.where(inputs[0] < 0, one.given["negative_m0"], m0)
    return inputs[0] * m0 + one.given["offset"]


RULES: Mapping[str, Callable[[QOperator, list[Data]], Data]] = {
    "q.conv2d": lambda one, x: products(one, [x[0] - one.given["zero_point"]], 0),
    "q.bias_add": lambda one, x: x[0] + one.given["bias"],
    "q.requantize": lambda one, x: requantise(x[0], one.given["how"]),
    "conv2d_zp": lambda one, x: products(one, x, one.given["zero_point"]),
    "bias_add_zp": lambda one, x: x[0] + one.given["bias"],
    "round_rshift": shifted,
    "round_multiply": multiplied,
    "add": lambda one, x: x[0] + one.given["value"],
    "max": lambda one, x: np.maximum(x[0], one.given["value"]),
    "min": lambda one, x: np.minimum(x[0], one.given["value"]),
}
"""Functions of operators; all others are taken from the integer reference."""


def run_function(function: QFunction, values: Mapping[str, Data]) -> dict[str, Data]:
    """Return all values of a function by tensor name, including the input values."""
    known = dict(values)
    for group in function.groups:
        for one in group.operators:
            taken = [known[name] for name in one.inputs]
            if rule := RULES.get(one.kind):
                known[one.output] = rule(one, taken)
                continue
            node = one.given["node"]
            data = iter(taken)
            whole = [t.value if t.value is not None else next(data) for t in node.inputs]
            known[one.output] = results(node, whole, INTEGER)[0]
    return known


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
    assert "Asinh" not in text
    steps = [one for one in made.compiled.host if one["do"] in ("start", "node")]
    assert [one.get("op") for one in steps] == [None, "Asinh", None]


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
