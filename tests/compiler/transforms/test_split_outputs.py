"""Layers with more parameters than a core holds: split by outputs, and loaded at run time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Activation, Concat, Conv, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.program.tables import PARAMETERS
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.split_outputs import split_outputs
from tests.compiler.networks import Builder
from tests.compiler.programs import FOUR, Made, compared, compiled

FEW = replace(FOUR, name="few", parameter_words=64, weight_words=256, map_vectors=1 << 14)
DUAL = replace(FEW, multiplier="dual", weight_words=512)
POINT = Window((1, 1))


def dense(*outputs: int, slope: float = 0.0) -> Builder:
    """Build layers of one pixel, like the last ones of AlexNet and VGG."""
    build = Builder(1, 1, 8)
    made = build.input
    for count in outputs:
        made = build.like(Activation(slope), build.conv(made, count, POINT))
    build.end(made)
    return build


def values(build: Builder, made: Made) -> bytes:
    build.random = np.random.default_rng(9)
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
    return simulate(made.folder, samples, 1, check=False).values["y"].tobytes()


def layers(graph: Graph) -> list[int]:
    return [one.output.channels for one in graph.nodes if isinstance(one.operator, Conv)]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("outputs", "wanted"),
    [
        ((112, 112), [112, 112]),  # the bias of both exceeds the memory
        ((112, 124, 100), [112, 124, 100]),
        ((300, 8), [100, 100, 100, 8]),
        ((8, 129), [8, 68, 61]),
    ],
)
def test_too_many_parameters(outputs: tuple[int, ...], wanted: list[int]) -> None:
    """R7.10: 64 parameter words of four channels; every layer equals the reference."""
    build = dense(*outputs)
    made = compiled(build, FEW)
    assert layers(made.compiled.graph) == wanted
    assert PARAMETERS in made.compiled.code.tables.reloaded
    assert {one.differences for one in compared(build, made)} == {0}
    whole = compiled(dense(*outputs), FOUR)
    assert values(build, made) == values(build, whole)


@pytest.mark.jit
@pytest.mark.parametrize("shape", [FEW, DUAL], ids=["leaky", "16 bit"])
def test_leaky_layers_and_16_bits(shape: NpuShape) -> None:
    """Two scales per output, so the parts are smaller."""
    build = dense(160, 8, slope=0.1)
    made = compiled(build, shape, bits=16 if shape is DUAL else 8)
    assert layers(made.compiled.graph) == [80, 80, 8]
    assert {one.differences for one in compared(build, made)} == {0}


@pytest.mark.jit
def test_split_layers_of_whole_maps(tmp_path: object) -> None:
    """Parts form one map for all readers."""
    build = Builder(4, 3, 4)
    window = Window((3, 3), pad=Pad(1, 1, 1, 1))
    wide = build.relu(build.conv(build.input, 150, window))
    build.end(build.conv(build.concat(wide, build.relu(build.conv(wide, 4, POINT))), 8, POINT))
    made = compiled(build, FEW)
    assert sum(isinstance(one.operator, Concat) for one in made.compiled.graph.nodes) >= 1
    assert any("split into 2 parts by outputs" in line for line in made.compiled.log)
    assert {one.differences for one in compared(build, made)} == {0}


def test_layers_that_fit_are_not_split() -> None:
    graph = compiled(dense(124, 8), FOUR).compiled.graph
    count = len(graph.nodes)
    split_outputs(graph, Context(FOUR))
    assert len(graph.nodes) == count
