"""Calibration samples of floating-point models, and accuracy in all precisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mapper.compiler.model import Model
from mapper.compiler.optimise import optimised
from mapper.compiler.quantisation.convert import Converter
from mapper.compiler.quantisation.ranges import Measure, RangesFile, measure_ranges
from mapper.compiler.quantisation.score import Dataset
from mapper.compiler.quantisation.verify import Compared, Verified, compared, request_of
from mapper.compiler.settings import CompileSettings
from mapper.errors import MapperError
from storage.samples import SampleArrays

PIXEL_SAMPLES, MOST_PIXEL = 16, 255


def dataset(model: Model, samples: SampleArrays, most: int | None = None) -> Dataset:
    """Return the first `most` samples, or all, by the name of the model's input."""
    maps = np.ascontiguousarray(model.view.stored(samples.x[:most]))
    labels = None if samples.labels is None else samples.labels[:most]
    return Dataset({model.name: maps}, labels)


def calibration_of(
    model: Model, samples: SampleArrays | RangesFile, settings: CompileSettings,
    measure: Measure = measure_ranges,
) -> Dataset | RangesFile:  # fmt: skip
    """Return the source of ranges: samples, or a file of an earlier run."""
    if isinstance(samples, RangesFile):
        return samples
    return replace(dataset(model, samples, settings.samples), measure=measure)


def compare_settings(
    model: Model, samples: SampleArrays | RangesFile, settings: CompileSettings,
    test: SampleArrays | None = None,
) -> list[Compared]:  # fmt: skip
    """Return the accuracy of a model in 8 and 16 bits, with and without zero points, by all
    methods.

    test : samples to compare with; None uses some of `samples`
    Raises `MapperError` if there are no samples.
    """
    calibration = calibration_of(model, samples, settings)
    if test is not None:
        beside = dataset(model, test)
    elif isinstance(calibration, RangesFile):
        raise MapperError(
            f"{calibration.path}: contains ranges but no samples to compare with; give some "
            "with --verify"
        )
    else:
        beside = calibration.to_verify()
    source = optimised(model, settings.keep, settings.off)
    return compared(source, calibration, request_of(settings), beside)


def pixel_samples(model: Model, settings: CompileSettings) -> SampleArrays:
    """Return random pixels for a model in which at most the input needs a range, such as a binary
    model.

    If nothing needs a range, the numbers are normally distributed.

    Raises `MapperError` if other maps need ranges, which require samples of the model.
    """
    source = optimised(model, settings.keep, settings.off)
    inputs = {view.tensor for view in source.inputs.values()}
    needed = Converter(source, request_of(settings).precision).quantised_tensors()
    if not inputs >= set(needed):
        raise MapperError(
            f"{model.path}: is in floating point; give samples with --calibrate to measure "
            "the ranges of its maps"
        )
    shape, random = (PIXEL_SAMPLES, *model.view.shape[1:]), np.random.default_rng(1)
    if not needed:
        return SampleArrays(random.normal(0, 1, shape).astype(np.float32), None, [])
    pixels = random.integers(0, MOST_PIXEL + 1, shape)
    pixels[:2] = np.array([0, MOST_PIXEL]).reshape(2, *(1,) * (len(shape) - 1))
    note = (
        f"{model.name!r} is read as pixels, whole numbers from 0 to {MOST_PIXEL}: no other "
        "range is needed; give samples with --calibrate if it contains something else"
    )
    return SampleArrays(pixels.astype(np.float32), None, [note])


def left_out(
    found: Verified, calibration: Dataset | RangesFile, settings: CompileSettings
) -> list[str]:
    """Return a note on steps that were skipped because they need samples."""
    if not isinstance(calibration, RangesFile):
        return []
    missing = ["biases are not corrected"] if settings.bias_correction else []
    if not found.frames:
        missing.append("accuracy is not verified (give samples with --verify)")
        if settings.method == "auto":
            missing.append("ranges are chosen by minmax only")
    if not missing:
        return []
    return [f"{calibration.path}: contains ranges but no samples: {'; '.join(missing)}"]
