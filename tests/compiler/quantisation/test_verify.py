"""The verification loop, and the loss of each layer."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.node import Host, Quantise
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.reference import INTEGER
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.losses import layer_losses, stored_feeds
from mapper.compiler.quantisation.methods import METHODS
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.ranges import measure_ranges
from mapper.compiler.quantisation.score import (
    Dataset,
    Limits,
    Quantised,
    core_results,
    quantise_graph,
    scored,
)
from mapper.compiler.quantisation.verify import (
    MOST_KEPT,
    Attempt,
    QuantiseRequest,
    Verified,
    compared,
    verified,
)
from mapper.compiler.transforms.registry import optimise
from mapper.errors import MapperError
from tests.compiler.networks import Builder, residual
from tests.compiler.quantisation.test_convert import quantised_by
from tests.storage.formats.onnx_models import model, node, onnx

RANDOM = np.random.default_rng(8)
NEVER = Limits(loss=0.0, signal=500.0)
PRECISION = Precision()


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 0.4, shape).astype(np.float32)


WEIGHTS = {"a": normal(8, 2, 3, 3), "b": normal(8, 8, 3, 3), "d": normal(32, 5)}


def build(folder: Path, kept: Collection[str] = ()) -> Graph:
    """Build two convolutions and a dense layer, followed by Softmax."""
    nodes = [
        node("Conv", "x a", "c"), node("Relu", "c", "r"), node("Conv", "r b", "e"),
        node("Relu", "e", "s"), node("Flatten", "s", "f"), node("Gemm", "f d", "g"),
        node("Softmax", "g", "y", axis=1),
    ]  # fmt: skip
    path = folder / "model.onnx"
    if not path.exists():
        onnx.save(model(nodes, WEIGHTS, {"x": (1, 2, 6, 6)}), str(path))
    graph = Reader(path, FLOAT, kept).read()
    optimise(graph)
    return graph


def samples(frames: int = 48, labels: np.ndarray | None = None) -> Dataset:
    return Dataset({"x": normal(frames, 6, 6, 2)}, labels)


def run(
    folder: Path, limits: Limits, request: QuantiseRequest | None = None,
    data: Dataset | None = None, **more: Any,
) -> Verified:  # fmt: skip
    request = request or QuantiseRequest(PRECISION)
    return verified(lambda kept: build(folder, kept), data or samples(), request, limits, **more)


def quantised_graph(source: Graph, data: Dataset) -> Quantised:
    tensors = Converter(source, PRECISION).quantised_tensors()
    ranges = measure_ranges(source, data.of(source), tensors)
    return quantise_graph(source, ranges, data, PRECISION, "minmax")


def test_c01_the_first_accurate_attempt_ends_the_loop(tmp_path: Path) -> None:
    found = run(tmp_path, Limits(loss=100.0, signal=5.0))
    (row,) = found.attempts
    assert found.reached
    assert (row.method, row.per, row.bits, row.kept) == ("minmax", "channel", 8, ())
    assert row.score.signal is not None
    assert row.score.signal > 20


def test_c01_attempts_are_a_finite_list_in_their_order(tmp_path: Path) -> None:
    seen: list[Attempt] = []
    request = QuantiseRequest(Precision(per_channel=False))
    found = run(tmp_path, NEVER, request, on_attempt=seen.append)
    assert seen == found.attempts
    assert not found.reached
    rows = found.attempts
    assert [row.method for row in rows[:4]] == list(METHODS)
    assert {row.per for row in rows[:4]} == {"tensor"}
    assert rows[4].per == "channel"
    hosted = rows[5:]
    assert 1 <= len(hosted) <= min(MOST_KEPT, 3)
    assert all(row.kept for row in hosted)
    for one, more in itertools.pairwise(hosted):
        assert more.kept[: len(one.kept)] == one.kept


def test_c01_the_worst_layers_get_16_bits_one_by_one(tmp_path: Path) -> None:
    """C01: where cores support it, before layers move to the host; SQNR increases.

    Maps around these layers also have 16 bits.
    """
    request = QuantiseRequest(PRECISION, "minmax", most_kept=1, most_raised=2)
    found = run(tmp_path, NEVER, request)
    wide = [row.wide for row in found.attempts]
    assert wide[0] == ()
    assert all(set(one) < set(more) for one, more in itertools.pairwise(wide[:3]))
    assert wide[3] in wide[:3]
    assert found.attempts[3].kept
    signals = [row.score.signal or 100 for row in found.attempts]
    assert signals[2] > signals[0]
    types = {one.type for one in found.best.graph.tensors()}
    assert "int16" in types


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_c01_the_best_of_all_attempts_is_kept(tmp_path: Path) -> None:
    data = samples()
    found = run(tmp_path, NEVER, data=data)
    ranks = [row.score.rank(NEVER) for row in found.attempts]
    assert ranks[found.number] == max(ranks)
    assert scored(found.best, data.to_verify()) == found.attempts[found.number].score


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_c01_a_requested_method_is_the_only_one(tmp_path: Path) -> None:
    found = run(tmp_path, NEVER, QuantiseRequest(PRECISION, "mse"))
    assert {row.method for row in found.attempts} == {"mse"}
    with pytest.raises(MapperError, match="entropy is for 8 bits"):
        run(tmp_path, NEVER, QuantiseRequest(Precision(bits=16), "entropy"))
    found = run(tmp_path, NEVER, QuantiseRequest(Precision(bits=16)))
    assert [row.method for row in found.attempts if not row.kept] == ["minmax", "percentile", "mse"]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_c01_layers_on_the_host_get_real_numbers_and_give_them_back(tmp_path: Path) -> None:
    """A layer in the middle: its result becomes integers again."""
    made = quantised_graph(build(tmp_path, ["n_e", "n_s"]), samples())
    kinds = [type(one.operator) for one in made.graph.nodes]
    assert kinds.count(Quantise) == 1
    assert kinds.count(Host) == 3  # with Softmax
    why = [one.operator.why for one in made.graph.nodes if isinstance(one.operator, Host)]
    assert why[:2] == ["kept on the host, as asked"] * 2
    (end,) = core_results(made.graph)
    assert end.name == "g"
    score = scored(made, samples())
    assert score.signal is not None
    assert score.signal > 25
    with pytest.raises(MapperError, match="has no node 'n_z' to keep on the host"):
        build(tmp_path, ["n_z"])


def test_c01_scores_with_and_without_labels(tmp_path: Path) -> None:
    data = samples(64)
    source = build(tmp_path)
    made = quantised_graph(source, data)
    # expected by hand, for the last layer that cores compute
    (end,) = core_results(made.graph)
    real_end = next(real for real, one in made.stored.items() if one is end)
    real = run_graph(source, data.of(source), FLOATING, [real_end])[real_end].reshape(64, -1)
    whole = run_graph(made.graph, stored_feeds(data.of(source), made.stored), INTEGER, [end])[end]
    near = (whole.reshape(64, -1) - end.zero_point) * end.scale
    signal = 10 * np.log10((real.astype(float) ** 2).sum() / ((real - near) ** 2).sum())
    other = (real.argmax(1) != near.argmax(1)).mean()
    found = scored(made, data)
    assert found.signal == pytest.approx(signal, abs=1e-3)
    assert found.loss == pytest.approx(100 * other)
    assert found.real is None
    labels = np.where(np.arange(64) % 4 == 0, 0, real.argmax(1))
    found = scored(made, Dataset(data.feeds, labels))
    before, after = (real.argmax(1) == labels).mean(), (near.argmax(1) == labels).mean()
    assert (found.real, found.whole) == pytest.approx((before, after))
    assert found.loss == pytest.approx(100 * (before - after))


@pytest.mark.heavy
def test_a21_comparison_of_precisions_and_methods(tmp_path: Path) -> None:
    data = samples()
    rows = compared(build(tmp_path), data, QuantiseRequest(PRECISION), data)
    assert [row[:3] for row in rows] == [
        (bits, scheme, method)
        for bits in (8, 16)
        for scheme in ("asym", "sym")
        for method in METHODS
        if (bits, method) != (16, "entropy")
    ]
    signals = {row[:3]: row.score.signal or 0.0 for row in rows}
    assert signals[16, "asym", "minmax"] > signals[8, "asym", "minmax"] + 30
    assert signals[8, "asym", "minmax"] > signals[8, "sym", "minmax"]


@pytest.mark.parametrize(("frames", "taken"), [(100, 25), (64, 16), (40, 20), (17, 17), (3, 3)])
def test_c01_every_fourth_sample_verifies_at_least_16(frames: int, taken: int) -> None:
    labels = np.arange(frames)
    found = Dataset({"x": np.zeros((frames, 1, 1, 1), np.float32)}, labels).to_verify()
    assert len(found.feeds["x"]) == taken
    assert found.labels is not None
    assert len(found.labels) == taken


# -- losses of layers ------------------------------------------------------------------------------


def quantised(build: Builder, frames: int = 30, shrink: float = 1.0) -> tuple[Quantised, dict]:
    feeds = {build.input: build.samples(frames)}
    return quantised_by(build, feeds, PRECISION, shrink), feeds


def test_c01_losses_of_layers(tmp_path: Path) -> None:
    build = residual()
    made, feeds = quantised(build)
    rows = layer_losses(made.source, made.graph, made.stored, feeds)
    assert [row.label.split()[0] for row in rows] == ["conv", "conv", "conv", "add", "pool"]
    assert rows[0].own == rows[0].accumulated  # nothing before it
    for row in rows[1:]:
        assert row.own is not None
        assert row.accumulated is not None
        assert row.own > row.accumulated > 10
    last = scored(made, Dataset({"x": feeds[build.input]}))
    assert rows[-1].accumulated == pytest.approx(last.signal)
    for row, layer in zip(rows, made.layers, strict=False):
        assert (row.tensor, row.scale) == (layer.result.name, layer.result.scale)
        assert row.low == pytest.approx(row.scale * (-128 - row.zero_point))
        assert row.high == pytest.approx(row.scale * (127 - row.zero_point))
        assert row.clipped == 0


def test_c01_own_losses_by_hand() -> None:
    """A layer whose inputs are real until they are stored, in float64."""
    build = residual()
    made, feeds = quantised(build)
    layer = made.layers[1]
    row = layer_losses(made.source, made.graph, made.stored, feeds)[1]
    before = next(real for real, one in made.stored.items() if one is layer.conv.inputs[0])
    real = run_graph(made.source, feeds, FLOATING, [before, layer.real])
    stored = layer.conv.inputs[0]
    q = np.clip(np.rint(real[before] / np.float32(stored.scale)) + stored.zero_point, -128, 127)
    sums = np.zeros(real[layer.real].shape)
    weights = layer.conv.inputs[1].value
    assert weights is not None
    padded = np.pad(q - stored.zero_point, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for dy in range(3):
        for dx in range(3):
            part = padded[:, dy : dy + sums.shape[1], dx : dx + sums.shape[2]]
            sums += part @ weights[:, dy, dx].T
    bias = layer.bias + stored.zero_point * weights.reshape(len(weights), -1).sum(1)
    value = np.maximum((sums + bias) * layer.unit, 0)
    steps = np.rint(value / layer.result.scale) + layer.result.zero_point
    near = (np.clip(steps, -128, 127) - layer.result.zero_point) * layer.result.scale
    exact = real[layer.real].astype(float)
    signal = 10 * np.log10((exact**2).sum() / ((exact - near) ** 2).sum())
    assert row.own == pytest.approx(signal, abs=0.01)


def test_c01_clipped_shares() -> None:
    build = residual()
    made, feeds = quantised(build, shrink=0.25)
    rows = layer_losses(made.source, made.graph, made.stored, feeds)
    real = run_graph(made.source, feeds, FLOATING, [one.real for one in made.layers])
    for row, layer in zip(rows, made.layers, strict=False):
        data = real[layer.real]
        half = row.scale / 2
        share = ((data < row.low - half) | (data > row.high + half)).mean()
        assert row.clipped == pytest.approx(share)
        assert row.clipped > 0.001
