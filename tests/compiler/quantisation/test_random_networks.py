"""Random networks: every operator after every other, in all precisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import (
    Activation,
    Add,
    Affine,
    Concat,
    PadMap,
    Pool,
    Upsample,
    Window,
)
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.losses import layer_losses
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.ranges import measure_ranges
from mapper.compiler.quantisation.score import Dataset, quantise_graph, scored
from mapper.compiler.transforms.registry import ON_FLOATS, optimise
from tests.compiler.networks import SAME, Builder

CHANNELS = 4
STEPS = (
    "conv", "depthwise", "relu", "clip", "leaky", "slopes", "affine", "max", "mean", "add",
    "concat", "upsample", "pad", "wide",
)  # fmt: skip


def step(build: Builder, kind: str, one: Tensor, other: Tensor) -> Tensor:
    """Add one node; `other` is any earlier map."""
    size = (one.height, one.width)
    match kind:
        case "conv":
            return build.conv(one, CHANNELS)
        case "wide":
            return build.conv(one, CHANNELS, Window((2, 3), (1, 1), Pad(0, 1, 2, 0)))
        case "depthwise":
            return build.conv(one, one.channels, SAME, one.channels)
        case "relu":
            return build.relu(one)
        case "clip":
            return build.like(Activation(0.0, 0.0, 0.8), one)
        case "leaky":
            return build.like(Activation(0.2), one)
        case "slopes":
            slopes = build.constant(build.random.uniform(-0.3, 1.2, one.channels))
            return build.like(Activation(), one, slopes)
        case "affine":
            numbers = (build.constant(build.random.normal(0, 1, one.channels)) for _ in range(2))
            return build.like(Affine(), one, *numbers)
        case "max" | "mean" if min(size) >= 2:
            window = Window((2, 2), (2, 1) if size[0] > 3 else (1, 1))
            return build.pool(one, Pool("max" if kind == "max" else "average", window))
        case "add" if one.shape == other.shape:
            return build.like(Add(), one, other)
        case "concat" if one.shape[:3] == other.shape[:3] and one.channels < 12:
            return build.node(Concat(3), [one, other], (*size, one.channels + other.channels))
        case "upsample" if max(size) < 10:
            return build.node(Upsample(), [one], (2 * size[0], 2 * size[1], one.channels))
        case "pad":
            shape = (size[0] + 1, size[1] + 2, one.channels)
            return build.node(PadMap(Pad(1, 0, 0, 2)), [one], shape)
    return one


def network(kinds: list[tuple[str, int]], seed: int) -> Builder:
    build = Builder(6, 5, 3, seed)
    made = [build.conv(build.input, CHANNELS)]
    for kind, back in kinds:
        made.append(step(build, kind, made[-1], made[-1 - back % len(made)]))
    build.end(build.conv(made[-1], 5))
    return build


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), min_size=1, max_size=8),
    st.integers(0, 1000),
    st.sets(st.sampled_from([one.name for one in ON_FLOATS])),
)
def test_random_networks_in_all_precisions(
    kinds: list[tuple[str, int]], seed: int, off: set[str]
) -> None:
    build = network(kinds, seed)
    graph: Graph = build.graph
    samples = Dataset({"x": build.samples(6)})
    optimise(graph, off)
    tensors = Converter(graph, Precision()).quantised_tensors()
    ranges = measure_ranges(graph, samples.of(graph), tensors)
    signals = []
    for bits in (8, 16):
        made = quantise_graph(graph, ranges, samples, Precision(bits=bits), "minmax")
        found = scored(made, samples).signal
        signals.append(np.inf if found is None else found)
        for row in layer_losses(made.source, made.graph, made.stored, samples.of(graph)):
            assert row.clipped == 0
    assert signals[0] > 10
    assert signals[1] > signals[0] + 25
