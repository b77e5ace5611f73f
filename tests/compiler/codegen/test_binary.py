"""Programs of binary layers, compared with the reference."""

from __future__ import annotations

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.binary import Edges
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Add, Pool, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.numerics.binary import signs
from mapper.compiler.numerics.windows import convolve
from tests.compiler.binary_networks import BinaryBuilder
from tests.compiler.networks import SAME
from tests.compiler.programs import FOUR, SHAPE, SMALL, Made, compiled, exact, fitting

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu

ONE = Window((1, 1))


def kinds(made: Made) -> list[list[str]]:
    return [[node.kind for node in macro.nodes] for macro in made.compiled.macros]


def chain(
    height: int, width: int, sizes: list[int], window: Window, seed: int = 0
) -> BinaryBuilder:
    """Layers of bits, each after normalisation and signs; the last sums are outputs."""
    build = BinaryBuilder(height, width, 3, seed)
    tensor = build.conv(build.input, sizes[0], ONE)
    for outputs in sizes[1:]:
        tensor = build.sign(build.normalised(tensor, 1.0))
        tensor = build.binary(tensor, outputs, window, alpha=outputs != sizes[-1])
    build.end(tensor)
    return build


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SHAPE, SMALL, FOUR], ids=lambda shape: shape.name)
@pytest.mark.parametrize("channels", [1, 16, 43, 128, 147])
def test_b03_layers_of_bits(channels: int, shape: NpuShape) -> None:
    """B03, B04: kernels of 16, 128, 147 and odd numbers of bits, zero padding."""
    build = chain(5, 7, [channels, 20, 33], SAME, channels)
    made = exact(build, fitting(build, shape))
    assert kinds(made) == [["conv", "threshold"], ["conv", "threshold"], ["conv"]]
    types = [[tensor.type for tensor in macro.outputs] for macro in made.compiled.macros]
    assert types == [["bits"], ["bits"], ["int32"]]
    layers = [step.instruction.kind for step in made.compiled.code.steps if step.unit == "GEMM"]
    assert set(layers) == {"INT8", "BINARY"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(6))
def test_windows_of_all_kinds_over_bits(seed: int) -> None:
    random = np.random.default_rng(seed)
    window = Window(
        (int(random.integers(1, 4)), int(random.integers(1, 4))),
        (int(random.integers(1, 3)), int(random.integers(1, 3))),
        Pad(*(int(n) for n in random.integers(0, 3, 4))),
        (int(random.integers(1, 3)), 1),
    )
    build = chain(9, 8, [int(random.integers(1, 300)), 18], window, seed)
    exact(build, compiled(build, SMALL if seed % 2 else SHAPE))


@pytest.mark.heavy
@pytest.mark.parametrize("shape", [SHAPE, SMALL], ids=lambda shape: shape.name)
def test_b09_pooled_sums_become_bits(shape: NpuShape) -> None:
    """B09: normalisation and signs after max pooling; the sums are pooled."""
    build = BinaryBuilder(8, 10, 3)
    two = Window((2, 2), (2, 2))
    first = build.pool(build.conv(build.input, 19, SAME), Pool("max", two))
    second = build.binary(build.sign(build.normalised(first, 1.0)), 40)
    third = build.pool(build.sign(build.normalised(second, 10.0)), Pool("max", two))
    build.end(build.binary(third, 10, Window((2, 2)), alpha=False))
    made = exact(build, compiled(build, shape))
    assert kinds(made) == [["conv", "pool", "threshold"]] * 2 + [["conv"]]


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SHAPE, SMALL, FOUR], ids=lambda shape: shape.name)
@pytest.mark.parametrize("channels", [16, 64, 150])
def test_b15_residual_sums_stay_in_bytes(channels: int, shape: NpuShape) -> None:
    """B08, B15: signs are packed along with a sum that the next addition reads in bytes."""
    build = BinaryBuilder(6, 5, 3)
    tensor = build.conv(build.input, channels)
    for _ in range(2):
        layer = build.normalised(build.binary(build.sign(tensor), channels), 1.0)
        tensor = build.like(Add(), layer, tensor)
    build.end(tensor)
    made = exact(build, fitting(build, shape))
    assert kinds(made) == [["conv", "requantise"]] + [["conv", "requantise", "add"]] * 2
    assert [len(macro.outputs) for macro in made.compiled.macros] == [2, 2, 1]
    assert [macro.conv.inputs[0].type for macro in made.compiled.macros] == ["int8", "bits", "bits"]


def test_signs_with_other_users_are_bytes() -> None:
    build = BinaryBuilder(5, 5, 4)
    bits = build.sign(build.conv(build.input, 20))
    layer = build.binary(bits, 20)
    build.end(build.like(Add(), layer, bits))
    made = exact(build, compiled(build))
    assert {tensor.type for macro in made.compiled.macros for tensor in macro.outputs} == {"int8"}
    assert any("in bytes" in line for line in made.compiled.log)


def test_b07_kernels_of_several_magnitudes_are_computed_in_bytes() -> None:
    build = BinaryBuilder(5, 5, 4)
    build.end(build.conv(build.sign(build.conv(build.input, 20)), 9))
    made = exact(build, compiled(build))
    assert any("several magnitudes" in line for line in made.compiled.notes)


@pytest.mark.heavy
def test_cores_without_a_binary_unit_use_bytes() -> None:
    """The results are the same."""
    build = chain(5, 6, [40, 20], SAME)
    made = [compiled(build, NpuShape("x", binary=has, weight_words=4096)) for has in (True, False)]
    for one in made:
        exact(build, one)
    assert {
        step.instruction.kind for step in made[1].compiled.code.steps if step.unit == "GEMM"
    } == {"INT8"}
    names = [one.compiled.graph.outputs["y"].tensor.name for one in made]
    assert names[0] == names[1]


@pytest.mark.parametrize("seed", range(20))
def test_corrections_of_zero_padding_of_bits(seed: int) -> None:
    """Corrected sums with padding of -1 equal sums with zero padding."""
    random = np.random.default_rng(seed)
    window = Window(
        (int(random.integers(1, 5)), int(random.integers(1, 5))),
        (int(random.integers(1, 4)), int(random.integers(1, 4))),
        Pad(*(int(n) for n in random.integers(0, 4, 4))),
        (int(random.integers(1, 3)), int(random.integers(1, 3))),
    )
    height, width = 7, 6
    if min(window.results(height, width)) < 1:
        return
    data = signs(random.normal(0, 1, (1, height, width, 3)))
    weights = signs(random.normal(0, 1, (5, *window.size, 3)))
    wrong, right = (
        convolve(data.astype(np.float64), weights, window, 1, value)[0] for value in (-1, 0)
    )
    edges = Edges(weights, window, height, width)
    for y, values in edges.rows.items():
        wrong[y] += values
    for x, values in edges.columns.items():
        wrong[:, x] += values
    for (y, x), values in edges.corners.items():
        wrong[y, x] += values
    assert np.array_equal(wrong, right)


def test_graph_of_a_chain_has_no_floats() -> None:
    made = compiled(chain(4, 4, [8, 8], SAME))
    assert isinstance(made.compiled.graph, Graph)
    assert "float32" not in {tensor.type for tensor in made.compiled.graph.tensors()}
