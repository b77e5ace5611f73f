"""Small models whose expected results are computed with numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mapper.cli.main import main
from mapper.compiler.artifacts.manifest import read_folder
from mapper.compiler.artifacts.simulate import simulate
from tests.compiler.models import onnx_model, saved
from tests.storage.formats.onnx_models import helper, onnx

Array = NDArray[Any]
RANDOM = np.random.default_rng(34)
FRAMES = 24
SHAPE = (3, 4, 5)


class Case(NamedTuple):
    """A model, samples of shape (frames, ...), and the expected results.

    least : required SNR in dB
    quantised : the compiler gets no samples
    """

    name: str
    nodes: Sequence[Any]
    constants: Mapping[str, Any]
    samples: Array
    right: Array
    least: float
    quantised: bool = False
    opset: int = 17
    chip: str = "1x1"
    kind: int = onnx.TensorProto.FLOAT
    domains: Sequence[str] = ()

    def save(self, folder: Path) -> Path:
        shape = [1, *self.samples.shape[1:]]
        made = onnx_model(
            self.nodes, self.constants, shape, ("y",), self.opset, self.domains, self.kind
        )
        return saved(made, folder)


def node(kind: str, inputs: str, output: str, **more: Any) -> Any:
    """Return a node named after its output; an omitted input is "-"."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, names, output.split(), output.split()[0], **more)


def pointwise(x: Array, w: Array) -> Array:
    """Return a 1x1 convolution in float64."""
    return np.asarray(np.einsum("nchw,oc->nohw", x.astype(float), w[:, :, 0, 0].astype(float)))


def rounded(x: Array, scale: float, zero: int, low: int = 0, high: int = 255) -> Array:
    """Return QuantizeLinear followed by DequantizeLinear."""
    return np.asarray((np.clip(np.rint(x / scale) + zero, low, high) - zero) * scale)


def decibels(right: Array, found: Array) -> float:
    error = ((right - found.reshape(right.shape)) ** 2).sum()
    return float(10 * np.log10((right**2).sum() / max(error, 1e-12)))


def compiled(case: Case, folder: Path, *words: str) -> int:
    """Return the exit code of compiling a case into folder/out."""
    line = ["compile", str(case.save(folder)), "--chip", case.chip, "-o", str(folder / "out")]
    if not case.quantised:
        np.save(folder / "samples.npy", case.samples.astype(np.float32))
        line += ["--calibrate", str(folder / "samples.npy"), "--max-loss", "100"]
    return int(main([*line, "-q", *words]))


def outputs(case: Case, folder: Path) -> Array:
    """Return the compiled model's results for the samples; check every stored map with the
    reference.
    """
    assert compiled(case, folder) == 0
    made = simulate(read_folder(folder / "out"), case.samples.astype(np.float32), 1, True)
    assert {one.differences for one in made.compared} <= {0}
    (found,) = made.values.values()
    return found


def check(case: Case, folder: Path) -> None:
    found = outputs(case, folder)
    assert found.size == case.right.size
    assert decibels(case.right, found) >= case.least
