"""The judge finds and locates differences from the model; ties and axis orders do not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mapper.compiler.artifacts.judge.beside import Frames, Judge, Predicted
from mapper.compiler.artifacts.judge.compare import (
    Beside,
    MapSums,
    StoredMap,
    is_ambiguous,
    order_of,
)
from mapper.compiler.artifacts.judge.cut import CutModel
from mapper.compiler.numerics.binary import bipolar, quant, trunc
from storage.formats.layers.onnxruns import model_of_node
from tests.compiler.models import onnx_model
from tests.compiler.right_values import RANDOM, node, pointwise, rounded
from tests.storage.formats.onnx_models import helper, numpy_helper

X = RANDOM.normal(size=(8, 3, 4, 5)).astype(np.float32)
W = RANDOM.normal(0, 0.5, (8, 3, 1, 1)).astype(np.float32)
SCALES = {
    "s": np.float32(0.03), "z": np.uint8(100), "u": np.float32(0.053), "v": np.uint8(90),
}  # fmt: skip
QUANTISED = [
    node("QuantizeLinear", "x s z", "xq"), node("DequantizeLinear", "xq s z", "xd"),
    node("Conv", "xd w", "a"), node("QuantizeLinear", "a u v", "aq"),
    node("DequantizeLinear", "aq u v", "y"),
]  # fmt: skip


def bytes_of(
    nodes: list[Any], constants: dict[str, Any], shape: Sequence[int] = (1, 3, 4, 5),
    outputs: Sequence[str] = ("y",),
) -> bytes:  # fmt: skip
    return bytes(onnx_model(nodes, constants, shape, outputs).SerializeToString())


def stored(x: np.ndarray, scale: float, zero: int) -> np.ndarray:
    """Return integers as cores store them: channels last, minus 128."""
    whole = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64) - 128
    return whole.transpose(0, 2, 3, 1)


def rows_of(change: Any = None) -> list[Beside]:
    """Return the comparison of a quantised layer with one change."""
    seen = rounded(X, 0.03, 100)
    maps = {"xq": stored(X, 0.03, 100), "aq": stored(pointwise(seen, W), 0.053, 90)}
    outputs = {"y": rounded(pointwise(seen, W), 0.053, 90).astype(np.float32)[:, None]}
    if change is not None:
        change(maps, outputs)
    known = [StoredMap("xq", (), 0.03, -28, 8), StoredMap("aq", ("Conv_a",), 0.053, -38, 8)]
    judge = Judge(bytes_of(QUANTISED, {**SCALES, "w": W}), known, Predicted({}))
    judge.add(Frames(X, maps, outputs))
    found = judge.judgement()
    assert not found.why
    assert not found.left_out
    return found.rows


def test_right_results_do_not_depart() -> None:
    rows = rows_of()
    assert [row.name for row in rows] == ["xq", "aq", "y"]
    assert not any(row.departs for row in rows)
    assert rows[1].elements == 8 * 8 * 20


def test_an_integer_that_is_off_departs_in_its_layer_alone() -> None:
    def change(maps: dict[str, np.ndarray], _: object) -> None:
        maps["xq"] = maps["xq"].copy()
        maps["xq"][3, 1, 2, 0] += 2

    rows = rows_of(change)
    assert next((row.name, row.differences) for row in rows if row.departs) == ("xq", 1)

    def stop(maps: dict[str, np.ndarray], _: object) -> None:
        maps["aq"][3, 1, 2, 0] += 2

    rows = rows_of(stop)
    assert next(row.name for row in rows if row.departs) == "aq"


def test_an_output_in_another_order_departs() -> None:
    def change(_: object, outputs: dict[str, np.ndarray]) -> None:
        outputs["y"] = outputs["y"][..., ::-1]

    assert [row.name for row in rows_of(change) if row.departs] == ["y"]


@pytest.mark.parametrize(
    ("taken", "whole", "tied"), [(1.5, 1, True), (1.49, 2, True), (1.45, 2, False)]
)
@pytest.mark.parametrize("again", [False, True])
def test_only_halves_are_ties(taken: float, whole: int, tied: bool, again: bool) -> None:
    """again : the integers are quantised again, and cores store only the second ones"""
    nodes = [node("QuantizeLinear", "x one zero", "q")]
    if again:
        nodes += [node("DequantizeLinear", "q one zero", "d"),
                  node("QuantizeLinear", "d fine zero", "r")]  # fmt: skip
    name, scale = ("r", 0.25) if again else ("q", 1.0)
    constants = {"one": np.float32(1), "fine": np.float32(0.25), "zero": np.uint8(0)}
    one = StoredMap(name, (), scale, -128, 8)
    judge = Judge(bytes_of(nodes, constants, (1, 4), [name]), [one], Predicted({}))
    stored = np.full((1, 1, 1, 4), round(whole / scale) - 128)
    judge.add(Frames(np.full((1, 4), taken, np.float32), {name: stored}, {}))
    (row,) = judge.judgement().rows
    assert (row.ties, row.differences) == ((4, 0) if tied else (0, 4))


def test_a_result_may_be_halfway_where_other_values_are_nearly() -> None:
    """5 and 2 are nearly 6 and 1; both changes move the result, (5 - 2) / 2, to 2."""
    nodes = [
        node("QuantizeLinear", "x one zero", "q"), node("DequantizeLinear", "q one zero", "d"),
        node("Conv", "d w", "c"), node("QuantizeLinear", "c two zero", "y"),
    ]  # fmt: skip
    constants = {
        "one": np.float32(1), "two": np.float32(2), "zero": np.int8(0),
        "w": np.float32([[[[1]], [[-1]]]]),
    }  # fmt: skip
    made = bytes_of(nodes, constants, (1, 2, 1, 1))
    judge = Judge(made, [StoredMap("y", (), 2.0, 0, 8)], Predicted({}))
    sample = np.float32([5.495, 1.505]).reshape(1, 2, 1, 1)
    judge.add(Frames(sample, {"y": np.full((1, 1, 1, 1), 1)}, {}))
    (row,) = judge.judgement().rows
    assert (row.ties, row.differences) == (1, 0)


HALVES = {
    "s": np.float32(1), "z": np.int8(0), "t": np.float32(0.5), "k": np.int8(1), "u": np.float32(2),
    "w": np.ones((1, 1, 1, 1), np.int8),
}  # fmt: skip


@pytest.mark.parametrize("as_nodes", [True, False])
@pytest.mark.parametrize(
    ("kind", "inputs", "allowed"),
    [
        ("QLinearAdd", "k s z q s z u z", [{0, 1}, {1}, {1, 2}, {2, 3}]),
        ("QLinearMul", "q s z k t z s z", [{0, 1}, {0, 1}, {1, 2}, {2}]),
    ],
)
def test_only_halves_inside_integer_operators_are_ties(
    kind: str, inputs: str, allowed: list[set[int]], as_nodes: bool
) -> None:
    """The integers before a sum with 1 or a product with 0.5 are not stored: 1/2, 1, 5/2, 4.

    as_nodes : the constants are nodes
    """
    nodes = [
        node("QuantizeLinear", "x t z", "p"), node("QLinearConv", "p t z w s z s z", "q"),
        node(kind, inputs, "y", domain="com.microsoft"),
    ]  # fmt: skip
    constants = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(one)))
        for name, one in HALVES.items()
    ]
    if as_nodes:
        nodes = [*constants, *nodes]
    made = onnx_model(
        nodes, {} if as_nodes else HALVES, (1, 1, 1, 4), ("y",), domains=("com.microsoft",)
    )
    samples = np.float32([[[[0.5, 1, 2.5, 4]]]])
    for whole in range(5):
        judge = Judge(made.SerializeToString(), [StoredMap("y", (), 1.0, 0, 8)], Predicted({}))
        judge.add(Frames(samples, {"y": np.full((1, 1, 4, 1), whole)}, {}))
        (row,) = judge.judgement().rows
        assert row.differences == sum(whole not in one for one in allowed)


def test_steps_below_the_error_of_float32_are_ties() -> None:
    """With a scale of 3e-40, numbers next to 0 may be at either end, others may not."""
    tiny = np.float32(3.41e-40)
    nodes = [node("QuantizeLinear", "x s z", "q")]
    made = bytes_of(nodes, {"s": tiny, "z": np.uint8(100)}, (1, 4), ["q"])
    one = StoredMap("q", (), float(tiny), -28, 8)
    samples = np.float32([[8.0, 1e-7, -1e-7, 0.25]])
    for stored_, differences, ties in (
        ([127, 127, -128, 127], 0, 0),
        ([127, -28, -28, 127], 0, 2),
        ([127, 127, -128, -28], 1, 0),
        ([-128, 127, -128, 127], 1, 0),
    ):
        judge = Judge(made, [one], Predicted({}))
        judge.add(Frames(samples, {"q": np.array(stored_).reshape(1, 1, 1, 4)}, {}))
        (row,) = judge.judgement().rows
        assert (row.differences, row.ties) == (differences, ties)


def test_sqnr_below_the_prediction_departs() -> None:
    exact = RANDOM.normal(size=(1, 3, 40, 50))
    whole = np.rint(exact / 0.03).astype(np.int64)  # about 41 dB
    for predicted, departs in ((40.0, False), (55.0, True), (None, True)):
        sums = MapSums(StoredMap("a", (), 0.03, 0, 8), predicted, known=True)
        sums.add(whole, exact.astype(np.float32))
        assert sums.beside().departs is departs


@pytest.mark.parametrize(
    ("off", "largest", "departs"), [(0, 127, False), (1, 127, True), (0, 20, True)]
)
def test_small_numbers_of_the_host_may_be_the_nearest(
    off: int, largest: int, departs: bool
) -> None:
    """As of Softmax over many elements, most of which are below a step.

    off : of a number; largest : in steps, otherwise the scale is too coarse
    """
    exact = RANDOM.uniform(0, 0.02, (1, 3, 40, 50)).astype(np.float32)
    exact[0, 0, 0, 1] = 0.03 * largest
    whole = np.rint(exact / 0.03).astype(np.int64)
    whole[0, 0, 0, 0] += off
    sums = MapSums(StoredMap("a", (), 0.03, 0, 8), 60.0, known=True, guessed=True)
    sums.add(whole, exact)
    assert sums.beside().departs is departs


def test_small_numbers_may_share_the_scale_of_a_concatenation() -> None:
    """The scale suits the other parts, whose numbers are larger."""
    small = RANDOM.uniform(0, 0.02, (1, 3, 40, 50)).astype(np.float32)
    sums = MapSums(StoredMap("a", (), 0.03, 0, 8), 60.0, known=True, guessed=True)
    sums.add(np.rint(small / 0.03).astype(np.int64), small)
    assert sums.beside().departs
    assert not sums.beside(fills=True).departs


@pytest.mark.parametrize("frames", [1, 8])
@pytest.mark.parametrize(("off", "departs"), [(0.9, False), (9.0, True)])
def test_equal_numbers_have_the_same_error(off: float, departs: bool, frames: int) -> None:
    """A map of two numbers, which the scale met exactly in the samples of the prediction.

    off : error in steps
    """
    sums = MapSums(StoredMap("a", (), 0.01, 0, 8), 60.0, known=True)
    for _ in range(frames):
        whole = RANDOM.integers(0, 2, (1, 4, 9, 9)) * 50
        sums.add(whole, ((whole + (whole > 0) * off) * 0.01).astype(np.float32))
    assert sums.beside().departs is departs


@pytest.mark.parametrize(("stored_", "departs"), [(0, False), (2, False), (60, True)])
@pytest.mark.parametrize("exact", [0.0, 0.3])
def test_maps_that_were_always_0_have_no_sqnr(stored_: int, exact: float, departs: bool) -> None:
    """The errors are relative to 127, the largest number of a map of scale 1."""
    made = bytes_of([node("Mul", "x k", "y")], {"k": np.float32(exact)})
    predicted = Predicted({"y": None}, silent=frozenset({"y"}))
    judge = Judge(made, [StoredMap("y", (), 1, 0, 8)], predicted)
    judge.add(Frames(np.ones_like(X), {"y": np.full((8, 4, 5, 3), stored_)}, {}))
    (row,) = judge.judgement().rows
    assert row.departs is departs


def test_numbers_where_the_model_has_zeros_depart() -> None:
    for whole, departs in ((1, False), (30, True)):
        sums = MapSums(StoredMap("a", (), 0.03, 0, 8), 40.0, known=True)
        sums.add(np.full((1, 4), whole), np.zeros((1, 4), np.float32))
        assert sums.beside().departs is departs


@pytest.mark.parametrize(
    ("own", "departs"),
    [
        ({"a": 36.0, "y": 89.0}, False), ({"a": 70.0, "y": 89.0}, True), ({"y": 89.0}, True),
        ({"y.before_pool": 36.0, "y": 89.0}, False), ({"b.sums": 36.0, "y": 89.0}, False),
        ({"other.before_pool": 36.0, "y": 89.0}, True),
    ],
)  # fmt: skip
def test_layers_without_stored_maps_lose_as_predicted(own: dict[str, float], departs: bool) -> None:
    """Like a convolution in 8 bits before a pooling that is stored in 16."""
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"),
             node("MaxPool", "b", "y", kernel_shape=[2, 2])]  # fmt: skip
    scale, kernel = 2.0**-12, np.rint(W / 0.02) * np.float32(0.02)
    rectified = np.maximum(pointwise(X, kernel), 0)
    pooled = np.maximum.reduce([rectified[:, :, i : i + 3, j : j + 4]
                                for i in (0, 1) for j in (0, 1)])  # fmt: skip
    maps = {"y": np.rint(pooled / scale).astype(np.int64).transpose(0, 2, 3, 1)}
    one = StoredMap("y", ("Conv_a",), scale, 0, 16)
    judge = Judge(bytes_of(nodes, {"w": W}), [one], Predicted(own))
    judge.add(Frames(X, maps, {}))
    (row,) = judge.judgement().rows
    assert row.signal is not None
    assert 30 < row.signal < 45
    assert row.departs is departs


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 1, 2, 3), (0, 3, 2, 1), (0, 2, 3, 1)])
def test_orders_of_axes_are_found(order: tuple[int, ...]) -> None:
    map_ = RANDOM.integers(-100, 100, (1, 4, 4, 4))
    one = StoredMap("a", (), 0.5, 3, 8)
    value = (0.5 * (map_.transpose(order) - 3)).astype(np.float32)
    assert order_of(map_, value, one) == order
    assert order_of(map_, value.reshape(1, -1), one) == order
    assert order_of(map_, value[:, :2], one) is None


def test_the_order_of_many_signs_shows_though_some_differ() -> None:
    """Signs of a first layer differ in a tenth of the elements, 29 % of those behind it."""
    random = np.random.default_rng(1)
    stored_ = random.choice([-1, 1], (1, 10, 6, 16))
    value = stored_.transpose(0, 3, 1, 2).reshape(1, 10, 6, 16).astype(np.float32)
    value *= np.where(random.random(value.shape) < 0.29, -1, 1)
    assert order_of(stored_, value, StoredMap("y", (), 1.0, 0, 1)) == (0, 3, 1, 2)


def test_reshape_hides_the_order_of_axes() -> None:
    map_ = RANDOM.integers(-100, 100, (1, 6, 2, 4))  # rows, columns, channels
    one = StoredMap("a", (), 0.5, 3, 8)
    value = 0.5 * (map_.transpose(0, 3, 1, 2) - 3).reshape(1, 6, 2, 4).astype(np.float32)
    assert order_of(map_, value, one) == (0, 3, 1, 2)


def test_orders_with_the_shape_of_the_value_come_first() -> None:
    """All pixels are equal, so the elements are in the same order with rows or columns first."""
    map_ = np.broadcast_to([1, -1, -1, 1], (1, 8, 4, 4))
    value = map_.transpose(0, 2, 1, 3).astype(np.float32)
    one = StoredMap("y", (), 1.0, 0, 1)
    assert (map_.reshape(value.shape) == value).all()
    assert order_of(map_, value, one) == (0, 2, 1, 3)
    other = np.ones((1, 8, 4, 8), np.int64)
    assert is_ambiguous(other, np.ones((1, 8, 8, 4), np.float32), one)


@pytest.mark.parametrize("right", [True, False])
def test_a_later_frame_shows_the_order_that_a_constant_map_hides(right: bool) -> None:
    """The first map is constant; the columns of the second come first in the model."""
    nodes = [
        node("Transpose", "x", "t", perm=[0, 3, 2, 1]), node("Reshape", "t s", "r"),
        node("QuantizeLinear", "r u v", "y"),
    ]  # fmt: skip
    constants = {"s": np.array([1, 20, 3]), "u": np.float32(1), "v": np.uint8(128)}
    samples = np.concatenate([np.zeros((1, 3, 4, 5)), RANDOM.integers(-9, 9, (2, 3, 4, 5))])
    maps = samples.transpose(0, 2, 3, 1).astype(np.int64)
    maps[2, 0, 1, 2] += not right
    judge = Judge(bytes_of(nodes, constants), [StoredMap("y", (), 1.0, 0, 8)], Predicted({}))
    judge.add(Frames(samples.astype(np.float32), {"y": maps}, {}))
    (row,) = judge.judgement().rows
    assert (row.differences, row.departs) == (int(not right), not right)


@pytest.mark.parametrize("right", [True, False])
def test_the_order_shows_in_values_of_the_stored_maps(right: bool) -> None:
    """Rounding in the first map changes the sine in the second, whose columns come first."""
    nodes = [
        node("Conv", "x w", "a"), node("Mul", "a k", "b"), node("Sin", "b", "c"),
        node("Transpose", "c", "t", perm=[0, 3, 2, 1]), node("Reshape", "t s", "y"),
    ]  # fmt: skip
    constants = {"w": W, "k": np.float32(500), "s": np.array([1, 20, 8])}
    a = np.rint(pointwise(X, W) / 0.03).astype(np.int64)
    y = np.rint(np.sin(500 * np.float32(0.03 * a)) / 0.01).astype(np.int64)
    maps = {name: one.transpose(0, 2, 3, 1) for name, one in (("a", a), ("y", y))}
    if not right:
        maps["y"] = maps["y"][:, :, ::-1]
    known = [StoredMap("a", (), 0.03, 0, 8), StoredMap("y", (), 0.01, 0, 8)]
    judge = Judge(bytes_of(nodes, constants), known, Predicted({"a": 30.0, "y": 30.0}))
    judge.add(Frames(X[:1], {name: one[:1] for name, one in maps.items()}, {}))
    assert [row.departs for row in judge.judgement().rows] == [False, not right]


def test_maps_unlike_the_model_keep_the_usual_order() -> None:
    """Like signs after many layers."""
    one = StoredMap("a", (), 1.0, 0, 8)
    for seed in range(20):
        random = np.random.default_rng(seed)
        stored_, value = (random.choice((-1, 1), (1, 5, 5, 5)) for _ in range(2))
        assert order_of(stored_, value.astype(np.float32), one) == (0, 3, 1, 2)


# -- operators that ONNX Runtime lacks -------------------------------------------------------------


def plain(kind: str, constants: list[np.ndarray], **more: Any) -> np.ndarray:
    """Return the judge's result of a QONNX node of X."""
    names = ["x", *(f"c{at}" for at in range(len(constants)))]
    proto = helper.make_node(kind, names, ["y"], domain="qonnx.custom_op.general", **more)
    known = dict(zip(names[1:], constants, strict=True))
    opsets = [("", 9), ("qonnx.custom_op.general", 1)]
    made = model_of_node(proto, {"x": (np.dtype(np.float32), [1, 3, 4, 5])}, known, opsets)
    return CutModel(made, ["y"], X[:1]).first["y"]


