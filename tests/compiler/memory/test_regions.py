"""Concatenations and splits share memory: results are equal, and no instruction copies data."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES
from mapper.compiler.ir.node import Add, Concat, Copy, Pool, Window
from mapper.compiler.ir.tensor import Pad
from tests.compiler.networks import Builder
from tests.compiler.programs import (
    SHAPE,
    SMALL,
    WIDE,
    Made,
    compiled,
    compiled_model,
    exact,
)

pytestmark = pytest.mark.jit
POINT = Window((1, 1))
VECTOR = 16


def kinds(made: Made) -> Counter[str]:
    return Counter(f"{one.op}.{one.kind}" for one in made.compiled.code.program)


def region(made: Made, name: str) -> tuple[int, int, int]:
    """Return the address and the strides of rows and pixels of a map."""
    (found,) = (r for t, r in made.compiled.code.regions.items() if t.name == name)
    return found.first, found.row, found.pixel


def fire() -> Builder:
    """Build a squeezed map that two convolutions expand in parallel."""
    build = Builder(9, 9, 3)
    squeezed = build.relu(build.conv(build.input, 16, POINT))
    one = build.relu(build.conv(squeezed, 32, POINT))
    other = build.relu(build.conv(squeezed, 32))
    build.end(build.conv(build.concat(one, other), 8))
    return build


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SHAPE, SMALL, WIDE], ids=lambda shape: shape.name)
def test_a15_concatenation_needs_no_instruction(shape: object) -> None:
    """A15: the result of the concatenation owns the region; strides as in A16."""
    build = fire()
    made = exact(build, compiled(build, shape))  # type: ignore[arg-type]
    whole, rows, pixels = region(made, "n6.out")
    blocks = 64 // made.compiled.code.tables.shape.columns
    assert (rows, pixels) == (9 * blocks, blocks)
    # A16: the stride of a pixel covers all channels of the region, cc + c
    assert region(made, "n3.out") == (whole, rows, pixels)
    assert region(made, "n5.out") == (whole + blocks // 2, rows, pixels)
    assert not any(node.kind == "concat" for macro in made.compiled.macros for node in macro.nodes)
    without = kinds(compiled(fire_apart(), shape))  # type: ignore[arg-type]
    assert kinds(made)["STORE.LOCAL"] <= without["STORE.LOCAL"] + 9
    assert kinds(made)["ALU.MOV"] == 0 == kinds(made)["LOAD.ACC8"]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a15_eight_concatenations_of_squeezenet(data_dir: Path) -> None:
    """A15: no instruction moves a part, and each vector of a map is stored once."""
    samples = np.random.default_rng(1).normal(0, 60, (1, 3, 227, 227)).astype(np.float32)
    path = data_dir / "models" / "squeezenet_winml.onnx"
    made = compiled_model(path, samples, NPU_SHAPES["ref32"])
    nodes = made.compiled.graph.nodes
    joined = [node for node in nodes if isinstance(node.operator, Concat)]
    assert len(joined) == 8
    assert not any(isinstance(node.operator, Copy) for node in nodes)
    moved = {
        step.macro
        for step in made.compiled.code.steps
        if step.instruction.kind in ("MOV", "ACC8") and step.macro >= 0
    }
    pools = {
        number
        for number, macro in enumerate(made.compiled.macros)
        if any(isinstance(node.operator, Pool) for node in macro.nodes)
    }
    assert moved <= pools  # which begins with a pixel of its window
    stores = [one.fields for one in made.compiled.code.program if one.op == "STORE"]
    stored = sum(f["c_size"] * f["x_size"] * f["y_size"] for f in stores)
    maps = [tensor for macro in made.compiled.macros for tensor in macro.outputs]
    assert stored == sum(one.height * one.width * -(-one.channels // 32) for one in maps)


def fire_apart() -> Builder:
    """Build the same layers with each expansion as a separate output."""
    build = Builder(9, 9, 3)
    squeezed = build.relu(build.conv(build.input, 16, POINT))
    one = build.relu(build.conv(squeezed, 32, POINT))
    other = build.relu(build.conv(one, 32))
    build.end(build.conv(other, 8))
    return build


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("axis", [1, 2])
def test_a19_concatenation_of_rows_and_columns(axis: int) -> None:
    """A19: w0*c and the whole width's stride; h0*W*c."""
    build = Builder(7, 6, 16)
    one = build.relu(build.conv(build.input, 20))
    other = build.relu(build.conv(build.input, 20))
    build.end(build.conv(build.concat(one, other, axis=axis), 8))
    made = exact(build, compiled(build))
    whole, rows, pixels = region(made, "n4.out")
    assert region(made, "n1.out") == (whole, rows, pixels)
    step = 7 * rows if axis == 1 else 6 * pixels
    assert region(made, "n3.out") == (whole + step, rows, pixels)
    assert rows == pixels * (6 if axis == 1 else 12)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a15_split_owns_the_region() -> None:
    """A15: both halves of a split are read in place, one of them twice."""
    build = Builder(8, 8, 3)
    whole = build.relu(build.conv(build.input, 32))
    low, high = build.slice(whole, 0, 16), build.slice(whole, 16, 16)
    summed = build.like(Pool("max", Window((1, 1))), high)
    build.end(build.concat(build.conv(low, 16), build.conv(high, 16), build.conv(summed, 16)))
    made = exact(build, compiled(build))
    assert kinds(made)["ALU.MOV"] <= 8
    first, rows, pixels = region(made, "n1.out")
    assert region(made, "n2.out") == (first, rows, pixels)
    assert region(made, "n3.out") == (first + 1, rows, pixels)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_nested_concatenations_form_one_region() -> None:
    """Of {a, b}, {a, b, c} and {{a, b, c}, d} all maps are stored inside the last one."""
    build = Builder(8, 8, 3)
    a = build.relu(build.conv(build.input, 16))
    b = build.relu(build.conv(a, 16))
    ab = build.concat(a, b)
    c = build.relu(build.conv(ab, 32))
    abc = build.concat(a, b, c)
    d = build.relu(build.conv(abc, 16))
    whole = build.concat(abc, d)
    build.end(build.conv(build.pool(whole, Pool("max", Window((2, 2), (2, 2)))), 8))
    made = exact(build, compiled(build))
    owners = {one.owner for one in made.compiled.code.regions.values() if one.owner is not None}
    assert [one.name for one in owners] == [whole.name]
    first = region(made, whole.name)[0]
    starts = [region(made, one.name)[0] - first for one in (a, b, ab, c, abc, d)]
    assert starts == [0, 1, 0, 2, 0, 4]
    assert not any("copy" in line for line in made.compiled.log)


