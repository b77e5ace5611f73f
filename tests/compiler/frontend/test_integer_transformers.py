"""Transformers of whole numbers: matrices and tables on cores, the rest on the host, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.cli.main import main
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.explain import explain
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.reference import MIXED
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from tests.compiler import models
from tests.reference import quantised
from tests.reference import whole_operators as twin
from tests.storage.formats.onnx_models import helper, numpy_helper, onnx

SIDE, CHANNELS, HEADS = 4, 16, 2
COUNT = SIDE * SIDE
B, ONE = -26, 770


class WholeNet:
    """A network of whole numbers with the results of each node, computed in Python integers."""

    def __init__(self, seed: int, **changed: Any) -> None:
        self.random = np.random.default_rng(seed)
        self.changed = changed
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}

    def weights(self, *shape: int, most: int = 30) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.random.integers(-most, most + 1, shape)
        return name

    def node(self, kind: str, inputs: list[str], output: str, value: Any, **attributes: Any) -> str:
        attributes |= self.changed.get(kind, {})
        made = {
            name: numpy_helper.from_array(np.float32(one)) if isinstance(one, float) else one
            for name, one in attributes.items()
        }
        own = kind in ("RequantShift", "iLayerNorm", "ITAMax", "iGELU", "IntegerMean")
        domain = "PACTOps" if own else ""
        self.nodes.append(helper.make_node(kind, inputs, [output], output, domain=domain, **made))
        self.values[output] = value
        return output

    def requantised(self, x: str, output: str, mul: int, div: int = 1024, signed: int = 1) -> str:
        add = int(self.random.integers(-div, div))
        names = [f"{output}.mul", f"{output}.add"]
        self.constants |= {names[0]: np.array(mul), names[1]: np.array(add)}
        low = -128 if signed else 0
        value = twin.requant_shift(self.values[x], mul, add, div, low, low + 255)
        numbers = {"div": float(div), "n_levels_out": 256.0, "signed": float(signed)}
        return self.node("RequantShift", [x, *names], output, value, **numbers)

    def product(self, a: str, b: str, output: str) -> str:
        both = self.values | self.constants
        return self.node("MatMul", [a, b], output, both[a] @ both[b])

    def normalised(self, x: str, output: str) -> str:
        names = [f"{output}.weight", f"{output}.bias"]
        self.constants |= {
            names[0]: self.random.integers(20_000, 60_000, CHANNELS),
            names[1]: self.random.integers(-9000, 9000, CHANNELS),
        }
        value = twin.layer_norm(self.values[x], *(self.constants[one] for one in names), 1024)
        return self.node("iLayerNorm", [x, *names], output, value, D=1024.0, n_levels=256.0)

    def moved(self, kind: str, x: str, output: str, to: tuple[int, ...]) -> str:
        if kind == "Transpose":
            return self.node(kind, [x], output, self.values[x].transpose(to), perm=to)
        name = f"{output}.shape"
        self.constants[name] = np.array(to)
        return self.node(kind, [x, name], output, self.values[x].reshape(to))

    def save(self, folder: Path) -> Path:
        kept = {
            name: one if name.endswith(".shape") else one.astype(np.float32)
            for name, one in self.constants.items()
        }
        shape = (1, 3, SIDE, SIDE)
        made = models.onnx_model(self.nodes, kept, shape, opset=11, domains=["PACTOps"])
        return models.saved(made, folder)


def transformer(x: np.ndarray, seed: int = 0, **changed: Any) -> WholeNet:
    """Return one block: attention and two layers after a convolution, then a mean and a class.

    changed : attributes by operator
    """
    net = WholeNet(seed, **changed)
    net.values["x"] = x
    kernels = net.weights(CHANNELS, 3, 1, 1)
    net.node("Conv", ["x", kernels], "patch", quantised.conv(x, net.constants[kernels]))
    net.requantised("patch", "map", 37, signed=0)
    net.moved("Transpose", "map", "last", (0, 3, 2, 1))
    first = net.moved("Reshape", "last", "tokens", (1, COUNT, CHANNELS))
    normal = net.normalised(first, "n1")
    for one in "qkv":
        made = net.product(normal, net.weights(CHANNELS, CHANNELS), f"{one}.sums")
        made = net.requantised(made, f"{one}.whole", 19)
        made = net.moved("Reshape", made, f"{one}.split", (1, COUNT, HEADS, CHANNELS // HEADS))
        net.moved("Transpose", made, one, (0, 2, 3, 1) if one == "k" else (0, 2, 1, 3))
    net.requantised(net.product("q", "k", "scores"), "logits", 9)
    net.node("ITAMax", ["logits"], "shares", twin.ita_max(net.values["logits"]), n_levels=256.0)
    net.requantised(net.product("shares", "v", "mixed"), "heads", 5)
    net.moved("Transpose", "heads", "joined", (0, 2, 1, 3))
    net.moved("Reshape", "joined", "read", (1, COUNT, CHANNELS))
    net.requantised(net.product("read", net.weights(CHANNELS, CHANNELS), "o.sums"), "o", 23)
    net.node("Add", ["tokens", "o"], "r.sums", net.values["tokens"] + net.values["o"])
    net.requantised("r.sums", "r", 700)
    normal = net.normalised("r", "n2")
    wide, bias = net.product(normal, net.weights(CHANNELS, 24), "f.sums"), net.weights(24, most=900)
    net.node("Add", [bias, wide], "f.biased", net.constants[bias] + net.values[wide])
    net.requantised("f.biased", "f", 14)
    net.node("iGELU", ["f"], "g.sums", twin.gelu(net.values["f"], B, ONE), b=B, one=ONE)
    net.requantised("g.sums", "g", 11, 8192)
    net.requantised(net.product("g", net.weights(24, CHANNELS), "h.sums"), "h", 17)
    net.node("IntegerMean", ["h"], "mean", twin.mean(net.values["h"], 1), axes=[1], keepdims=0)
    w = net.weights(5, CHANNELS)
    net.node("Gemm", ["mean", w], "c.sums", net.values["mean"] @ net.constants[w].T, transB=1)
    net.requantised("c.sums", "y", 51)
    return net


def sample(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (1, 3, SIDE, SIDE))


WHERE = {
    "core": {"patch", "q.sums", "k.sums", "v.sums", "o.sums", "f.sums", "h.sums", "mean", "c.sums"},
    "host": {
        "n1", "q", "k", "v", "scores", "logits", "shares", "mixed", "heads", "joined", "n2",
    },
}  # fmt: skip
"""Where nodes run that are not folded into others."""


@pytest.mark.parametrize("seed", range(3))
def test_every_value_is_exact(tmp_path: Path, seed: int) -> None:
    x = sample(seed)
    net = transformer(x, seed)
    graph = open_model(net.save(tmp_path)).build(())
    ((_, view),) = graph.inputs.items()
    made = [one for node in graph.nodes for one in node.outputs]
    found = run_graph(graph, {view.tensor: view.stored(x) + view.tensor.zero_point}, MIXED, made)
    names = {one.name: one for one in made}
    for name in ("map", "n1", "q.whole", "shares", "heads", "o", "r", "n2", "g", "mean", "y"):
        one, wanted = names[name], net.values[name]
        assert len(np.unique(wanted)) > 3, name
        zero = 0 if one.type == "float32" else one.zero_point
        assert sorted((found[one] - zero).ravel()) == sorted(wanted.ravel()), name
    output = graph.outputs["y"]
    result = output.frame(found[output.tensor] - output.tensor.zero_point)
    np.testing.assert_array_equal(result, net.values["y"])


def rows(path: Path) -> Mapping[str, set[str]]:
    found = explain(open_model(path), CompileSettings())
    return {where: {one.node for one in found if one.where == where} for where in ("core", "host")}


def test_where_nodes_run_and_why(tmp_path: Path) -> None:
    path = transformer(sample(0)).save(tmp_path)
    assert rows(path) == WHERE
    found = {one.node: one for one in explain(open_model(path), CompileSettings())}
    assert found["g.sums"].where == "folded"
    assert found["g.sums"].by == "f.sums"
    assert found["n1"].why == "no core computes iLayerNorm"
    assert found["scores"].why == "it multiplies two maps; cores multiply a map by constant weights"
    assert found["logits"].why == "it requantises sums of the host"
    assert found["q.sums"].why == "a convolution with a kernel of 1x1"
    notes = [one for one in open_model(path).build(()).notes if "lacks" in one]
    assert notes == [
        "ITAMax, RequantShift, iLayerNorm: ONNX Runtime lacks this; the host, and the comparison "
        "with ONNX Runtime, compute its definition from ONNX operators"
    ]


def test_programs_equal_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The compiled programs and the host's plan, which also agree with ONNX Runtime."""
    x = sample(7)
    net = transformer(x)
    line = ["compile", str(net.save(tmp_path)), "--chip", "1x1", "-o", str(tmp_path / "out")]
    assert main(line) == 0
    assert "agree with ONNX Runtime" in capsys.readouterr().out
    made = simulate(read_folder(tmp_path / "out"), x.astype(np.float32), 1, True)
    np.testing.assert_array_equal(made.values["y"], net.values["y"])


