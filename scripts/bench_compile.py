"""Compiler benchmark on real models: accuracy, SQNR, cycles and seconds, compared with ONNX
Runtime.

    python scripts/bench_compile.py [--data FOLDER] [--only NAME ...] [--json]
    python scripts/bench_compile.py --list

FOLDER holds the models and samples (default: MAPPER_DATA). For each row the script compiles a
model with its calibration samples, runs the program on all images, and compares every stored
tensor of the first few images with the integer reference. If onnxruntime is installed, its static
quantisation gets the same calibration samples in one call; all its methods are tried, per tensor
and per channel, and the best is shown. Models that are already quantised are compared with their
results in onnxruntime, integer networks with the results that came with them. The row of a model
that does not compile shows the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bench_compile_peer import Peer, integer_outputs, quantised_best
from numpy.typing import NDArray

from mapper.cli.main import main as mapper_main
from mapper.compiler.artifacts.manifest import CompiledFolder, read_folder
from mapper.compiler.artifacts.simulate import Outcome, simulate
from mapper.compiler.model import open_model
from mapper.compiler.numerics.execute import run_graph
from mapper.compiler.numerics.floating import FLOATING
from mapper.compiler.numerics.formulas import dequantise
from mapper.compiler.quantisation.losses import Signal
from mapper.compiler.transforms.registry import optimise
from mapper.errors import BEYOND_LIMITS
from mapper.results.tables import columns
from storage.samples import parse_form, read_samples

Array = NDArray[Any]
AT_ONCE, CHECKED = 50, 2  # batch size of the simulator; images that are compared layer by layer


@dataclass(frozen=True)
class Row:
    """A model, its samples and its options.

    count : calibration images; 0 if the model is quantised
    images : images of the measurement, from the start of the samples
    golden : file of the expected results, for integer networks
    """

    name: str
    model: str
    samples: str
    count: int = 0
    images: int = 1000
    normalise: str | None = None
    layout: str | None = None
    npu: str = "npu"
    options: tuple[str, ...] = ()
    golden: str | None = None
    target: str = ""


MNIST, DIGITS = "mnist_test_1000.npz", "scale=1/255,mean=.1307,std=.3081"
CIFAR, RESNET = "eran_cifar10_test100.csv", "mlperf_resnet8_fp32.onnx"
WIDE = {"npu": "npu-dual", "options": ("--bits", "16", "--min-signal", "20")}
ROWS = [
    Row("mnist-8", "mnist-8.onnx", MNIST, 100, target=">= 98.4 %, >= 39 dB, <= 5,000 cycles"),
    Row("mnist-8 sym", "mnist-8.onnx", MNIST, 100, options=("--scheme", "sym")),
    Row("mnist-8 int16", "mnist-8.onnx", MNIST, 100, **WIDE),  # type: ignore[arg-type]
    Row("mnist_pytorch", "mnist_pytorch_ort.onnx", MNIST, 100, 1000, DIGITS,
        target=">= 98.0 %, >= 41.5 dB"),
    Row("ResNet-8", RESNET, CIFAR, 50, 100, layout="nhwc",
        target="88 %, >= 33.5 dB, <= 53,000 cycles"),
    Row("ResNet-8 sym", RESNET, CIFAR, 50, 100, layout="nhwc", options=("--scheme", "sym"),
        target="asym - sym >= 2.5 dB"),
    Row("ResNet-8 int16", RESNET, CIFAR, 50, 100, layout="nhwc", target=">= 70 dB", **WIDE),  # type: ignore[arg-type]
    Row("SqueezeNet", "squeezenet_winml.onnx", "enlarged", 8, 24, npu="ref32",
        target=">= 28 dB"),
    Row("ResNet-8 QOperator", "mlperf_resnet8_pt_QOperator.onnx", CIFAR, 0, 100, layout="nhwc",
        target="100/100"),
    Row("ResNet-8 QDQ", "mlperf_resnet8_pt_QDQ.onnx", CIFAR, 0, 100, layout="nhwc",
        target="100/100"),
    Row("ResNet-8 QDQ per channel", "mlperf_resnet8_pc_QDQ.onnx", CIFAR, 0, 100, layout="nhwc",
        target=">= 97/100"),
    *(
        Row(name, f"deeploy_{name}_network.onnx", f"deeploy_{name}_inputs.npz", 0, 1,
            golden=f"deeploy_{name}_outputs.npz", target="all exact")
        for name in ("AnomalyDetection", "CNN_Linear2", "ImageClassification", "KeywordSpotting",
                     "miniMobileNet")
    ),
    Row("gtsrb_bnn_30", "gtsrb_bnn_30.onnx", "pixels", 0, 120, target="all equal"),
    Row("TFC 1w1a", "tfc_1w1a.onnx", "digits", 0, 1000, target="91.2 %"),
    Row("TFC 2w2a", "tfc_2w2a.onnx", "digits", 0, 1000, target="95.3 %"),
]  # fmt: skip


@dataclass
class Found:
    """A row of the table; None where there is no value."""

    name: str
    accuracy: float | None = None
    float_accuracy: float | None = None
    signal: float | None = None
    same: str = ""
    cycles: int | None = None
    differences: int | None = None
    compile_seconds: float | None = None
    images_per_second: float | None = None
    peer: str = ""
    target: str = ""
    failed: str = ""
    settings: dict[str, Any] = field(default_factory=dict)


def measure(row: Row, data: Path, peer: Peer | None) -> Found:
    """Compile, run and compare one row; a failure is recorded in the result."""
    found = Found(row.name, target=row.target)
    path = data / "models" / row.model
    if not path.is_file():
        found.failed = f"{path} not found"
        return found
    try:
        model = open_model(path)
        x, labels = samples_of(row, data, model.view.shape, model.view.order[-1] == 3)
        arrays: dict[str, Any] = {"x": x} if labels is None else {"x": x, "y": labels}
        np.savez("samples.npz", **arrays)
        started = time.perf_counter()
        said = compiled(row, path)
        found.compile_seconds = time.perf_counter() - started
        if said:
            found.failed = said
            return found
        report = json.loads(Path("out/report.json").read_text())
        found.cycles = report["cycles"]
        folder = read_folder(Path("out"))
        started = time.perf_counter()
        made = outcomes(folder, x)
        found.images_per_second = len(x) / (time.perf_counter() - started)
        checked = simulate(folder, x[:CHECKED], threads(), check=True).compared
        found.differences = sum(one.differences for one in checked)
        compare(row, found, made, (x, labels), data, peer)
    except Exception as error:  # an error in one row must not stop the others
        found.failed = " ".join(f"{type(error).__name__}: {error}".split())[:160]
    return found


def samples_of(
    row: Row, data: Path, shape: tuple[int, ...], last: bool
) -> tuple[Array, NDArray[np.int64] | None]:
    """Return images in the model's input shape, and their classes if known."""
    models = data / "models"
    if row.samples == "enlarged":
        return enlarged(models / CIFAR, row.images, shape)
    if row.samples == "digits":
        return flattened(models / MNIST, row.images, shape)
    if row.samples == "pixels":
        random = np.random.default_rng(0)
        return random.integers(0, 256, (row.images, *shape[1:])).astype(np.float32), None
    if row.golden:
        with np.load(models / row.samples) as arrays:
            (given,) = arrays.values()
            return given.astype(np.float32).reshape(-1, *shape[1:]), None
    found = read_samples(
        models / row.samples, shape[1:], parse_form(row.normalise, row.layout),
        channels_last=last,
    )  # fmt: skip
    labels = None if found.labels is None else found.labels[: row.images]
    return found.x[: row.images], labels