@pytest.mark.parametrize("mode", ["ROUND", "FLOOR", "CEIL", "ROUND_TO_ZERO"])
@pytest.mark.parametrize("bits", [2.0, 4.0, 8.0])
def test_quant(bits: float, mode: str) -> None:
    for signed, narrow in ((1, 0), (1, 1), (0, 0)):
        scale, zero = np.float32(0.125), np.float32(1)
        found = plain("Quant", [scale, zero, np.float32(bits)], signed=signed, narrow=narrow,
                      rounding_mode=mode)  # fmt: skip
        wanted = quant(X[:1], scale, zero, bits, (bool(signed), bool(narrow)), mode)
        np.testing.assert_array_equal(found, wanted)


def test_bipolar_and_trunc() -> None:
    scale = np.float32(0.25)
    np.testing.assert_array_equal(plain("BipolarQuant", [scale]), bipolar(X[:1], scale))
    zero, bits = np.float32(0), (8.0, 5.0)
    found = plain("Trunc", [scale, zero, *map(np.float32, bits)])
    np.testing.assert_array_equal(found, trunc(X[:1], scale, zero, bits, "FLOOR"))


def test_signs_within_the_error_of_a_value_before_them_may_differ() -> None:
    """An error of a tenth of the largest number, of a value that a constant is subtracted from."""
    nodes = [node("Abs", "x", "a"), node("Sub", "a k", "d"), node("Sign", "d", "y")]
    cut = CutModel(bytes_of(nodes, {"k": np.float32(1)}), ["y"], X[:1], {"a": 0.1})
    low, high = (cut.run(X[:1], {"y": X[:1]}, (by, by))["y"] for by in (-1 / 64, 1 / 64))
    apart = np.abs(np.abs(X[:1]) - 1)
    within = apart < 0.1 * np.abs(X[:1]).max()
    assert within.any()
    np.testing.assert_array_equal(low != high, within)


