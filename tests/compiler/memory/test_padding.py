"""R7.2: padding stored around maps, set once before the first frame."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Add, Pool, Upsample, Window
from mapper.compiler.ir.tensor import NO_PAD, Pad
from mapper.compiler.memory.planner import memory_use
from mapper.compiler.program.presets import border_vectors
from mapper.errors import DoesNotFitError
from tests.compiler.codegen.test_binary import BinaryBuilder
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import SAME, Builder, residual
from tests.compiler.programs import (
    DUAL,
    FOUR,
    REF,
    SHAPE,
    SMALL,
    WIDE,
    Made,
    compiled,
    compiled_model,
)

pytestmark = pytest.mark.jit
EXTERNAL = NpuShape("outside", map_vectors=0, instructions=0, weight_words=4096)
WINDOW = Window((3, 3), (1, 1), Pad(1, 1, 1, 1))


def both(build: Builder, shape: NpuShape = SHAPE, **settings: object) -> tuple[Made, Made]:
    """Compile a network with padding by loads, and stored; check maps and equal results."""
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(3)))
    state = build.random.bit_generator.state
    found, results = [], []
    for padding in ("load", "stored"):
        build.random.bit_generator.state = state  # of the calibration samples
        made = compiled(build, shape, padding=padding, **settings)
        outcome = simulate(made.folder, samples, threads=1, check=True)
        assert outcome.compared
        assert not any(one.differences for one in outcome.compared), outcome.compared
        results.append([one.tobytes() for one in outcome.stored.values()])
        assert verify_compiled(made.folder)["cores"] == 1
        found.append(made)
    assert results[0] == results[1]
    return found[0], found[1]


def loads(made: Made) -> list[dict[str, int]]:
    return [
        one.fields
        for one in made.compiled.code.program
        if one.op == "LOAD" and one.kind in ("INP", "ACC8", "ACC32")
    ]


def pads(made: Made) -> int:
    """Return the number of loads that write padding."""
    return sum(any(f.get(f"pad_{side}", 0) for side in "tblr") for f in loads(made))


def said(made: Made, words: str) -> bool:
    return any(words in line for line in made.compiled.log)


def test_a14_the_padded_map_is_read_from_its_base() -> None:
    """A14: stores write into the padded place, and one load reads the whole from its base.

    Pixels around it hold the zero point before the first frame and after the last one.
    """
    build = Builder(6, 7, 16)
    build.end(build.conv(build.relu(build.conv(build.input, 16)), 16))
    _, made = both(build, schedule="plane16")
    regions = made.compiled.code.regions
    bordered = [one for one in regions.values() if one.border.pad != NO_PAD]
    assert [one.border.pad for one in bordered] == [Pad(1, 1, 1, 1)] * 2
    assert not pads(made)
    inner = bordered[1]
    assert inner.first == inner.base + inner.pixel * (1 * 9 + 1)
    fields = [one.fields for one in made.compiled.code.program]
    assert inner.base in {f["src"] for f in loads(made)}
    assert inner.first in {f["dst"] for f in fields if "up" in f}
    (image,) = made.folder.images.values()
    filled = image.filled()
    for region in bordered:
        around = border_vectors(region)
        assert around.size == region.size - region.vectors
        assert (filled[around].view(np.int8) == region.tensor.zero_point).all()
        assert region.tensor.zero_point
        assert np.isin(around, image.preset).all()


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [SHAPE, SMALL, FOUR, WIDE, DUAL, REF, EXTERNAL])
def test_a14_residual_networks_on_all_cores(shape: NpuShape) -> None:
    _, made = both(residual(2, channels=20), shape)
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(6))
def test_a14_random_networks(seed: int) -> None:
    for shape in (SHAPE, DUAL):
        try:
            both(random_network(seed), shape)
        except DoesNotFitError as error:
            pytest.skip(str(error))


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("settings", [{"bits": 16}, {"dual": "pixels"}, {"dual": "kernels"}])
def test_a14_pairs_and_16_bits(settings: dict[str, object]) -> None:
    build = residual(1, channels=36)
    _, made = both(build, replace(DUAL, micro_ops=1024, instructions=1 << 16), **settings)
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a14_consumers_use_the_largest_border() -> None:
    build = Builder(9, 8, 16)
    data = build.relu(build.conv(build.input, 16))
    wide = Window((5, 5), (1, 1), Pad(2, 2, 2, 2))
    a, b = build.conv(data, 16), build.conv(data, 16, wide)
    c = build.conv(data, 16, Window((3, 3), (2, 2), Pad(0, 1, 1, 0)))
    build.graph.outputs["z"] = build.graph.inputs["x"]._replace(tensor=c, shape=(1, 16, 4, 4))
    build.end(build.like(Add(), a, b))
    _, made = both(build, off=("siblings",))
    borders = {one.border.pad for one in made.compiled.code.regions.values()}
    assert Pad(2, 2, 2, 2) in borders
    assert not pads(made)
    assert said(made, "stored padding: ")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a14_parts_of_a_concatenation_have_one_border() -> None:
    build = Builder(8, 8, 16)
    a = build.relu(build.conv(build.input, 16))
    b = build.relu(build.conv(a, 32))
    joined = build.concat(a, b)
    build.end(build.conv(build.conv(joined, 8), 8, WINDOW))
    _, made = both(build, off=("concat", "siblings"))
    parts = [one for one in made.compiled.code.regions.values() if one.owner is not None]
    assert len(parts) == 2
    assert {one.border.pad for one in parts} == {Pad(1, 1, 1, 1)}
    assert {one.first - one.base for one in parts} == {3 * (10 + 1)}
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("axis", [1, 2])
def test_sides_inside_a_region_are_padded_by_loads(axis: int) -> None:
    build = Builder(8, 8, 16)
    a = build.relu(build.conv(build.input, 16))
    b = build.relu(build.conv(build.input, 16))
    inner = build.conv(a, 16)
    joined = build.concat(a, b, axis=axis)
    build.graph.outputs["z"] = build.graph.inputs["x"]._replace(tensor=inner, shape=(1, 16, 8, 8))
    build.end(build.conv(joined, 8))
    _, made = both(build, off=("siblings",))
    side = ("bottom", "right")[axis - 1]
    assert said(made, f"loads write its padding ({side}): ")
    assert pads(made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_pooling_of_a_map_of_a_convolution_is_padded_by_loads() -> None:
    """The minimum and the zero point cannot share an address; where they are equal, both are
    stored.
    """
    build = Builder(8, 8, 16)
    data = build.conv(build.input, 16)
    pool = Pool("max", Window((3, 3), (2, 2), Pad(1, 1, 1, 1)))
    a, b = build.conv(data, 16, pool.window), build.pool(data, pool)
    build.end(build.concat(a, b))
    _, made = both(build, off=("pool-first", "concat"))
    assert said(made, "loads write its padding of -128: the border of ")
    _, made = both(build, scheme="sym", off=("pool-first", "concat"))
    assert said(made, "loads write its padding of -128: the border of ")
    alone = Builder(8, 8, 16)
    alone.end(alone.pool(alone.pool(alone.input, pool), Pool("average", WINDOW, count_pad=True)))
    _, made = both(alone)
    borders = [one.border for one in made.compiled.code.regions.values()]
    assert next(one.value for one in borders if one.pad != NO_PAD) == -128
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a14_resnet_8(data_dir: Path) -> None:
    """On a preset core; results and cycles of four frames equal those with padding by loads."""
    path = data_dir / "models" / "mlperf_resnet8_fp32.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    samples = np.random.default_rng(0).uniform(0, 255, (4, 32, 32, 3)).astype(np.float32)
    results, cycles = [], []
    for padding in ("load", "stored"):
        made = compiled_model(path, samples, NPU_SHAPES["npu"], padding=padding)
        outcome = simulate(made.folder, samples, threads=1, check=True)
        assert not any(one.differences for one in outcome.compared)
        results.append([one.tobytes() for one in outcome.stored.values()])
        cycles.append(made.compiled.code.timeline.cycles)
        verify_compiled(made.folder)
    assert results[0] == results[1]
    assert cycles[0] == cycles[1]
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_depthwise_layers_and_upsampled_maps() -> None:
    build = Builder(6, 5, 32)
    first = build.relu(build.conv(build.input, 32, groups=32))
    grown = build.node(Upsample(), [first], (12, 10, 32))
    build.end(build.conv(grown, 16))
    _, made = both(build)
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_maps_of_bits() -> None:
    build = BinaryBuilder(6, 5, 17, 3)
    first = build.sign(build.normalised(build.conv(build.input, 130), 1.0))
    second = build.sign(build.normalised(build.binary(first, 140), 1.0))
    build.end(build.binary(second, 21, alpha=False))
    _, made = both(build)
    kinds = {
        one.tensor.type for one in made.compiled.code.regions.values() if one.border.pad != NO_PAD
    }
    assert "bits" in kinds
    assert not pads(made)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_borders_are_never_overwritten() -> None:
    """Maps of the same border share vectors if their lifetimes are disjoint; other maps stay
    out."""
    build = Builder(12, 12, 16)
    data = build.input
    for _ in range(6):
        data = build.relu(build.conv(data, 16))
    build.end(build.conv(data, 16, Window((1, 1))))
    plain, made = both(build)
    regions = list(made.compiled.code.regions.values())
    bordered = [one for one in regions if one.border.pad != NO_PAD]
    assert len(bordered) == 6
    assert len({one.base for one in bordered}) == 3  # the input has another zero point
    for a, b in combinations(regions, 2):
        if a.base == b.base and a.border == b.border != regions[-1].border:
            assert a.dies < b.born or b.dies < a.born
        elif NO_PAD not in (a.border.pad, b.border.pad):
            assert a.stop <= b.base or b.stop <= a.base
        else:
            for one, other in ((a, b), (b, a)):
                free = np.arange(other.first, other.first + other.vectors)
                assert not np.isin(border_vectors(one), free).any()
    use = memory_use(made.compiled.code.regions)
    assert use.bound <= use.used
    assert memory_use(plain.compiled.code.regions).used < use.used
    assert said(made, "only 3 of them share memory")
    unshared = compiled(build, padding="stored", reuse=False)
    found = [one for one in unshared.compiled.code.regions.values() if one.border.pad != NO_PAD]
    assert len({one.base for one in found}) == 6


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_borders_that_do_not_fit_name_the_option() -> None:
    build = Builder(12, 12, 16)
    build.end(build.conv(build.relu(build.conv(build.input, 16)), 16, SAME))
    shape = replace(SHAPE, map_vectors=300)
    assert compiled(build, shape)
    with pytest.raises(DoesNotFitError, match=r"feature memory: .* omit --padding stored"):
        compiled(build, shape, padding="stored")