def enlarged(
    path: Path, images: int, shape: tuple[int, ...]
) -> tuple[Array, NDArray[np.int64] | None]:
    """Return small photographs with pixels repeated to fill the model's input, channels first."""
    found = read_samples(path, (32, 32, 3), parse_form(None, "nhwc"), channels_last=True)
    times = -(-shape[2] // 32)
    large = found.x[:images].repeat(times, 1).repeat(times, 2)[:, : shape[2], : shape[3]]
    return np.ascontiguousarray(large.transpose(0, 3, 1, 2)), None


def flattened(
    path: Path, images: int, shape: tuple[int, ...]
) -> tuple[Array, NDArray[np.int64] | None]:
    """Return digits scaled to 0..1 in the model's input shape."""
    with np.load(path) as arrays:
        x, labels = arrays["x"][:images], arrays["y"][:images]
    return (x / np.float32(255)).reshape(-1, *shape[1:]).astype(np.float32), labels


def compiled(row: Row, path: Path) -> str:
    """Compile into `out`; return the error message, or an empty text."""
    words = ["compile", str(path), "--chip", "1x1", "--npu", row.npu, "-o", "out", "--force", "-q",
             "--no-cache", "--keep-going"]  # fmt: skip
    if row.count:
        words += ["--calibrate", "samples.npz", "--samples", str(row.count)]
    with silence() as said:
        try:
            code = mapper_main([*words, *row.options])
        except SystemExit as stop:
            code = int(stop.code or 0)
    lines = Path(said).read_text().strip().splitlines()
    return "" if code in (0, BEYOND_LIMITS) else (lines[-1] if lines else f"exit code {code}")


@contextlib.contextmanager
def silence() -> Iterator[str]:
    """Redirect stdout and stderr to a file."""
    with (
        Path("said.txt").open("w") as said,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        yield "said.txt"


def threads() -> int:
    return os.cpu_count() or 1


def outcomes(folder: CompiledFolder, x: Array) -> Outcome:
    """Run all images through the program."""
    parts = [
        simulate(folder, x[at : at + AT_ONCE], threads(), check=False)
        for at in range(0, len(x), AT_ONCE)
    ]
    joined = [
        {name: np.concatenate([getattr(one, part)[name] for one in parts])
         for name in getattr(parts[0], part)}
        for part in ("values", "stored")
    ]  # fmt: skip
    return Outcome(joined[0], joined[1], [])


def compare(
    row: Row, found: Found, made: Outcome, given: tuple[Array, Array | None], data: Path,
    peer: Peer | None,
) -> None:  # fmt: skip
    """Fill in accuracy, SQNR and agreement with the peer."""
    x, labels = given
    ours = next(iter(made.values.values()))
    path = data / "models" / row.model
    if row.golden:
        with np.load(data / "models" / row.golden) as arrays:
            (wanted,) = arrays.values()
        wrong = int((ours.reshape(wanted.shape) != wanted).sum())
        found.same = f"{wanted.size - wrong}/{wanted.size} elements"
        return
    if labels is not None:
        found.accuracy = float((tops(ours) == labels).mean())
    if row.count:
        float_values, found.signal = beside_floats(row, path, x, made)
        theirs = tops(float_values)
        if labels is not None:
            found.float_accuracy = float((theirs == labels).mean())
        found.same = f"{int((tops(ours) == theirs).sum())}/{len(x)}"
        if peer is not None and not row.options:
            try:
                found.peer = quantised_best(peer, path, list(made.stored), x, row.count, labels)
            except ValueError as error:  # raised because of its outputs
                found.peer = str(error)
    elif peer is not None:
        theirs_all = integer_outputs(peer, path, x)
        if theirs_all is None:
            found.peer = "cannot load it"
            return
        found.same = f"{int((tops(ours) == tops(theirs_all)).sum())}/{len(x)}"
        # Softmax on the host computes in float32 and may differ from onnxruntime in the last bits,
        near = np.isclose(ours.reshape(len(x), -1), theirs_all.reshape(len(x), -1), 1e-5, 1e-6)
        found.peer = f"equal results on {int(near.all(1).sum())}/{len(x)}"
        # so the last tensor that cores compute is also compared, as integers
        name, last = list(made.stored.items())[-1]
        logits = integer_outputs(peer, path, x, name)
        if logits is not None and logits.shape == last.reshape(len(x), -1).shape:
            offset = 128 if logits.dtype == np.uint8 else 0
            equal = (last.reshape(len(x), -1) + offset == logits).all(1)
            found.peer = f"equal integers on {int(equal.sum())}/{len(x)}, {found.peer}"


def tops(values: Array) -> NDArray[np.int64]:
    return values.reshape(len(values), -1).argmax(1)


def beside_floats(row: Row, path: Path, x: Array, made: Outcome) -> tuple[Array, float | None]:
    """Return the float model's first output and the SQNR of the tensors that cores computed."""
    model = open_model(path)
    source = model.build(())
    if any(name not in _names(source) for name in made.stored):
        optimise(source)
    tensors = _names(source)
    folder = read_folder(Path("out"))
    maps: Mapping[str, Any] = {one["name"]: one for one in folder.manifest["maps"]}
    signal, values = Signal(), []
    view = next(iter(source.outputs.values()))
    known = [name for name in made.stored if name in tensors]
    for at in range(0, len(x), AT_ONCE):
        feeds = {
            source.inputs[model.name].tensor: np.ascontiguousarray(
                model.view.stored(x[at : at + AT_ONCE])
            )
        }
        exact = run_graph(
            source, feeds, FLOATING, [*(tensors[name] for name in known), view.tensor]
        )
        values.append(view.array(exact[view.tensor]))
        for name in known:
            one = maps[name]
            near = dequantise(made.stored[name][at : at + AT_ONCE], one["scale"], one["zero_point"])
            signal.add(exact[tensors[name]], near)
    return np.concatenate(values), signal.decibels if known else None


def _names(graph: Any) -> dict[str, Any]:
    return {tensor.name: tensor for node in graph.nodes for tensor in node.outputs}


def show(rows: list[Found]) -> None:
    from rich.console import Console

    heads = ("model", "float", "int", "dB", "same", "cycles", "wrong", "s", "img/s", "onnxruntime",
             "target")  # fmt: skip
    table = [
        (one.name, _share(one.float_accuracy), _share(one.accuracy),
         "" if one.signal is None else f"{one.signal:.1f}", one.same, one.cycles or "",
         "" if one.differences is None else one.differences,
         "" if one.compile_seconds is None else f"{one.compile_seconds:.1f}",
         "" if one.images_per_second is None else f"{one.images_per_second:.0f}",
         one.peer, one.target)
        for one in rows if not one.failed
    ]  # fmt: skip
    console = Console(width=max(140, Console().width))
    console.print(columns("compiled models", heads, table))
    for one in rows:
        if one.failed:
            console.print(f"{one.name}: {one.failed}", soft_wrap=True, markup=False)


def _share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    given = os.environ.get("MAPPER_DATA", str(Path(__file__).resolve().parents[2] / "shared/data"))
    parser.add_argument("--data", type=Path, default=Path(given))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="name prefixes")
    parser.add_argument("--list", action="store_true", help="list the names")
    parser.add_argument("--no-peer", action="store_true", help="do not compare with onnxruntime")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for row in ROWS if not options.only or row.name.startswith(tuple(options.only))]
    if options.list:
        print(*(row.name for row in ROWS), sep="\n")
        return 0
    peer = None if options.no_peer else Peer.found()
    if peer is None and not options.no_peer:
        print("onnxruntime is not installed: its column is empty", file=sys.stderr)
    made, data = [], options.data.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for row in rows:
            print(row.name, "...", file=sys.stderr)
            with contextlib.redirect_stdout(sys.stderr):  # onnxruntime prints progress
                made.append(measure(row, data, peer))
    if options.json:
        print(json.dumps([vars(one) for one in made]))
    else:
        show(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
