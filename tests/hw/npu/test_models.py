"""Whole programs of the compiler on the NPU core in Amaranth: all memories, and every cycle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.npu.core_run import run_core
from chipsim.npu.execute import Frame
from mapper.compiler.graph.node import Activation, Pool, Window
from mapper.compiler.manifest import CompiledFolder
from mapper.compiler.simulate import FrameCores, Machine, programs_of
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import compiled, compiled_model
from tests.hw.npu.core_bench import CoreBench
from tests.hw.npu.programs import instructions_of

NPU = NPU_SHAPES["npu"]
FOUR = replace(NPU_SHAPES["tiny"], map_vectors=4096, weight_words=512, parameter_words=512,
               micro_ops=1024, instructions=2048, queue_places=8, token_bits=8)  # fmt: skip


class Watched(FrameCores):
    """Keeps the maps as they are when the program starts."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        super().__init__(machine, frame)
        self.maps = np.zeros((0, 0), np.uint8)

    def start(self, function: int) -> None:
        found = self.frame.memory(self.machine.chip.cores[0])["FM"]
        self.maps = found.astype(np.int8).view(np.uint8)
        super().start(function)


def require_equal(folder: CompiledFolder, sample: np.ndarray[Any, Any]) -> int:
    """Run a frame on simulator and hardware; returns its cycles."""
    machine = Machine(folder)
    (place,) = machine.chip.cores
    program = programs_of(folder)[place]
    frame = machine.chip.frame()
    cores = Watched(machine, frame)
    machine.run(cores, sample)
    table = {
        "micro_ops": program.micro_ops, "headers": program.headers, "weights": program.weights,
        "parameters": program.parameters, "maps": cores.maps,
    }  # fmt: skip
    found = CoreBench(machine.shape).run(instructions_of(program), table)
    wanted = frame.memory(place)
    for name, values in found.memories.items():
        assert np.array_equal(values, wanted[name]), name
    times = run_core(machine.shape, program)
    assert found.start == times.start.tolist()
    assert found.end == times.end.tolist()
    return found.cycles


def pooled() -> Builder:
    build = Builder(6, 6, 3, seed=3)
    first = build.like(Activation(slope=0.1), build.conv(build.input, 10))
    build.end(build.conv(build.pool(first, Pool("max", Window((2, 2), (2, 2)))), 6))
    return build


@pytest.mark.jit
@pytest.mark.parametrize("shape", [FOUR, NPU], ids=lambda shape: shape.name)
@pytest.mark.parametrize("network", [pooled, lambda: residual(3, 10)], ids=["pooled", "residual"])
def test_small_networks(network: Any, shape: NpuShape) -> None:
    """N13.2: layers in tiles, with padding, pooling, a sum, a leaky activation."""
    build = network()
    made = compiled(build, shape)
    sample = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(1)))
    assert require_equal(made.folder, sample) == made.compiled.code.timeline.cycles


@pytest.mark.jit
@pytest.mark.slow_hw
def test_mnist(data_dir: Path) -> None:
    """N13.2: half a minute."""
    pixels = np.load(data_dir / "models" / "mnist_test_1000.npz")["x"][:100]
    samples = pixels.reshape(-1, 1, 28, 28).astype(np.float32)
    made = compiled_model(data_dir / "models" / "mnist-8.onnx", samples, NPU)
    assert require_equal(made.folder, samples[:1]) == made.compiled.code.timeline.cycles
