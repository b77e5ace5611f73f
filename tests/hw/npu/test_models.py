"""Compiled programs on the NPU core in Amaranth: all memories, and every cycle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.core_run import CoreTimes
from chipsim.npu.cycles import UNITS
from hw.npu.memories.memories import Contents
from mapper.compiler.artifacts import chip_hardware
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.ir.node import Activation, Pool, Window
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import compiled, compiled_model

NPU = NPU_SHAPES["npu"]
FOUR = replace(NPU_SHAPES["tiny"], map_vectors=4096, weight_words=512, parameter_words=512,
               micro_ops=1024, instructions=2048, queue_places=8, token_bits=8)  # fmt: skip


def require_equal(folder: CompiledFolder, samples: np.ndarray[Any, Any]) -> int:
    """Run frames on simulators and hardware; return the cycles of one."""
    run = chip_hardware.check_core(folder, samples)
    assert run.frames == len(samples) and run.instructions and run.bytes
    return run.cycles // run.frames


def pooled() -> Builder:
    build = Builder(6, 6, 3, seed=3)
    first = build.like(Activation(slope=0.1), build.conv(build.input, 10))
    build.end(build.conv(build.pool(first, Pool("max", Window((2, 2), (2, 2)))), 6))
    return build


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
@pytest.mark.parametrize("shape", [FOUR, NPU], ids=lambda shape: shape.name)
@pytest.mark.parametrize("network", [pooled, lambda: residual(3, 10)], ids=["pooled", "residual"])
def test_small_networks(network: Any, shape: NpuShape) -> None:
    """N13.2: layers in tiles, with padding, pooling, a sum, a leaky activation."""
    build = network()
    made = compiled(build, shape)
    sample = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(1)))
    assert require_equal(made.folder, sample) == made.compiled.code.timeline.cycles


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize(("what", "text"), [
    ("weights", "hardware: (INP|ACC|OUT|FM) differs in .* lanes"),
    ("latency", r"hardware: core \(1, 0\): end of instruction 0 of ALU: cycle \[\d+\]"),
])  # fmt: skip
def test_differences_are_named(monkeypatch: pytest.MonkeyPatch, what: str, text: str) -> None:
    """A weight of the hardware differs, or an instruction takes a cycle more."""
    build = pooled()
    folder = compiled(build, FOUR).folder
    sample = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(1)))
    if what == "weights":
        plain = chip_hardware.contents_of

        def other(image: Image, streams: Any) -> Contents:
            weights = image.weights.copy()
            weights[0, 0, 0] ^= 1
            return plain(image._replace(weights=weights), streams)

        monkeypatch.setattr(chip_hardware, "contents_of", other)
    else:
        plain_run = chip_hardware.run_core

        def later(*arguments: Any, **named: Any) -> CoreTimes:
            times = plain_run(*arguments, **named)
            units = chip_hardware.units_of(arguments[1])[: times.end.size]
            times.end[int(np.flatnonzero(units == UNITS.index("ALU"))[0])] += 1
            return times

        monkeypatch.setattr(chip_hardware, "run_core", later)
    with pytest.raises(CheckFailedError, match=text):
        chip_hardware.check_core(folder, sample)


@pytest.mark.jit
@pytest.mark.slow_hw
def test_mnist(data_dir: Path) -> None:
    """N13.2: takes half a minute."""
    pixels = np.load(data_dir / "models" / "mnist_test_1000.npz")["x"][:100]
    samples = pixels.reshape(-1, 1, 28, 28).astype(np.float32)
    made = compiled_model(data_dir / "models" / "mnist-8.onnx", samples, NPU)
    assert require_equal(made.folder, samples[:1]) == made.compiled.code.timeline.cycles
