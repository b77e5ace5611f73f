"""Models that users try first: all of the onnx package, and eight exports of torchvision.

    python scripts/bench_models.py FOLDER [--only NAME ...] [--npu PRESET] [--limit SECONDS]
        [--size PIXELS] [--torch PYTHON] [--json FILE]
    python scripts/bench_models.py --list

Each model is compiled for one core with 8 random calibration images. `mapper compile` compares
every layer and output with ONNX Runtime; each layer reads the tensors that the cores stored.
`--keep-going` keeps results beyond the default limits, e.g. below 20 dB SQNR. The table is
Markdown; the row of a model that does not compile shows the reason.

Models missing in FOLDER/SIZE are created. The onnx package has nine topologies without most of
their weights: all weights are 0.02, so all classes are equal. Random weights replace them.
PYTHON, an interpreter with torch, torchvision and onnxscript, exports the models of torchvision.
`--size` applies to them and to densenet121 and squeezenet; the others accept only 224 x 224 pixels.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from bench_common import machine, mapper, need, run, say
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

from mapper.errors import BEYOND_LIMITS

LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
         "squeezenet", "vgg19", "zfnet512")  # fmt: skip
TORCHVISION = ("alexnet", "vgg11", "resnet18", "squeezenet1_1", "mobilenet_v2",
               "shufflenet_v2_x0_5", "mnasnet0_5", "googlenet")  # fmt: skip
IMAGES = 8
SPREAD = 2.0
"""Standard deviation of the last layer's results; with more, Softmax saturates to one class."""
Array = NDArray[Any]


def light_model(name: str, size: int) -> ModelProto:
    """Return a topology of the onnx package with random weights.

    The seed is fixed, and the variances are those that layers with ReLU preserve (He et al., ICCV
    2015).

    size : rows and columns of the input
    """
    data = Path(onnx.__file__).parent / "backend/test/data/light"
    model = onnx.load(data / f"light_{name}.onnx")
    graph = model.graph
    shapes = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    filled = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    users = {name: (node, at) for node in graph.node for at, name in enumerate(node.input)}
    random = np.random.default_rng(0)
    weights, unused = {}, set()
    for node in filled:
        name, shape = node.output[0], node.input[0]
        weights[name] = _weights(random, *users[name], tuple(shapes[shape]), users)
        unused.add(shape)
    for node in filled:  # removed last: references to later nodes become invalid
        graph.node.remove(node)
    for listed in (graph.initializer, graph.input):
        for one in [one for one in listed if one.name in unused]:
            listed.remove(one)
    known = {one.name for one in graph.initializer} | set(weights)
    (given,) = (one for one in graph.input if one.name not in known)
    for axis in (2, 3):
        given.type.tensor_type.shape.dim[axis].dim_value = size
    last = next(node for node in reversed(graph.node) if node.op_type in ("Conv", "Gemm"))
    reshaped = {one.output[0]: one.input[0] for one in graph.node if one.op_type == "Reshape"}
    scale = SPREAD / _spread(model, weights, last, images(size)[:1])
    for name in last.input[1:]:
        weights[reshaped.get(name, name)] *= scale
    graph.initializer.extend(numpy_helper.from_array(one, name) for name, one in weights.items())
    return model


def _weights(
    random: np.random.Generator,
    node: NodeProto,
    place: int,
    shape: tuple[int, ...],
    users: dict[str, tuple[NodeProto, int]],
) -> NDArray[np.float32]:
    """Return random weights for an input of a node."""
    kind = node.op_type
    while kind in ("Unsqueeze", "Reshape"):  # as in models converted from Caffe
        node, place = users[node.output[0]]
        kind = node.op_type
    if kind in ("Conv", "Gemm") and place == 1:
        found = random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
    elif kind == "Mul" or (kind == "BatchNormalization" and place in (1, 4)):
        found = random.uniform(0.8, 1.2, shape)  # factors and variances
    else:
        found = random.normal(0, 0.1, shape)
    return np.asarray(found, np.float32)


def _spread(model: ModelProto, weights: dict[str, Array], last: NodeProto, image: Array) -> float:
    """Return the standard deviation of a node's results."""
    whole = ModelProto()
    whole.CopyFrom(model)
    whole.graph.initializer.extend(
        numpy_helper.from_array(one, name) for name, one in weights.items()
    )
    whole.graph.output.append(helper.make_empty_tensor_value_info(last.output[0]))
    session = onnxruntime.InferenceSession(whole.SerializeToString())
    found = session.run([last.output[0]], {session.get_inputs()[0].name: image})[0]
    return float(np.asarray(found).std())


