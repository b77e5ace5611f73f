"""ConvTranspose and DepthToSpace: graphs of real numbers and of integers, before and after the
split into phases, equal the definition of ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.compiler.ir.node import Conv, DepthToSpace, Host, Interleave, Requantise
from mapper.compiler.ir.verifier import require_sound
from mapper.compiler.model import open_model
from mapper.compiler.transforms.base import Context
from mapper.compiler.transforms.phases import split_phases
from mapper.errors import MapperError
from tests.compiler.decoders import conv_transpose, spaced
from tests.compiler.frontend.test_qdq import begin, bias_of, pair, weights
from tests.compiler.models import computed, onnx_model, read
from tests.compiler.quantised import Net, check, how, less, run_integers
from tests.reference import quantised as twin
from tests.storage.formats.onnx_models import helper

Array = NDArray[Any]


class Layer(NamedTuple):
    """A transposed convolution. size : rows and columns of the input; shape : of the weights"""

    size: tuple[int, ...]
    shape: tuple[int, ...]
    attributes: dict[str, Any]

    @property
    def right(self) -> dict[str, Any]:
        """The attributes, as two axes."""
        one = len(self.size) == 1
        found = dict(self.attributes)
        if one:
            for name, first in (("strides", [1]), ("dilations", [1]), ("output_padding", [0])):
                found[name] = [*first, *found[name]]
            begin, end = found["pads"]
            found["pads"] = [0, begin, 0, end]
        return found

    @property
    def length(self) -> tuple[int, ...]:
        """Sizes of the result."""
        fields = ("strides", "dilations", "output_padding")
        strides, dilations, more = (self.attributes[name] for name in fields)
        pads, axes = self.attributes["pads"], len(self.size)
        return tuple(
            strides[at] * (self.size[at] - 1) + more[at] + dilations[at] * (self.shape[2 + at] - 1)
            + 1 - pads[at] - pads[at + axes]
            for at in range(axes)
        )  # fmt: skip


def random_layer(random: np.random.Generator) -> Layer:
    """Return a layer whose result has at least as many rows and columns as its strides."""
    while True:
        group = int(random.choice([1, 1, 1, 2, 3]))
        axes = 1 if random.random() < 0.15 else 2

        def some(low: int, high: int, count: int = axes) -> list[int]:
            return [int(n) for n in random.integers(low, high + 1, count)]

        strides, kernel = some(1, 3), some(1, 5)
        dilations = some(1, 3) if random.random() < 0.3 else [1] * axes
        more = [int(random.integers(0, stride)) for stride in strides]
        attributes = {
            "strides": strides, "dilations": dilations, "output_padding": more,
            "pads": some(0, 3, 2 * axes), "group": group,
        }  # fmt: skip
        shape = (group * some(1, 3)[0], some(1, 3)[0], *kernel)
        found = Layer(tuple(some(1, 6)), shape, attributes)
        if all(length >= stride for length, stride in zip(found.length, strides, strict=True)):
            return found


def layer_model(layer: Layer, random: np.random.Generator) -> tuple[Any, Array, Array]:
    """Return a model of the layer, its weights and its bias."""
    w = random.normal(size=layer.shape).astype(np.float32)
    b = random.normal(size=layer.shape[1] * layer.attributes["group"]).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], "t", **layer.attributes)
    return onnx_model([node], {"w": w, "b": b}, [1, layer.shape[0], *layer.size]), w, b


@pytest.mark.parametrize("seed", range(40))
def test_real_layers_equal_the_definition(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    layer = random_layer(random)
    made, w, b = layer_model(layer, random)
    graph = read(made, tmp_path)
    assert not graph.nodes_of(Host)
    x = random.normal(size=(1, layer.shape[0], *layer.size)).astype(np.float32)
    two = (slice(None), slice(None), *[None] * (2 - len(layer.size)))
    right = conv_transpose(x[two].astype(float), w[two], **layer.right)
    right = right.reshape(*right.shape[:2], *layer.length) + b.reshape(-1, *[1] * len(layer.size))
    require_sound(graph)
    before = computed(graph, {"x": x})["y"]
    np.testing.assert_allclose(before, right, rtol=1e-4, atol=1e-5)
    count = len(graph.nodes_of(Conv))
    split_phases(graph, Context())
    require_sound(graph)
    assert not graph.nodes_of(DepthToSpace)
    phases = int(np.prod(layer.attributes["strides"]))
    assert (count, len(graph.nodes_of(Conv))) == (1, phases)
    assert len(graph.nodes_of(Interleave)) == (phases > 1)
    np.testing.assert_allclose(computed(graph, {"x": x})["y"], right, rtol=1e-4, atol=1e-5)


def test_phases_have_no_products_with_zeros(tmp_path: Path) -> None:
    """A kernel of 4x4 has 2x2 positions in each phase, one of 3x3 has 1 or 2 rows and columns."""
    random = np.random.default_rng(1)
    for size, sizes in ((4, {(2, 2)}), (3, {(1, 1), (1, 2), (2, 1), (2, 2)}), (2, {(1, 1)})):
        attributes: dict[str, Any] = {
            "strides": [2, 2], "dilations": [1, 1], "output_padding": [size % 2] * 2,
            "pads": [(size - 1) // 2] * 4, "group": 1,
        }  # fmt: skip
        layer = Layer((5, 4), (3, 2, size, size), attributes)
        graph = read(layer_model(layer, random)[0], tmp_path)
        split_phases(graph, Context())
        convs = [node.operator for node in graph.nodes_of(Conv)]
        assert {one.window.size for one in convs if isinstance(one, Conv)} == sizes


AUTO = {
    "upper": {"auto_pad": "SAME_UPPER"},
    "lower": {"auto_pad": "SAME_LOWER"},
    "valid": {"auto_pad": "VALID"},
    "shape": {"output_shape": [8, 9]},
    "shape, upper": {"output_shape": [8, 9], "auto_pad": "SAME_UPPER"},
}


@pytest.mark.parametrize("name", AUTO)
def test_paddings_that_follow_from_the_shape(name: str, tmp_path: Path) -> None:
    """SAME_UPPER cuts more at the end, all others at the beginning, as ONNX defines."""
    random = np.random.default_rng(2)
    whole = {"strides": [2, 2], "dilations": [1, 1], "output_padding": [0, 0], "group": 1,
             "pads": [0, 0, 0, 0]}  # fmt: skip
    layer = Layer((4, 5), (2, 3, 3, 3), whole)
    if name != "valid":
        sizes = AUTO[name].get("output_shape", [8, 10])
        cut = [length - size for length, size in zip(layer.length, sizes, strict=True)]  # type: ignore[arg-type]
        first = [n // 2 if "upper" in name else n - n // 2 for n in cut]
        pads = [*first, *(n - before for n, before in zip(cut, first, strict=True))]
    else:
        pads = [0, 0, 0, 0]
    given = {"strides": [2, 2], **AUTO[name]}
    w = random.normal(size=layer.shape).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "t", **given)
    x = random.normal(size=(1, 2, 4, 5)).astype(np.float32)
    graph = read(onnx_model([node], {"w": w}, x.shape), tmp_path)
    right = conv_transpose(x, w, [2, 2], pads)
    np.testing.assert_allclose(computed(graph, {"x": x})["y"], right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("size", [2, 3])
def test_depth_to_space(mode: str, size: int, tmp_path: Path) -> None:
    """Of the input, where layers that only move channels are added, and of a layer."""
    random = np.random.default_rng(3)
    x = random.normal(size=(1, 2 * size**2, 3, 4)).astype(np.float32)
    w = random.normal(size=(3 * size**2, 2 * size**2, 1, 1)).astype(np.float32)
    for first in ([], [helper.make_node("Conv", ["x", "w"], ["c"], "c")]):
        data = "c" if first else "x"
        node = helper.make_node("DepthToSpace", [data], ["y"], "d", blocksize=size, mode=mode)
        constants = {"w": w} if first else {}
        graph = read(onnx_model([*first, node], constants, x.shape), tmp_path)
        taken = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) if first else x
        right = spaced(taken, size, mode)
        np.testing.assert_allclose(computed(graph, {"x": x})["y"], right, rtol=1e-5, atol=1e-5)
        split_phases(graph, Context())
        require_sound(graph)
        assert len(graph.nodes_of(Conv)) == size**2
        np.testing.assert_allclose(computed(graph, {"x": x})["y"], right, rtol=1e-5, atol=1e-5)


def test_blocks_that_do_not_divide_the_channels(tmp_path: Path) -> None:
    node = helper.make_node("DepthToSpace", ["x"], ["y"], "d", blocksize=2)
    with pytest.raises(MapperError, match=r"'d'.*: .*"):
        read(onnx_model([node], {}, (1, 6, 2, 2)), tmp_path)


WHYS = {
    "its kernel is not constant": ("x x", {}, (1, 1, 3, 3)),
    "fewer rows or columns than its stride": ("x w", {"strides": [3, 3]}, (1, 1, 1, 1)),
    "larger than the result": ("x w", {"strides": [3, 3], "output_shape": [9, 9]}, (1, 1, 3, 3)),
}


@pytest.mark.parametrize("why", WHYS)
def test_layers_on_the_host_have_a_reason(why: str, tmp_path: Path) -> None:
    inputs, attributes, shape = WHYS[why]
    node = helper.make_node("ConvTranspose", inputs.split(), ["y"], "t", **attributes)
    w = np.ones((1, 1, 2, 2), np.float32)
    graph = read(onnx_model([node], {"w": w} if "w" in inputs else {}, shape), tmp_path)
    (host,) = graph.nodes_of(Host)
    assert isinstance(host.operator, Host) and why in host.operator.why


# -- quantised models ------------------------------------------------------------------------------


def quantised_layer(seed: int, kind: str, per_channel: bool, follower: str) -> tuple[Net, Any, Any]:
    """Return a model with scales around a ConvTranspose, a sample, and the stored result."""
    random = np.random.default_rng(seed)
    layer = random_layer(random)
    while len(layer.size) < 2:
        layer = random_layer(random)
    net, x, taken = begin(kind, (1, layer.shape[0], *layer.size))
    w, scales, name = weights(net, layer.shape, per_channel, 1)
    outputs = layer.shape[1] * layer.attributes["group"]
    each = np.tile(scales, layer.attributes["group"]) if per_channel else scales
    bias, bias_name = bias_of(net, outputs, taken.scale * each)
    made = how(kind, 0.061, -20)
    last = net.node("ConvTranspose", ["d", name, bias_name], "c", **layer.attributes)
    if follower:
        last = net.node(follower, [last], "f")
    pair(net, last, made, "y")
    sums = conv_transpose(less(x, taken), w, **layer.attributes) + bias.reshape(1, -1, 1, 1)
    factor = taken.scale * np.asarray(each).reshape(-1, *[1, 1] * per_channel) / made.scale
    expected = twin.dequantised(twin.scaled(sums, factor, made), made)
    return net, x, np.maximum(expected, 0) if follower else expected


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("seed", range(8))
def test_quantised_layers_equal_the_definition(
    seed: int, per_channel: bool, tmp_path: Path
) -> None:
    """Bit for bit: one requantisation per output, with the activation in its bounds."""
    kind, follower = ("uint8", "Relu") if seed % 2 else ("int8", "")
    net, x, expected = quantised_layer(seed, kind, per_channel, follower)
    path = net.save(tmp_path)
    graph = open_model(path).build(())
    assert {type(node.operator) for node in graph.nodes} <= {Conv, Requantise, DepthToSpace}
    np.testing.assert_array_equal(run_integers(graph, x)["y"], expected)
    split_phases(graph, Context())
    require_sound(graph)
    np.testing.assert_array_equal(run_integers(graph, x)["y"], expected)


def test_a_scale_per_input_channel_stays_on_the_host(tmp_path: Path) -> None:
    net, _, _ = begin()
    _, _, name = weights(net, (4, 3, 2, 2), True, 0)
    pair(net, net.node("ConvTranspose", ["d", name], "c"), how("uint8", 0.06, 0), "y")
    hosts = [node.operator for node in open_model(net.save(tmp_path)).build(()).nodes_of(Host)]
    whys = {one.node.kind: one.why for one in hosts if isinstance(one, Host)}
    assert "one scale per input channel" in whys["ConvTranspose"]


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_depth_to_space_of_stored_integers(mode: str, kind: str, tmp_path: Path) -> None:
    """Between scales, and of integers themselves, after a layer and before an activation."""
    for stored in (False, True):
        net, x, taken = begin(kind)
        w, scales, name = weights(net, (8, 4, 1, 1), True)
        made = how(kind, 0.05, -9)
        last = net.node("Conv", ["d", name], "c")
        if stored:
            last = net.stored(last, made, "c.stored")
            last = net.node("DepthToSpace", [last], "s", blocksize=2, mode=mode)
            net.real(last, made, "y")
        else:
            last = net.node("DepthToSpace", [last], "s", blocksize=2, mode=mode)
            pair(net, net.node("Relu", [last], "r"), made, "y")
        sums = twin.conv(less(x, taken), w)
        factor = (taken.scale * scales / made.scale).reshape(-1, 1, 1)
        whole = twin.scaled(sums, factor, made)
        if not stored:
            whole = np.maximum(whole, made.zero)
        expected = twin.dequantised(spaced(whole, 2, mode), made)
        graph = check(net, x, expected, tmp_path)
        split_phases(graph, Context())
        require_sound(graph)
        assert len(graph.nodes_of(Conv)) == 4
        np.testing.assert_array_equal(run_integers(graph, x)["y"], expected)
