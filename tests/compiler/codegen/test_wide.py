"""Programs of 16 bits: pairs of bytes in memory, two weight words per product, sums of 48 bits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Activation, Add, Pool, Upsample, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.model import open_model
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from storage.samples import parse_form, read_samples
from tests.compiler.codegen.test_binary import BinaryBuilder
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import DUAL, REF, compiled, exact, folder_of, same

pytestmark = pytest.mark.jit  # their reference implementations are tested in tests/chipsim/npu

SMALL = NpuShape("small-dual", multiplier="dual", input_vectors=96, entries=96)
FOUR = replace(
    NPU_SHAPES["tiny"], name="four-dual", multiplier="dual", map_vectors=1 << 14, weight_words=4096,
    parameter_words=512, micro_ops=1024,
)  # fmt: skip
SHAPES = pytest.mark.parametrize("shape", [DUAL, SMALL, FOUR, REF], ids=lambda one: one.name)


@pytest.mark.heavy
@pytest.mark.sample(1)
@SHAPES
@pytest.mark.parametrize("seed", range(10))
def test_random_networks(seed: int, shape: NpuShape) -> None:
    made = same(random_network(seed), shape, bits=16)
    kinds = {one.kind for one in made.compiled.code.program if one.op == "GEMM"}
    assert kinds <= {"INT16"}


@pytest.mark.heavy
@pytest.mark.sample(1)
@SHAPES
def test_biases_of_more_than_32_bits(shape: NpuShape) -> None:
    """Zero point of the input times the sum of the weights: loaded without its trailing zeros."""
    build = Builder(6, 6, 20, seed=5)
    first = build.relu(build.conv(build.input, 20))
    weights = build.constant(np.abs(build.random.normal(0, 1, (20, 3, 3, 20))) + 0.5)
    second = build.conv(first, 20)
    build.graph.nodes[-1].inputs[1] = weights
    build.end(second)
    made = same(build, shape, bits=16)
    assert any(one.kind == "SHL" for one in made.compiled.code.program)


@pytest.mark.sample(6)
@SHAPES
@pytest.mark.parametrize("seed", range(6))
def test_other_operators(seed: int, shape: NpuShape) -> None:
    """Groups, means, pooling with padding, sums, upsampling, clipping."""
    rng = np.random.default_rng(seed)
    build = Builder(*(int(n) for n in rng.integers((5, 5, 2), (9, 9, 20))), seed)
    channels, pad = build.input.channels, Window((3, 3), (1, 1), Pad(1, 1, 1, 1))
    if seed == 0:
        build.end(build.conv(build.input, channels, pad, channels))
    elif seed == 1:
        build.end(build.pool(build.input, Pool("average", pad)))
    elif seed == 2:
        build.end(build.pool(build.input, Pool("max", pad)))
    elif seed == 3:
        build.end(build.like(Add(), build.input, build.conv(build.input, channels)))
    elif seed == 4:
        wide = (2 * build.input.height, 2 * build.input.width, channels)
        build.end(build.node(Upsample(), [build.input], wide))
    else:
        leaky = build.like(Activation(slope=0.1), build.input)
        whole = Window((build.input.height, build.input.width))
        build.end(build.pool(leaky, Pool("average", whole)))
    same(build, shape, bits=16)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_c01_some_layers_in_16_bits(seed: int) -> None:
    """The worst layers get 16 bits until the SQNR is sufficient; programs mix both."""
    plain = compiled(residual(seed=seed, channels=20), DUAL)
    signal = plain.compiled.verified.attempts[0].score.signal
    assert signal is not None
    build = residual(seed=seed, channels=20)
    made = compiled(build, DUAL, min_signal=signal + 5)
    exact(build, made)
    assert made.compiled.verified.attempts[made.compiled.verified.number].wide
    stored = {one["bits"] for one in made.folder.manifest["maps"]}
    assert stored == {8, 16}
    kinds = {one.kind for one in made.compiled.code.program if one.op == "GEMM"}
    assert "INT16" in kinds
    assert {row.wide for row in plain.compiled.verified.attempts} == {()}


@pytest.mark.heavy
def test_concatenation_of_16_bits() -> None:
    build = Builder(5, 6, 4, seed=1)
    both = build.concat(build.conv(build.input, 32), build.conv(build.input, 16))
    build.end(build.conv(both, 9))
    same(build, DUAL, bits=16)


@pytest.mark.parametrize("sizes", [(16, 32, 32), (16, 16, 64), (16, 128, 64)])
def test_16_bits_take_at_most_2_5_times_the_cycles_of_pairs(sizes: tuple[int, int, int]) -> None:
    """A layer bound by the matrix unit, whose input has a zero point: biases exceed 32 bits, and
    their shifts do not wait for the results of the previous tile."""
    side, inputs, outputs = sizes
    build = Builder(side, side, inputs, seed=1)
    first = build.relu(build.conv(build.input, inputs, Window((1, 1))))
    build.end(build.relu(build.conv(first, outputs)))
    cycles = []
    for bits in (8, 16):
        made = exact(build, compiled(build, NPU_SHAPES["npu-dual"], bits=bits))
        code = made.compiled.code
        cycles.append(code.timeline.end.max() - code.timeline.end[: code.ends[0]].max())
    assert any(one.kind == "SHL" for one in code.program)
    assert cycles[1] <= 2.2 * cycles[0]  # products alone take twice as many


def test_r13_cores_without_a_dual_multiplier_are_rejected() -> None:
    with pytest.raises(MapperError, match=r"--bits 16 needs .* dual .* npu-dual, ref32"):
        compiled(residual(), NPU_SHAPES["npu"], bits=16)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a21_resnet_8_in_16_bits_end_to_end(data_dir: Path) -> None:
    """Every layer of 10 images equals the reference; 70 dB compared with the model."""
    path = data_dir / "models" / "mlperf_resnet8_fp32.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    model = open_model(path)
    images = data_dir / "models" / "eran_cifar10_test100.csv"
    found = read_samples(images, model.view.shape[1:], parse_form(None, "nhwc"))
    shape = replace(DUAL, map_vectors=8192)
    settings = CompileSettings(samples=50, bits=16)
    made = compile_model(model, shape, found, settings)
    score = made.verified.attempts[made.verified.number].score
    assert score.signal is not None
    assert score.signal >= 70
    folder = folder_of(made, Target(Chip("one", 1, 1), shape, settings))
    layers = simulate(folder, found.x[:10], threads=1, check=True).compared
    assert [one.differences for one in layers] == [0] * len(layers)
    verify_compiled(folder)


def test_dual_cores_cannot_send_sums_of_32_bits() -> None:
    build = BinaryBuilder(6, 5, 17, 3)
    first = build.sign(build.normalised(build.conv(build.input, 130), 1.0))
    build.end(build.binary(first, 21, alpha=False))
    with pytest.raises(MapperError, match="32-bit sums go to the host, but dual stores"):
        compiled(build, DUAL)
