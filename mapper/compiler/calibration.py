"""Samples of models in floating point: those that ranges are measured with, or made of nothing but
what the model says; and how near models are in all precisions."""

from __future__ import annotations

import numpy as np

from mapper.compiler.frontend.model import Model
from mapper.compiler.partition.islands import optimised
from mapper.compiler.quantise.convert import Converter
from mapper.compiler.quantise.ranges_file import RangesFile
from mapper.compiler.quantise.score import Dataset
from mapper.compiler.quantise.verify import Compared, Verified, compared
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from storage.samples import SampleArrays

PIXEL_SAMPLES, MOST_PIXEL = 16, 255


def dataset(model: Model, samples: SampleArrays, most: int | None = None) -> Dataset:
    """The first samples, or all, by the name of the model's input."""
    maps = np.ascontiguousarray(model.view.stored(samples.x[:most]))
    labels = None if samples.labels is None else samples.labels[:most]
    return Dataset({model.name: maps}, labels)


def calibration_of(
    model: Model, samples: SampleArrays | RangesFile, settings: CompileSettings
) -> Dataset | RangesFile:
    """What ranges come from: samples, or a file of an earlier run."""
    if isinstance(samples, RangesFile):
        return samples
    return dataset(model, samples, settings.samples)


def compare_settings(
    model: Model, samples: SampleArrays | RangesFile, settings: CompileSettings,
    test: SampleArrays | None = None,
) -> list[Compared]:  # fmt: skip
    """How near a model is in 8 and 16 bits, with zero points and without, by all methods.

    test : samples to compare with; None takes some of `samples`
    Raises `MapperError` if there are none at all.
    """
    calibration = calibration_of(model, samples, settings)
    if test is not None:
        beside = dataset(model, test)
    elif isinstance(calibration, RangesFile):
        raise MapperError(
            f"{calibration.path}: holds ranges, and no samples to compare with; give some with "
            "--verify"
        )
    else:
        beside = calibration.to_verify()
    source = optimised(model, settings.keep, settings.off)[0]
    return compared(source, calibration, settings.quantise_request(), beside)


def pixel_samples(model: Model, settings: CompileSettings) -> SampleArrays:
    """Random pixels for a model of which nothing but the input needs a range, as binary ones; any
    numbers, if not even that does.

    Raises `MapperError` if more does: ranges of maps are measured with samples of its own.
    """
    source = optimised(model, settings.keep, settings.off)[0]
    inputs = {view.tensor for view in source.inputs.values()}
    needed = Converter(source, settings.quantise_request().precision).quantised_tensors()
    if not inputs >= set(needed):
        raise MapperError(
            f"{model.path}: is in floating point; give samples with --calibrate to measure the "
            "ranges of its maps"
        )
    shape, random = (PIXEL_SAMPLES, *model.view.shape[1:]), np.random.default_rng(1)
    if not needed:
        return SampleArrays(random.normal(0, 1, shape).astype(np.float32), None, [])
    pixels = random.integers(0, MOST_PIXEL + 1, shape)
    pixels[:2] = np.array([0, MOST_PIXEL]).reshape(2, *(1,) * (len(shape) - 1))
    note = (
        f"{model.name!r} is taken for pixels, whole numbers from 0 to {MOST_PIXEL}: no other range "
        "is needed; give samples with --calibrate if it holds something else"
    )
    return SampleArrays(pixels.astype(np.float32), None, [note])


def left_out(
    found: Verified, calibration: Dataset | RangesFile, settings: CompileSettings
) -> list[str]:
    """What is not done of that which needs samples, as a note."""
    if not isinstance(calibration, RangesFile):
        return []
    missing = ["biases are not corrected"] if settings.bias_correction else []
    if not found.frames:
        missing.append("nothing is verified (give samples with --verify)")
        if settings.method == "auto":
            missing.append("ranges are chosen by the method minmax alone")
    if not missing:
        return []
    return [f"{calibration.path}: holds ranges, and no samples: {'; '.join(missing)}"]
