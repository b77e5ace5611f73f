"""Data passed between compilation stages: switches and notes reach all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mapper.compiler.calibration import compare_settings, pixel_samples
from mapper.compiler.ir.node import Affine
from mapper.compiler.model import open_model
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from tests.compiler.models import saved
from tests.compiler.networks import Builder
from tests.compiler.programs import compiled, source_of
from tests.storage.formats.onnx_models import model, node


def normalised() -> Builder:
    """Build a convolution whose channels are scaled afterwards."""
    build = Builder(6, 6, 3, 4)
    sums = build.conv(build.input, 4)
    constants = [build.constant(build.random.uniform(0.2, 3, 4)), build.constant(np.ones(4))]
    build.end(build.relu(build.like(Affine(), sums, *constants)))
    return build


def test_comparisons_of_settings_use_the_switches() -> None:
    """R1.1: a map that is quantised between layer and normalisation loses SQNR."""
    source, samples = source_of(normalised())
    plain, without = (
        compare_settings(source, samples, CompileSettings(off=off)) for off in ((), ("batchnorm",))
    )
    assert [row[:3] for row in plain] == [row[:3] for row in without]
    assert all(a.score.signal != b.score.signal for a, b in zip(plain, without, strict=True))


def test_samples_of_pixels_use_the_switches(tmp_path: Path) -> None:
    """R1.1: a factor that stays before the first layer gives a map of unknown range."""
    constants = {
        "f": np.float32([[[2.0]], [[0.5]]]),
        "w": np.random.default_rng(3).normal(0, 1, (4, 2, 3, 3)).astype(np.float32),
    }
    nodes = [node("Mul", "x f", "m"), node("Conv", "m w", "a"), node("Sign", "a")]
    source = open_model(saved(model(nodes, constants), tmp_path))
    assert pixel_samples(source, CompileSettings()).x.shape == (16, 2, 5, 6)
    with pytest.raises(MapperError, match="give samples with --calibrate"):
        pixel_samples(source, CompileSettings(off=("input-scale",)))


@pytest.mark.jit
def test_assumptions_about_a_model_are_notes() -> None:
    """Also for models in floating point."""
    build = normalised()
    build.graph.notes = ["input 'x' is read as pixels"]
    made = compiled(build).compiled
    assert made.notes.count("input 'x' is read as pixels") == 1
    assert "input 'x' is read as pixels" in made.log
