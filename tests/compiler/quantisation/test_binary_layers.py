"""Binary layers in integers: effect of normalisation on their scales."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.compiler.ir.node import Requantise
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.formulas import dequantise
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.transforms.registry import optimise
from tests.compiler.binary_networks import BinaryBuilder
from tests.compiler.quantisation.test_convert import quantised


def network() -> BinaryBuilder:
    """Build signs, a binary layer, normalisation, and no sign after it."""
    build = BinaryBuilder(5, 6, 20, 2)
    build.end(build.normalised(build.binary(build.sign(build.input), 9), 3.0))
    return build


def test_b08_scales_and_offsets_of_normalisation_join_those_of_the_kernels() -> None:
    """B08: alpha' = alpha * k and b' = the offset, including k < 0 and k = 0."""
    build = network()
    _, layer, norm = build.graph.nodes
    weights, k, offset = (
        np.asarray(one.value, np.float64) for one in (layer.inputs[1], *norm.inputs[1:])
    )
    assert (k < 0).any()
    assert (k == 0).any()
    optimise(build.graph)
    assert [node.kind for node in build.graph.nodes] == ["sign", "conv"]
    made, bias = (np.asarray(one.value) for one in build.graph.nodes[1].inputs[1:])
    assert made == pytest.approx(weights * k[:, None, None, None], rel=1e-6)
    assert bias == pytest.approx(offset, rel=1e-6)


def test_b07_b08_results_are_rounded_once() -> None:
    """B07, B08: scale and offset of each kernel are in the one requantisation of whole sums."""
    build = network()
    optimise(build.graph)
    graph = quantised(build).graph
    assert [node.kind for node in graph.nodes] == ["quantise", "conv", "requantise"]
    values, last = build.samples(3), build.graph.nodes[-1].output
    wanted = run_graph(build.graph, {build.input: values}, FLOATING, [last])[last]
    (given,), (output,) = graph.inputs.values(), graph.outputs.values()
    found = run_graph(graph, {given.tensor: values}, INTEGER, [output.tensor])[output.tensor]
    how = graph.nodes[-1].operator
    assert isinstance(how, Requantise)
    real = dequantise(found, output.tensor.scale, output.tensor.zero_point)
    inside = (found > how.how.low) & (found < how.how.high)
    error = np.abs(real - wanted)[inside]
    assert inside.mean() > 0.9
    assert error.max() <= 0.501 * output.tensor.scale
