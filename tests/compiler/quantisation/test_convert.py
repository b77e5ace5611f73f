"""Floating-point graphs as integer graphs: shared scales, bounds, and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import (
    Activation,
    Add,
    Clamp,
    Concat,
    Conv,
    Dense,
    Pool,
    Requantise,
    Upsample,
    Window,
)
from mapper.compiler.ir.tensor import Pad, Tensor
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.losses import Signal, layer_losses, stored_feeds
from mapper.compiler.quantisation.parameters import HEADROOM, Precision, scaling
from mapper.compiler.quantisation.ranges import Ends, measure_ranges
from mapper.compiler.quantisation.score import Dataset, Quantised, scored
from mapper.compiler.transforms.registry import optimise
from mapper.errors import MapperError
from tests.compiler.networks import SAME, Builder, residual

POOL = Window((2, 2), (2, 2))


def quantised_by(
    build: Builder, feeds: Mapping[Tensor, np.ndarray], precision: Precision, shrink: float = 1.0
) -> Quantised:
    """Quantise with the ranges of samples; shrink : factor of the ranges"""
    converter = Converter(build.graph, precision)
    ranges = measure_ranges(build.graph, feeds, converter.quantised_tensors())
    ends = {one: Ends(found.low * shrink, found.high * shrink) for one, found in ranges.items()}
    made = converter.convert(ends)
    return Quantised(build.graph, made, converter.stored, converter.layers, ranges)


def quantised(build: Builder, precision: Precision | None = None) -> Quantised:
    """Quantise with ranges of the first samples of `Builder.samples`."""
    build.random = np.random.default_rng(1)
    return quantised_by(build, {build.input: build.samples(20)}, precision or Precision())


def signal(build: Builder, precision: Precision | None = None) -> float:
    """Return the SQNR on the samples of the ranges, so that no number is clipped."""
    made = quantised(build, precision)
    build.random = np.random.default_rng(1)
    found = scored(made, Dataset({"x": build.samples(20)}))
    assert found.signal is not None
    return found.signal


# -- shared scales ---------------------------------------------------------------------------------


def test_a26_tensors_of_a_concatenation_have_one_scale() -> None:
    """Four convolutions in two concatenations: two pairs of equal scales, each of the wider
    range."""
    build = Builder(5, 5, 3)
    convs = [build.conv(build.input, 4) for _ in range(4)]
    pairs = [build.node(Concat(3), convs[at : at + 2], (5, 5, 8)) for at in (0, 2)]
    build.end(build.node(Concat(1), pairs, (10, 5, 8)))
    build.graph.outputs.clear()  # without the headroom of outputs
    made = build.graph
    made.nodes.pop()
    tensors = [*convs, *pairs]
    inside = HEADROOM[8][0]
    narrow, wide = (scale * 127 / inside for scale in (0.065793789, 0.087572626))
    reach = dict(zip(tensors, [7.0, narrow, 10.0, wide, narrow, wide], strict=True))
    ends: dict[Tensor, Ends] = {one: Ends(-high, high) for one, high in reach.items()}
    ends[build.input] = Ends(-1.0, 1.0)
    converter = Converter(made, Precision(scheme="sym"))
    converter.convert(ends)
    scales = [converter.stored[one].scale for one in tensors]
    assert scales[0] == scales[1] == scales[4] == pytest.approx(0.065793789, rel=1e-6)
    assert scales[2] == scales[3] == scales[5] == pytest.approx(0.087572626, rel=1e-6)


def chain(move: Callable[[Builder, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the stored tensors before and after an operator between two convolutions."""
    build = Builder(6, 6, 4)
    before = build.conv(build.input, 4)
    stop = move(build, before)
    build.end(build.conv(stop, 2))
    made = quantised(build)
    return made.stored[before], made.stored[stop]