@pytest.mark.parametrize(("signs", "error"), [(False, 2.0**-8), (True, 2.0**-16)])
def test_signs_of_layers_with_rounded_weights_may_differ(signs: bool, error: float) -> None:
    """Weights of one size per kernel are exact."""
    w = np.where(W < 0, np.float32(-0.5), np.float32(0.5)) if signs else W
    nodes = [node("Conv", "x w", "a"), node("Sign", "a", "y")]
    cut = CutModel(bytes_of(nodes, {"w": w}), ["y"], X[:1])
    sums = pointwise(X[:1], w)
    given = {"y": np.sign(sums).astype(np.float32)}
    low, high = (cut.run(X[:1], given, (by, by))["y"] for by in (-1 / 64, 1 / 64))
    np.testing.assert_array_equal(low != high, np.abs(sums) < error * np.abs(sums).max())


def test_each_output_is_judged_by_its_own_prediction() -> None:
    """At 20 dB an output that loses 12 dB by itself is right, and one that loses 35 dB is not."""
    nodes = [node("Neg", "x", "a"), node("Abs", "x", "b")]
    made = bytes_of(nodes, {}, outputs=["a", "b"])
    predicted = Predicted({}, {"a": 12.0, "b": 35.0})
    for share, departs in ((0.1, ["b"]), (2.0, ["a", "b"]), (0.01, [])):
        judge = Judge(made, [], predicted)
        judge.add(Frames(X, {}, {"a": -X * (1 + share), "b": np.abs(X) * (1 + share)}))
        assert [row.name for row in judge.judgement().rows if row.departs] == departs


def test_operators_that_onnx_runtime_lacks_are_not_judged() -> None:
    proto = helper.make_node("Wibble", ["x"], ["y"])
    made = model_of_node(proto, {"x": (np.dtype(np.float32), [1, 3, 4, 5])}, {}, [("", 17)])
    judge = Judge(made, [StoredMap("y", (), 1.0, 0, 8)], Predicted({}))
    judge.add(Frames(X, {"y": np.zeros((8, 4, 5, 3), np.int64)}, {"y": X}))
    found = judge.judgement()
    assert "Wibble" in found.why
    assert found.departure is None