def images(size: int) -> NDArray[np.float32]:
    """Return random images of mean 0 and variance 1."""
    random = np.random.default_rng(1)
    return random.normal(size=(IMAGES, 3, size, size)).astype(np.float32)


def model_file(folder: Path, name: str, size: int, python: str) -> Path:
    """Return the file of a model; create it if it is missing."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        if name in LIGHT:
            onnx.save(light_model(name, size), path)
        else:
            script = Path(__file__).with_name("bench_models_torch.py")
            need([python, str(script), str(folder), str(size), name])
    return path


def measure(folder: Path, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Compile a model; return the values of its row, or `failed`."""
    path = model_file(folder, name, options.size, options.torch)
    samples, out = folder / "images.npz", folder / f"{name}-compiled"
    if not samples.exists():
        np.savez(samples, x=images(options.size))
    words = ["--chip", "1x1", "--npu", options.npu, "--calibrate", str(samples), "-o", str(out)]
    process = run(
        mapper("compile", str(path), *words, "--force", "--no-cache", "--keep-going", "-q"),
        options.limit,
    )
    nodes = len(onnx.load(path, load_external_data=False).graph.node)
    found: dict[str, Any] = {"name": name, "nodes": nodes, "seconds": process.cpu_seconds}
    found["memory"] = process.rss_bytes
    kept = process.failed is not None and process.failed.startswith(f"exit {BEYOND_LIMITS}:")
    if process.failed and not kept:
        return found | {"failed": process.failed.partition(": ")[2] or process.failed}
    report = json.loads((out / "report.json").read_text())
    return found | figures(report)


def figures(report: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a compiled model's report; layers and outputs by their lowest SQNR."""
    judge = report["judge"]
    layers = [row for row in judge["rows"] if row["nodes"]]
    outputs = [row for row in judge["rows"] if not row["nodes"]]
    return {
        "products": sum(layer["products"] for layer in report["layers"]),
        "macro_nodes": len(report["layers"]),
        "host": len(report["host"]),
        "cycles": report["cycles"],
        "signal": report["signal_db"],
        "layers": len(layers),
        "worst_layer": least(layers),
        "outputs": least(outputs),
        "left_out": len(judge["left_out"]),
        "why": judge["why"],
        "departs": sum(row["departs"] for row in judge["rows"]),
    }


def least(rows: list[dict[str, Any]]) -> float | None:
    """Return the lowest SQNR in dB; None without error or without rows."""
    return min((row["signal"] for row in rows if row["signal"] is not None), default=None)


HEADS = ("model", "ONNX nodes", "macro nodes", "on the host", "million products", "cycles",
         "whole model", "worst of layers", "outputs", "processor s")  # fmt: skip


def table(found: list[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", "|---" + "|---:" * (len(HEADS) - 1) + "|"]
    return "\n".join([*lines, *(row(one) for one in found)])


def row(one: dict[str, Any]) -> str:
    """Return a row of the table; a model that does not compile shows the reason."""
    if "failed" in one:
        blank = " |" * (len(HEADS) - 4)
        return (
            f"| {one['name']} | {one['nodes']:,} | {one['failed']} |{blank} {one['seconds']:.0f} |"
        )
    worst = f"{decibels(one['worst_layer'])} of {one['layers']}"
    cells = [one["name"], f"{one['nodes']:,}", f"{one['macro_nodes']:,}", f"{one['host']:,}",
             f"{one['products'] / 1e6:,.0f}", f"{one['cycles']:,}", decibels(one["signal"]),
             worst if not one["why"] else one["why"], decibels(one["outputs"]),
             f"{one['seconds']:.0f}"]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def decibels(value: float | None) -> str:
    return "exact" if value is None else f"{value:.1f} dB"


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("models"))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--npu", default="ref32", help="preset of the core")
    parser.add_argument(
        "--limit", type=float, default=900.0, help="time limit of a compilation, seconds"
    )
    parser.add_argument("--size", type=int, default=224, help="rows and columns of images")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--list", action="store_true", help="list the names")
    options = parser.parse_args()
    names = [name for name in (*LIGHT, *TORCHVISION) if not options.only or name in options.only]
    if options.list:
        print(*names, sep="\n")
        return 0
    folder = options.folder / str(options.size)
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in names:
        say(f"{name} ...")
        found.append(measure(folder, name, options))
        say(row(found[-1]))
        if options.json:
            options.json.write_text(json.dumps({"machine": machine(), "models": found}))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