@pytest.mark.parametrize(
    "move",
    [
        lambda build, one: build.pool(one, Pool("max", POOL)),
        lambda build, one: build.node(Upsample(), [one], (12, 12, 4)),
        lambda build, one: build.node(Concat(3), [one, build.conv(build.input, 4)], (6, 6, 8)),
        lambda build, one: build.relu(build.pool(one, Pool("max", POOL))),
    ],
)
def test_a26_moved_or_selected_integers_keep_their_scale(
    move: Callable[[Builder, Tensor], Tensor],
) -> None:
    before, stop = chain(move)
    assert (before.scale, before.zero_point) == (stop.scale, stop.zero_point)


def test_a26_addends_keep_their_own_scales() -> None:
    build = residual()
    made = quantised(build)
    add = next(node for node in made.graph.nodes if node.kind == "add")
    one, other = add.inputs
    assert one.scale != other.scale
    assert add.output.scale not in (one.scale, other.scale)


def test_a20_headroom_of_inputs_inner_tensors_and_outputs() -> None:
    for bits, (inside, outside) in HEADROOM.items():
        build = Builder(5, 5, 2)
        inner = build.conv(build.input, 3)
        last = build.conv(inner, 2)
        build.end(last)
        made = quantised(build, Precision(bits=bits, headroom=1.0))
        for tensor, factor in ((build.input, 1.0), (inner, inside), (last, outside)):
            low, high = made.ranges[tensor].low * factor, made.ranges[tensor].high * factor
            stored = made.stored[tensor]
            assert (stored.scale, stored.zero_point) == scaling(low, high, bits, "asym")
            assert stored.type == f"int{bits}"


# -- accuracy --------------------------------------------------------------------------------------


def networks() -> dict[str, Builder]:
    found = {"residual": residual()}

    build = found["pooled"] = Builder(9, 8, 3)
    first = build.pool(build.relu(build.conv(build.input, 8)), Pool("max", POOL))
    second = build.pool(build.relu(build.conv(first, 8)), Pool("average", POOL))
    build.end(second)

    build = found["leaky"] = Builder(7, 7, 3)
    slopes = build.constant(np.array([0.1, 0.3, -0.2, 1.5]))
    one = build.like(Activation(slope=0.1), build.conv(build.input, 4))
    build.end(build.like(Activation(), build.conv(one, 4), slopes))

    build = found["clipped"] = Builder(7, 7, 3)
    one = build.like(Activation(0.0, 0.0, 1.0), build.conv(build.input, 4))
    other = build.like(Activation(1.0, -0.5, 0.25), build.conv(one, 4))
    build.end(build.like(Add(), one, other))

    build = found["grouped"] = Builder(7, 7, 4)
    one = build.relu(build.conv(build.input, 8, Window((3, 3), (2, 2), Pad(1, 0, 1, 1)), 4))
    other = build.conv(one, 8, SAME, 8)
    build.end(build.node(Concat(3), [one, other], (3, 3, 16)))

    build = found["upsampled"] = Builder(4, 4, 3)
    one = build.node(Upsample(), [build.conv(build.input, 4)], (8, 8, 4))
    build.end(build.conv(one, 3, Window((3, 3), pad=Pad(2, 2, 2, 2), dilation=(2, 2))))

    build = found["dense"] = Builder(4, 4, 3)
    weights = build.constant(build.random.normal(0, 0.15, (6, 4, 4, 5)))
    hidden = build.relu(build.conv(build.input, 5))
    build.end(build.node(Dense(), [hidden, weights], (1, 1, 6)))
    return found


@pytest.mark.parametrize("name", list(networks()))
def test_a21_integers_are_accurate_in_all_precisions(name: str) -> None:
    """Rounding errors: 16 bits are 48 dB better than 8, minus the cost of sums and headroom."""
    build = networks()[name]
    eight, sixteen = signal(build), signal(build, Precision(bits=16))
    assert eight > 28
    assert sixteen > eight + 34
    assert signal(build, Precision(scheme="sym")) < eight + 0.5
    assert signal(build, Precision(per_channel=False)) < eight + 2


