"""Invalid models and samples, each with one fault, and the expected message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.compiler.bad_input.good import CHANNELS, KERNELS, SIZE, Good
from tests.storage.formats.onnx_models import onnx


@dataclass(frozen=True)
class Case:
    """damage : changes the model and its samples before they are saved
    after : changes the files; says : expected parts of the message; options : replace the usual
        options
    """

    name: str
    says: tuple[str, ...]
    damage: Callable[[Good], object] = lambda _: None
    after: Callable[[Path], object] = lambda _: None
    code: int = 1
    options: tuple[str, ...] = ("--chip", "1x1", "--calibrate", "samples.npz")


CASES: list[Case] = []


def case(name: str, *says: str, damage: Any = None, after: Any = None, **more: Any) -> None:
    given = {"damage": damage, "after": after}
    chosen = {key: value for key, value in given.items() if value is not None}
    CASES.append(Case(name, says, **chosen, **more))


def put(where: str, **values: Any) -> Callable[[Good], None]:
    """Replace constants or samples."""

    def damage(it: Good) -> None:
        getattr(it, where).update(values)

    return damage


def attribute(node: str, **values: Any) -> Callable[[Good], None]:
    def damage(it: Good) -> None:
        for name, value in values.items():
            it.node(node).attribute.append(onnx.helper.make_attribute(name, value))

    return damage


def spoil(where: str, name: str, value: float) -> Callable[[Good], None]:
    """Replace one number of a constant or of the samples."""

    def damage(it: Good) -> None:
        array = getattr(it, where)[name]
        array.reshape(-1)[array.size // 2] = value

    return damage


def external(it: Path) -> None:
    """Store the constants in a separate file and delete it."""
    model = onnx.load(str(it / "good.onnx"))
    onnx.save_model(
        model, str(it / "good.onnx"), save_as_external_data=True, location="weights.bin",
        size_threshold=0,
    )  # fmt: skip
    (it / "weights.bin").unlink()


def cut(name: str, share: float) -> Callable[[Path], None]:
    def after(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * share)])

    return after


def insert(it: Good, kind: str, after: str, name: str, **attributes: Any) -> None:
    """Insert a node after another one."""
    at = [one.name for one in it.nodes].index(after)
    taken = it.nodes[at].output[0]
    made = onnx.helper.make_node(kind, [taken], [name + ".out"], name, **attributes)
    for one in it.nodes[at + 1 :]:
        one.input[:] = [name + ".out" if x == taken else x for x in one.input]
    it.nodes.insert(at + 1, made)


def cyclic(it: Good) -> None:
    it.nodes.insert(1, onnx.helper.make_node("Add", ["c", "r"], ["c2"], "back"))
    it.node("relu").input[0] = "c2"


def wide(it: Good, inputs: int) -> None:
    """Keep only the dense layer, with many inputs."""
    random = np.random.default_rng(1)
    it.nodes[:] = [onnx.helper.make_node("Gemm", ["x", "w"], ["y"], "dense")]
    it.constants = {"w": random.normal(0, 0.01, (inputs, 2)).astype(np.float32)}
    it.inputs["x"] = [1, inputs]
    it.samples = {"x": random.normal(0, 1, (3, inputs)).astype(np.float32)}


def huge_maps(it: Good) -> None:
    it.nodes[:] = it.nodes[:2]
    it.outputs = ["r"]
    it.inputs["x"] = [1, CHANNELS, 200, 200]
    it.samples = {"x": np.ones((2, CHANNELS, 200, 200), np.float32)}


def many_weights(it: Good) -> None:
    """One layer with more weights than the weight memory of a core holds."""
    random = np.random.default_rng(1)
    it.nodes[:] = [onnx.helper.make_node("Conv", ["x", "w"], ["y"], "large")]
    it.constants = {"w": random.normal(0, 0.02, (512, 512, 1, 1)).astype(np.float32)}
    it.inputs["x"] = [1, 512, 2, 2]
    it.samples = {"x": random.normal(0, 1, (3, 512, 2, 2)).astype(np.float32)}


# -- not a model -----------------------------------------------------------------------------------

case("no onnx", "good.onnx: not a valid ONNX file",
     after=lambda it: (it / "good.onnx").write_bytes(b"MZ nothing of ours" * 9))  # fmt: skip
case("empty", "good.onnx", after=lambda it: (it / "good.onnx").write_bytes(b""))
case("truncated", "good.onnx: not a valid ONNX file", after=cut("good.onnx", 0.7))
case("missing", "good.onnx: no such file", after=lambda it: (it / "good.onnx").unlink())
case("folder", "good.onnx: no such file",
     after=lambda it: ((it / "good.onnx").unlink(), (it / "good.onnx").mkdir()))  # fmt: skip
case("external data", "good.onnx: constant 'w': its data file is missing", after=external)
case("future opset", "opset 999 is not supported", damage=lambda it: setattr(it, "opset", 999))
case("future IR", "IR version 99", damage=lambda it: setattr(it, "ir_version", 99))
case("no nodes", "no output depends on an input",
     damage=lambda it: (it.nodes.clear(), setattr(it, "outputs", ["w"])))  # fmt: skip
case("two inputs", "has 2 inputs ('x', 'z')", damage=put("inputs", z=[1, 3]))
case("open axis", "good.onnx: input 'x': axis 2 has a dynamic size", "--input-shape x=1,",
     damage=put("inputs", x=[1, CHANNELS, "rows", SIZE]))  # fmt: skip
case("shape of another model", "good.onnx: --input-shape x=1,1,2,2: axis 1 of input 'x' has",
     options=("--chip", "1x1", "--calibrate", "samples.npz", "--input-shape",
              "1,1,2,2"))  # fmt: skip
case(
    "five axes",
    "good.onnx: input 'x' has 5 axes",
    damage=put("inputs", x=[1, 1, CHANNELS, SIZE, SIZE]),
)

# -- graphs ----------------------------------------------------------------------------------------

case("cycle", "form a cycle", damage=cyclic)
case("made by nothing", "'relu'", "reads 'nobody', which no node computes",
     damage=lambda it: it.node("relu").input.__setitem__(0, "nobody"))  # fmt: skip
case("made twice", "defines 'c' again",
     damage=lambda it: it.node("relu").output.__setitem__(0, "c"))  # fmt: skip
case("unknown operator", "'odd'", "Frobnicate",
     damage=lambda it: insert(it, "Frobnicate", "relu", "odd"))  # fmt: skip
case(
    "missing output",
    "output 'z': no node computes it",
    damage=lambda it: it.outputs.append("z"),
)
case("kernel channels", "node 'conv' (Conv)", "map has 2 channels, its kernels take 3",
     damage=put("constants", w=np.ones((KERNELS, 3, 3, 3), np.float32)))  # fmt: skip
case("bias length", "node 'conv' (Conv)", "bias has shape (5,)",
     damage=put("constants", b=np.ones(5, np.float32)))  # fmt: skip
case("dense size", "node 'dense' (Gemm)", "takes 36 values, its weights have 35",
     damage=put("constants", dense_w=np.ones((35, 3), np.float32)))  # fmt: skip
case("kernel larger than its map", "node 'conv' (Conv)", "larger than its padded map",
     damage=put("constants", w=np.ones((KERNELS, CHANNELS, 9, 9), np.float32)))  # fmt: skip
case("groups", "node 'conv' (Conv)", damage=attribute("conv", group=3))
case("negative pads", "node 'conv' (Conv)", "pads is (1, 1, 1, -1)",
     damage=lambda it: it.node("conv").attribute[0].ints.__setitem__(3, -1))  # fmt: skip
case("stride of nothing", "node 'conv' (Conv)", "strides is (0, 1)",
     damage=attribute("conv", strides=[0, 1]))  # fmt: skip
case("pool larger than its map", "node 'pool' (MaxPool)", "9x2",
     damage=lambda it: it.node("pool").attribute[0].ints.__setitem__(0, 9))  # fmt: skip

# -- numbers ---------------------------------------------------------------------------------------

case("weight that is no number", "node 'conv' (Conv): NaN or infinite numbers in its weights",
     damage=spoil("constants", "w", np.nan))  # fmt: skip
case("endless weight", "node 'dense' (Gemm): NaN or infinite numbers in its weights",
     damage=spoil("constants", "dense_w", np.inf))  # fmt: skip
case("endless bias", "node 'conv' (Conv): NaN or infinite numbers in its bias",
     damage=spoil("constants", "b", -np.inf))  # fmt: skip
case("sample that is no number", "samples.npz", "sample 3", damage=spoil("samples", "x", np.nan))
case("endless sample", "samples.npz", "sample 3", damage=spoil("samples", "x", np.inf))
case("samples of another size", "samples.npz", "2x6x7", "2x6x6",
     damage=put("samples", x=np.ones((6, 2, 6, 7), np.float32)))  # fmt: skip
case("no samples", "samples.npz", damage=put("samples", x=np.ones((0, 2, 6, 6), np.float32)))
case("samples all zero", "samples.npz", "zero",
     damage=put("samples", x=np.zeros((4, 2, 6, 6), np.float32), y=np.arange(4)))  # fmt: skip
case("samples of words", "samples.npz", damage=put("samples", x=np.array(["a", "b"])))
case("labels of other number", "samples.npz", "6 samples, but y has 2 labels",
     damage=put("samples", y=np.arange(2)))  # fmt: skip
case("label of no class", "labels up to 99", "3 classes", damage=put("samples", y=np.full(6, 99)))
case("labels are no numbers", "samples.npz", damage=put("samples", y=np.full(6, -1)))
case("samples without x", "samples.npz",
     damage=lambda it: setattr(it, "samples", {"z": np.ones(3)}))  # fmt: skip
case("samples cut short", "samples.npz", after=cut("samples.npz", 0.6))
case("samples are a model", "good.onnx", options=("--chip", "1x1", "--calibrate", "good.onnx"))
case("no samples named", "--calibrate", options=("--chip", "1x1"))
case("overflow of float32", "holds NaN or infinite numbers", damage=put(
    "constants", w=np.full((KERNELS, CHANNELS, 3, 3), 3e38, np.float32)))  # fmt: skip

# -- does not fit ----------------------------------------------------------------------------------

case("maps larger than memory", "feature memory:", "short", "a core has 8,192", code=3,
     damage=huge_maps)  # fmt: skip

case("core too small", "memory", "short", code=3, damage=many_weights,
     options=("--chip", "1x1", "--calibrate", "samples.npz", "--npu", "tiny"))  # fmt: skip

# -- the command line ------------------------------------------------------------------------------

USUAL = ("--chip", "1x1", "--calibrate", "samples.npz")
case("unknown NPU", "--npu 'huge' is not known", "give one of", code=2,
     options=(*USUAL, "--npu", "huge"))  # fmt: skip
case("no chip", "chip", code=1, options=("--chip", "none.toml", "--calibrate", "samples.npz"))
case("headroom", "--headroom is 99", code=2, options=(*USUAL, "--headroom", "99"))
case("limit that is no number", "--min-signal is nan", code=2,
     options=(*USUAL, "--min-signal", "nan"))  # fmt: skip
case("node that is not there", "has no node 'nobody'", options=(*USUAL, "--keep", "nobody"))
case("normalise", "normalise", options=(*USUAL, "--normalise", "scale=1/0"))
case("mean of other channels", "mean has 3 numbers", "2 channels",
     options=(*USUAL, "--normalise", "mean=1,2,3"))  # fmt: skip
case("output folder that is not there", "no/such/out", options=(*USUAL, "-o", "no/such/out"))
case("output that is something else", "samples.npz", options=(*USUAL, "-o", "samples.npz"))


# -- quantised models ------------------------------------------------------------------------------


def quantised(**values: Any) -> Callable[[Good], None]:
    """A convolution between QuantizeLinear and DequantizeLinear; values : replaced constants."""

    def damage(it: Good) -> None:
        random, make = np.random.default_rng(2), onnx.helper.make_node
        it.nodes[:] = [
            make("QuantizeLinear", ["x", "xs", "xz"], ["xq"], "input"),
            make("DequantizeLinear", ["xq", "xs", "xz"], ["xf"], "input.real"),
            make("DequantizeLinear", ["wq", "ws", "wz"], ["wf"], "weights", axis=0),
            make("Conv", ["xf", "wf"], ["c"], "conv"),
            make("QuantizeLinear", ["c", "ys", "yz"], ["yq"], "output"),
            make("DequantizeLinear", ["yq", "ys", "yz"], ["y"], "output.real"),
        ]
        it.constants = {
            "xs": np.float32(0.02), "xz": np.int8(3), "ys": np.float32(0.05), "yz": np.int8(-4),
            "wq": random.integers(-90, 90, (KERNELS, CHANNELS, 3, 3)).astype(np.int8),
            "ws": np.full(KERNELS, 0.01, np.float32), "wz": np.zeros(KERNELS, np.int8),
        } | {name: np.asarray(value) for name, value in values.items()}  # fmt: skip

    return damage


def requantised(div: float, levels: int = 256) -> Callable[[Good], None]:
    """A convolution of integers followed by RequantShift."""

    def damage(it: Good) -> None:
        random, make = np.random.default_rng(2), onnx.helper.make_node
        it.nodes[:] = [
            make("Conv", ["x", "w"], ["c"], "conv"),
            make("RequantShift", ["c", "mul", "add"], ["y"], "shift",
                 n_levels_out=np.float32(levels), signed=np.float32(1), div=np.float32(div)),
        ]  # fmt: skip
        it.constants = {
            "w": random.integers(-9, 9, (KERNELS, CHANNELS, 3, 3)).astype(np.float32),
            "mul": np.full((1, KERNELS, 1, 1), 5, np.float32),
            "add": np.full((1, KERNELS, 1, 1), 2, np.float32),
        }

    return damage


ALONE = ("--chip", "1x1")
case("scale of zero", "good.onnx", "scale", damage=quantised(xs=np.float32(0)), options=ALONE)
case("negative scale", "good.onnx", "scale", damage=quantised(ys=np.float32(-1)), options=ALONE)
case("scale that is no number", "good.onnx", "scale", damage=quantised(ys=np.float32(np.nan)),
     options=ALONE)  # fmt: skip
case("scale without end", "good.onnx", "scale", damage=quantised(xs=np.float32(np.inf)),
     options=ALONE)  # fmt: skip
case("scales of other kernels", "good.onnx",
     damage=quantised(ws=np.full(3, 0.01, np.float32)), options=ALONE)  # fmt: skip
case("zero points of other kernels", "good.onnx",
     damage=quantised(wz=np.zeros(3, np.int8)), options=ALONE)  # fmt: skip
case("zero point out of range", "'input' (QuantizeLinear)", "accepted types: int8, uint8",
     damage=quantised(xz=np.int32(300)), options=ALONE)  # fmt: skip
case("samples for a model that is quantised", "omit --calibrate", code=2, damage=quantised())
case("shift that is no power of two", "good.onnx", "'shift'", "power of two",
     damage=requantised(3.0), options=ALONE)  # fmt: skip
case("16 bits on a core of 8", "npu-dual", code=2, options=(*USUAL, "--bits", "16"))