def test_means_that_a_core_would_round_go_to_the_host(tmp_path: Path) -> None:
    """Halves of 50 numbers round away from zero: one multiplication misses some of them."""
    net = WholeNet(1)
    net.values["x"] = np.zeros((1, 3, SIDE, SIDE))
    net.requantised("x", "a", 1, 1)
    net.moved("Reshape", "a", "b", (1, 3, 16))
    net.node("IntegerMean", ["b"], "m", np.zeros((1, 3)), axes=[2], keepdims=0)
    w = net.weights(5, 3)
    net.node("Gemm", ["m", w], "c", np.zeros((1, 5)), transB=1)
    net.requantised("c", "y", 51)
    assert "m" in rows(net.save(tmp_path))["core"]
    made = onnx.load(str(tmp_path / "model.onnx"))
    sizes = made.graph.input[0].type.tensor_type.shape.dim
    sizes[2].dim_value, sizes[3].dim_value = 5, 10
    (shape,) = (one for one in made.graph.initializer if one.name == "b.shape")
    shape.CopyFrom(numpy_helper.from_array(np.array([1, 3, 50]), "b.shape"))
    found = explain(open_model(models.saved(made, tmp_path)), CompileSettings())
    (why,) = (one.why for one in found if one.node == "m")
    assert why == "the multiplier of a core does not divide by 50 exactly"