@pytest.mark.parametrize("name", list(networks()))
def test_stored_numbers_are_in_their_type_and_sums_in_their_bound(name: str) -> None:
    build = networks()[name]
    for bits in (8, 16):
        made = quantised(build, Precision(bits=bits))
        feeds = {build.input: 3 * build.samples(8)}  # beyond the measured ranges
        tensors = [node.output for node in made.graph.nodes]
        data = run_graph(made.graph, stored_feeds(feeds, made.stored), INTEGER, tensors)
        for node in made.graph.nodes:
            found = data[node.output]
            most = 47 if bits == 16 else 31
            limit = node.output.high if node.output.stored else (1 << most) - 1
            assert np.abs(found.astype(object)).max() <= limit + 1
            if isinstance(node.operator, Requantise):
                assert np.abs(data[node.inputs[0]]).max() >> node.operator.how.shift < 2**31


def test_d05_padding_is_the_zero_point() -> None:
    """A 2x2 convolution with one inner pixel and three padding pixels, of a range without
    negatives.
    """
    build = Builder(1, 1, 1)
    weights = build.constant(np.ones((1, 2, 2, 1)))
    window = Window((2, 2), pad=Pad(1, 0, 1, 0))
    build.end(build.node(Conv(window), [build.input, weights], (1, 1, 1)))
    converter = Converter(build.graph, Precision())
    made = converter.convert(
        {build.input: Ends(0.0, 25.5), build.graph.nodes[0].output: Ends(0, 30)}
    )
    stored = converter.stored[build.input]
    assert stored.zero_point == -128
    end = made.nodes[-1].output
    for value in (0.0, 12.3, 25.5):
        feeds = stored_feeds({build.input: np.full((1, 1, 1, 1), value, np.float32)},
                             converter.stored)  # fmt: skip
        found = run_graph(made, feeds, INTEGER, [end])[end].item()
        assert (found - end.zero_point) * end.scale == pytest.approx(value, abs=end.scale)


def stored_results(build: Builder, precision: Precision) -> tuple[Quantised, np.ndarray]:
    made = quantised(build, precision)
    feeds = stored_feeds({build.input: build.samples(40)}, made.stored)
    end = made.graph.nodes[-1].output
    return made, run_graph(made.graph, feeds, INTEGER, [end])[end]


def test_a23_zero_points_in_the_bias_are_close_but_not_equal() -> None:
    build = Builder(9, 9, 8)
    build.end(build.relu(build.conv(build.input, 8)))
    plain, stop = stored_results(build, Precision())
    made, inside = stored_results(build, Precision(zero_point="bias"))
    how = made.graph.nodes[-1].operator
    assert isinstance(how, Requantise)
    assert how.how.zero_point == 0
    assert made.layers[0].result.zero_point != 0
    (one,), (other,) = plain.layers, made.layers
    extra = one.result.zero_point * one.result.scale / one.unit
    assert np.abs(other.bias - one.bias - extra).max() <= 0.5
    far = np.abs(stop - inside)
    assert 0 < (far > 0).mean() < 0.05
    assert far.max() <= 3


def test_a23_leaky_layers_add_their_zero_point_after_the_shift() -> None:
    build = Builder(5, 5, 3)
    build.end(build.like(Activation(slope=0.1), build.conv(build.input, 4)))
    made, _ = stored_results(build, Precision(zero_point="bias"))
    how = made.graph.nodes[-1].operator
    assert isinstance(how, Requantise)
    assert how.how.zero_point == made.layers[0].result.zero_point


@pytest.mark.parametrize("bits", [8, 16])
def test_a25_roundings_differ_only_in_halves(bits: int) -> None:
    results = {}
    for rounding in ("away", "up", "even", "floor"):
        build = residual()
        made, results[rounding] = stored_results(build, Precision(bits=bits, rounding=rounding))
        kinds = [node.operator for node in made.graph.nodes]
        assert all(one.how.rounding == rounding for one in kinds if isinstance(one, Requantise))
        assert [one.rounding for one in kinds if isinstance(one, Add)] == [rounding]
    for rounding in ("up", "even"):
        assert np.abs(results[rounding] - results["away"]).max() <= (1 if bits == 8 else 8)
    assert (results["floor"] < results["away"]).mean() > 0.3


