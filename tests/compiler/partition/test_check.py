"""The comparison with the reference detects errors and locates them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.program.image import Image
from tests.compiler.bad_input.good import compile_good
from tests.compiler.networks import residual
from tests.compiler.programs import Made, compiled
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit


def counted(made: Made, image: Image) -> list[int]:
    """Return the differences of each layer over three frames, for a core loaded with an image."""
    folder = made.folder._replace(images={(1, 0): image})
    samples = np.random.default_rng(0).normal(0, 1, (3, 3, 9, 7)).astype(np.float32)
    return [one.differences for one in simulate(folder, samples, threads=1, check=True).compared]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a42_a_wrong_weight_shows_in_its_layer_and_later() -> None:
    """A42: three convolutions, a residual sum and a mean; layers before the fault are unchanged."""
    made = compiled(residual(channels=20))
    image = made.folder.images[1, 0]
    assert counted(made, image) == [0, 0, 0, 0]
    weights = image.weights.copy()
    weights[-1, 0] = 127 - weights[-1, 0]  # in the last layer with weights
    found = counted(made, image._replace(weights=weights))
    assert found[:2] == [0, 0]
    assert min(found[2:]) > 0
    weights = image.weights.copy()
    weights[0, 0] = 127 - weights[0, 0]
    assert min(counted(made, image._replace(weights=weights))) > 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a42_a_wrong_parameter_shows() -> None:
    """A42: any bias or factor of a program, except for unused lanes."""
    made = compiled(residual(channels=20))
    image = made.folder.images[1, 0]
    shown = []
    for word in range(len(image.parameters)):
        parameters = image.parameters.copy()
        parameters[word, 0] += 1 << 20
        shown.append(sum(counted(made, image._replace(parameters=parameters))) > 0)
    assert np.mean(shown) > 0.8


def test_a42_differences_end_the_command_with_an_error(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_good(folder, run, "--chip", "1x1")
    check = ("simulate", "out", "--input", "samples.npz", "--check")
    assert run(*check).code == 0
    monkeypatch.setattr("mapper.compiler.artifacts.simulate._differences", lambda *_: [0, 7])
    found = run(*check)
    assert found.code == 1
    assert "elements differ from the integer reference" in found.err