def test_undefined_levels_are_refused(tmp_path: Path) -> None:
    path = transformer(sample(0), ITAMax={"n_levels": 128.0}).save(tmp_path)
    with pytest.raises(MapperError, match="n_levels is 128; its shifts are defined for 256"):
        open_model(path)


@pytest.fixture
def trained(data_dir: Path) -> Path:
    """Path of a network that Deeploy provides, up to its parts' names."""
    path = data_dir / "models" / "deeploy_ICCT_8"
    if not Path(f"{path}_network.onnx").exists():
        pytest.skip(f"{path.name} is not there")
    return path


def values_at(path: Path, part: str) -> np.ndarray:
    file = np.load(f"{path}_{part}.npz")
    return np.asarray(file[file.files[0]])


def test_golden_output_of_a_trained_transformer(trained: Path) -> None:
    """deeploy_ICCT_8: the output that Deeploy provides, and the operators on cores."""
    model = open_model(Path(f"{trained}_network.onnx"), signed=True)
    graph = model.build(())
    ((_, view),) = graph.inputs.items()
    output = graph.outputs["output"]
    feeds = {view.tensor: view.stored(values_at(trained, "inputs"))}
    made = run_graph(graph, feeds, MIXED, [output.tensor])[output.tensor]
    golden = values_at(trained, "outputs")
    np.testing.assert_array_equal(output.frame(made) - output.tensor.zero_point, golden)
    found = explain(model, CompileSettings())
    kinds = {
        where: sorted(one.kind for one in found if one.where == where) for where in ("core", "host")
    }
    assert kinds["core"] == ["Conv", "Gemm", "IntegerMean"] + ["MatMul"] * 13 + ["RequantShift"] * 3
    assert kinds["host"] == (
        ["Add"] * 7 + ["Gather"] * 8 + ["ITAMax"] + ["MatMul"] * 2 + ["RequantShift"] * 3
        + ["Transpose"] * 3 + ["iLayerNorm"] * 3
    )  # fmt: skip


@pytest.mark.heavy
def test_golden_output_of_compiled_programs(trained: Path, tmp_path: Path) -> None:
    """deeploy_ICCT_8 on one core with enough memory."""
    chip = tmp_path / "chip.toml"
    chip.write_text(
        'name = "large"\nwidth = 1\nheight = 1\n[npu]\npreset = "npu"\nmap_vectors = 65536\n'
        "weight_words = 4096\nparameter_words = 1024\ninstructions = 8192\n"
    )
    inputs, out = f"{trained}_inputs.npz", tmp_path / "out"
    line = ["compile", f"{trained}_network.onnx", "--chip", str(chip), "--calibrate", inputs]
    assert main([*line, "-q", "-o", str(out)]) == 0
    x = values_at(trained, "inputs").astype(np.float32)
    made = simulate(read_folder(out), x, 1, True)
    np.testing.assert_array_equal(made.values["output"], values_at(trained, "outputs"))