def test_an_activation_of_a_shared_map_is_a_clamp() -> None:
    """Other nodes read the map, so it keeps its negative numbers."""
    build = Builder(5, 5, 3)
    first = build.conv(build.input, 4)
    build.end(build.like(Add(), first, build.relu(first)))
    made = quantised(build)
    assert [node.kind for node in made.graph.nodes] == ["conv", "requantise", "clamp", "add"]
    clamp = made.graph.nodes[2]
    assert isinstance(clamp.operator, Clamp)
    assert clamp.operator.low == clamp.output.zero_point
    assert signal(build) > 35


def test_layers_name_their_nodes_through_all_stages() -> None:
    build = residual()
    graph: Graph = build.graph
    optimise(graph)
    made = quantised(build)
    assert made.graph.nodes[0].sources == ("n0", "n1")  # with its activation
    rows = layer_losses(made.source, made.graph, made.stored, {build.input: build.samples(3)})
    assert rows[0].label == "conv 'n0'"


# -- invalid cases ---------------------------------------------------------------------------------


def one_layer() -> tuple[Builder, np.ndarray, np.ndarray]:
    """Return a network of one layer, its weights and its bias."""
    build = Builder(4, 4, 2)
    build.end(build.conv(build.input, 3))
    weights, bias = (tensor.value for tensor in build.graph.nodes[0].inputs[1:])
    assert weights is not None
    assert bias is not None
    return build, weights, bias


@pytest.mark.parametrize(
    ("number", "value", "says"),
    [
        *((0, value, "weights are not finite") for value in (np.nan, np.inf)),
        *((1, value, "bias does not fit an accumulator") for value in (1e12, np.nan, np.inf)),
    ],
)
def test_biases_beyond_an_accumulator_name_the_layer(number: int, value: float, says: str) -> None:
    """And weights that are not finite."""
    build, *constants = one_layer()
    constants[number][1] = value
    converter = Converter(build.graph, Precision())
    ends = dict.fromkeys(converter.quantised_tensors(), Ends(-1.0, 1.0))
    with pytest.raises(MapperError, match=f"conv 'n0': its {says}"):
        converter.convert(ends)


def test_channels_with_weights_much_smaller_than_their_bias_fit() -> None:
    """Channels that training has switched off: the weights vanish, the bias stays."""
    build, weights, bias = one_layer()
    weights[1] *= 1e-10
    bias[1] = 0.75
    converter = Converter(build.graph, Precision())
    ends = dict.fromkeys(converter.quantised_tensors(), Ends(-1.0, 1.0))
    made = converter.convert(ends)
    assert "weights of some channels (1) are tiny compared with their bias" in converter.notes[0]
    feeds = stored_feeds({build.input: build.samples(4)}, converter.stored)
    end = made.nodes[-1].output
    found = run_graph(made, feeds, INTEGER, [end])[end][..., 1]
    assert np.abs((found - end.zero_point) * end.scale - 0.75).max() <= end.scale


@pytest.mark.parametrize("tiny", [1e-10, 1e-20, 1e-40])
@pytest.mark.parametrize("bias", [0.0, 1e-18])
def test_channels_without_effect_are_zero(tiny: float, bias: float) -> None:
    """Trained models have such channels (densenet121 of the ONNX zoo); no shift fits their
    factor."""
    build, weights, biases = one_layer()
    weights[1] *= tiny
    biases[1] = bias
    made = quantised(build)
    feeds = stored_feeds({build.input: build.samples(4)}, made.stored)
    end = made.graph.nodes[-1].output
    found = run_graph(made.graph, feeds, INTEGER, [end])[end]
    assert (found[..., 1] == end.zero_point).all()
    assert (found[..., 0] != end.zero_point).any()


def test_sqnr_without_error_is_none() -> None:
    found = Signal()
    assert found.decibels is None
    found.add(np.ones(3, np.float32), np.ones(3, np.float32))
    assert found.decibels is None
    found.add(np.ones(1, np.float32), np.full(1, 1.5, np.float32))
    assert found.decibels == pytest.approx(10 * np.log10(4 / 0.25))
