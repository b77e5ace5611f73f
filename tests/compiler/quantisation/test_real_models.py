"""Real models and samples: required accuracy figures of quantisation."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from mapper.compiler.frontend.float import FLOAT
from mapper.compiler.frontend.onnx import Reader
from mapper.compiler.ir.graph import Graph
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.parameters import Precision
from mapper.compiler.quantisation.ranges import measure_ranges
from mapper.compiler.quantisation.score import Dataset, Score, quantise_graph, scored
from mapper.compiler.transforms.registry import optimise
from storage.samples import parse_form, read_samples

pytest.importorskip("onnx", reason="ONNX models need onnx")


class Case(NamedTuple):
    """A model, its samples, their conversion to its input, and how many of them calibrate."""

    model: str
    samples: str
    normalise: str | None
    layout: str | None
    count: int


MNIST = Case("mnist-8", "mnist_test_1000.npz", None, None, 100)
PYTORCH = Case(
    "mnist_pytorch_ort", "mnist_test_1000.npz", "scale=1/255,mean=.1307,std=.3081", None, 100
)
RESNET = Case("mlperf_resnet8_fp32", "eran_cifar10_test100.csv", None, "nhwc", 50)


def read(folder: Path, case: Case) -> Graph:
    path = folder / "models" / f"{case.model}.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    graph = Reader(path, FLOAT).read()
    optimise(graph)
    return graph


def samples(folder: Path, case: Case, graph: Graph) -> tuple[Dataset, Dataset]:
    """Return the calibration samples, and all samples."""
    ((name, view),) = graph.inputs.items()
    form = parse_form(case.normalise, case.layout)
    found = read_samples(folder / "models" / case.samples, view.shape[1:], form)
    x, labels = view.stored(found.x), found.labels
    assert labels is not None
    return Dataset({name: x[: case.count]}), Dataset({name: x}, labels)


def score(folder: Path, case: Case, precision: Precision, correct: bool = True) -> Score:
    graph = read(folder, case)
    calibration, test = samples(folder, case, graph)
    tensors = Converter(graph, precision).quantised_tensors()
    ranges = measure_ranges(graph, calibration.of(graph), tensors)
    made = quantise_graph(graph, ranges, calibration if correct else None, precision, "minmax")
    return scored(made, test)


def decibels(found: Score) -> float:
    assert found.signal is not None
    return found.signal


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize(
    ("case", "accuracy", "signal"), [(MNIST, 0.984, 39.0), (PYTORCH, 0.980, 41.5)]
)
def test_digits(data_dir: Path, case: Case, accuracy: float, signal: float) -> None:
    found = score(data_dir, case, Precision())
    assert found.whole is not None
    assert found.whole >= accuracy
    assert decibels(found) >= signal


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_digits_without_correction(data_dir: Path) -> None:
    assert decibels(score(data_dir, MNIST, Precision(), correct=False)) == pytest.approx(
        38.9, abs=0.1
    )


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a20_resnet_8(data_dir: Path) -> None:
    plain = score(data_dir, RESNET, Precision(), correct=False)
    assert decibels(plain) == pytest.approx(32.0, abs=0.1)
    corrected = score(data_dir, RESNET, Precision())
    assert corrected.real == 0.88
    assert corrected.whole == 0.88
    assert decibels(corrected) >= 33.5
    symmetric = score(data_dir, RESNET, Precision(scheme="sym"), correct=False)
    assert decibels(plain) - decibels(symmetric) >= 2.5


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a21_resnet_8_in_16_bits(data_dir: Path) -> None:
    found = score(data_dir, RESNET, Precision(bits=16))
    assert found.loss == 0
    assert decibels(found) >= 70