@pytest.mark.heavy
def test_the_input_of_a_model_is_written_into_its_region() -> None:
    build = Builder(6, 6, 16)
    made_of = build.concat(build.input, build.conv(build.input, 20), axis=3)
    build.end(build.conv(made_of, 8))
    made = exact(build, compiled(build))
    assert region(made, "x")[2] == 3


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a18_a_map_in_two_regions_is_stored_twice() -> None:
    """A18: {a, b, d} and {a, c, e}: the layer of a stores it twice; no load, no ALU pass."""

    build = Builder(8, 8, 3)
    a = build.relu(build.conv(build.input, 16))
    b, c, d, e = (build.relu(build.conv(a, 16)) for _ in range(4))
    first = build.conv(build.concat(a, b, d), 16)
    other = build.conv(build.concat(a, c, e), 16)
    build.end(build.concat(first, other))
    made = exact(build, compiled(build, off=("siblings",)))
    mine = kinds(made)
    stores = Counter(
        (one.macro, one.tile) for one in made.compiled.code.steps if one.unit == "STORE"
    )
    assert {number: count for (number, _), count in stores.items()} == {
        0: 2, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1,
    }  # fmt: skip
    assert mine["LOAD.ACC8"] == 0
    assert mine["ALU.MOV"] == 0
    (line,) = (line for line in made.compiled.log if "also belongs to another region" in line)
    assert "n1.out" in line


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a18_dense_block() -> None:
    """A18: a DenseNet block, each layer of which reads all previous maps.

    Parts of one concatenation are copied into another one in another order.
    """
    build = Builder(8, 8, 3)
    maps = [build.relu(build.conv(build.input, 16))]
    for _ in range(3):
        joined = build.concat(*maps) if len(maps) > 1 else maps[0]
        maps.append(build.relu(build.conv(joined, 16)))
    forwards, backwards = build.concat(*maps), build.concat(*maps[::-1])
    build.end(build.concat(build.conv(forwards, 8, POINT), build.conv(backwards, 8, POINT), axis=1))
    made = exact(build, compiled(build))
    assert sum("also belongs to another region" in line for line in made.compiled.log) == 4
    assert kinds(made)["LOAD.ACC8"] == 0


def test_the_same_map_twice_in_one_concatenation() -> None:
    build = Builder(6, 6, 3)
    a = build.relu(build.conv(build.input, 16))
    build.end(build.conv(build.concat(a, a, build.input), 8))
    exact(build, compiled(build))


def test_the_input_in_two_regions() -> None:
    """No layer computes it: it is loaded and stored again."""
    build = Builder(6, 6, 16)
    a, b = (build.relu(build.conv(build.input, 16)) for _ in range(2))
    build.end(build.concat(build.concat(build.input, a), build.concat(build.input, b), axis=1))
    made = exact(build, compiled(build))
    assert kinds(made)["ALU.MOV"] > 0


def test_padded_pooling_of_parts() -> None:
    build = Builder(8, 8, 3)
    a, b = (build.relu(build.conv(build.input, 16)) for _ in range(2))
    joined = build.concat(a, b)
    window = Window((3, 3), (2, 2), Pad(1, 1, 1, 1))
    build.end(build.conv(joined, 8, window))
    exact(build, compiled(build))


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SHAPE, WIDE], ids=lambda shape: shape.name)
def test_parts_that_end_inside_blocks(shape: object) -> None:
    """Padding channels hold z, and have zero weights in every consumer.

    Pools, sums and depthwise layers keep the padding, and the host does not see it.
    """
    build = Builder(8, 8, 5)
    a = build.relu(build.conv(build.input, 12))
    b = build.relu(build.conv(a, 20))
    joined = build.concat(a, b, build.input)
    pooled = build.pool(joined, Pool("max", Window((2, 2), (2, 2))))
    summed = build.like(Add(), pooled, build.conv(pooled, 37))
    c = build.conv(summed, 7)
    part = build.slice(summed, 12, 20)
    build.end(build.concat(c, build.conv(part, 9), part))
    made = exact(build, compiled(build, shape))  # type: ignore[arg-type]
    assert any("aligned to blocks" in line for line in made.compiled.log)
