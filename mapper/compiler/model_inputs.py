"""Model and samples of a compilation, opened as requested."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mapper.compiler.caching import CompileInputs
from mapper.compiler.calibration import pixel_samples
from mapper.compiler.model import Model, open_model
from mapper.compiler.quantisation.ranges import RangesFile, open_ranges
from mapper.compiler.request import CompileRequest
from mapper.errors import UsageError
from mapper.inputs.listener import Listener
from mapper.monitoring.resources import default_memory
from storage.budget import declared_bytes, require_room
from storage.samples import SampleArrays, SampleTable, open_samples

SAMPLE_BYTES = 12  # per number of a sample: as stored, normalised in float64, and float32


def open_requested(
    request: CompileRequest, listener: Listener, modes: Collection[str] = ()
) -> Model:
    """Return the model; report options without effect on it.

    With samples, floating-point parts of a quantised model are quantised as well.

    modes : names of further given options that need a floating-point model
    Raises `UsageError` for options that need a floating-point model.
    """
    samples = request.samples
    model = open_model(request.model, request.shapes, memory=request.memory)
    by_samples = model.guessed and samples.calibrate is not None
    if by_samples and samples.calibrate is not None and samples.ranges is None:
        found = _read(request, samples.calibrate, model, listener, samples.limit)
        signed = bool(found.x.min(initial=0) < 0)
        model = open_model(request.model, request.shapes, signed, request.memory)
    elif samples.calibrate is not None:
        model = model.to_calibrate()
    elif model.build_in_part is not None:
        listener.note("note: floating-point parts of the model run on the host; add "
                      "samples with --calibrate to run them on the cores")  # fmt: skip
    if not model.quantised:
        return model
    given = {"calibrate": samples.calibrate is not None and not by_samples}
    given |= dict.fromkeys(modes, True) | {"verify": samples.verify is not None}
    for name, present in given.items():
        if present:
            raise UsageError(
                f"{request.model}: is quantised already, and keeps its scales; omit --{name}"
            )
    if request.of_floats:
        listener.note("note: the model is quantised already, and keeps its scales; no "
                      f"effect: {', '.join(request.of_floats)}")  # fmt: skip
    return model


def inputs_of(request: CompileRequest, model: Model, listener: Listener) -> CompileInputs:
    """Return a model with calibration samples or ranges, and test samples.

    Both are None for a quantised model; test samples are None if none are requested.
    """
    if model.quantised:
        return CompileInputs(model, None, None)
    samples, settings = request.samples, request.settings
    found: SampleArrays | RangesFile
    if samples.limit is not None and (samples.ranges or samples.calibrate is None):
        raise UsageError("--samples: needs calibration samples; add --calibrate DATA")
    if samples.calibrate is None:
        found = pixel_samples(model, settings)
        for note in found.notes:
            listener.note(f"note: {note}")
    elif samples.ranges is not None:
        found = open_ranges(samples.ranges, request.model)
    else:
        found = _read(
            request, samples.calibrate, model, listener, samples.limit, settings.samples
        )  # fmt: skip
    test = None if samples.verify is None else _read(request, samples.verify, model, listener)
    return CompileInputs(model, found, test)


def _read(
    request: CompileRequest, source: Path | SampleTable, model: Model, listener: Listener,
    asked: int | None = None, most: int | None = None,
) -> SampleArrays:  # fmt: skip
    """Return the first samples of a source, or all; report the notes on them."""
    shape, last = model.view.shape[1:], model.view.order[-1] == 3
    form = request.samples.form
    with open_samples(source, shape, form, asked, channels_last=last, name=model.name) as found:
        count = len(found) if most is None else min(len(found), most)
        labels = None if found.labels is None else found.labels[:count]
        for note in found.notes:
            listener.note(f"note: {note}")
        size = declared_bytes((count, *shape), SAMPLE_BYTES)
        memory = request.memory or default_memory()
        require_room(f"{source}: the array of {count:,} samples", size, memory)
        return SampleArrays(found.read(0, count), labels, found.notes)


def calibrated_samples(inputs: CompileInputs) -> int:
    """Return the number of calibration samples."""
    samples = inputs.samples
    if samples is None:
        return 0
    return samples.samples if isinstance(samples, RangesFile) else len(samples.x)


def seen_samples(inputs: CompileInputs) -> NDArray[np.float32] | None:
    """Return samples to compare results with; None if there are only ranges, or none."""
    for samples in (inputs.samples, inputs.test):
        if isinstance(samples, SampleArrays):
            return samples.x
    return None
