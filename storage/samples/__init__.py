"""Samples for calibration and testing of models, read from files in batches.

::

    from storage.samples import open_samples, parse_form

    form = parse_form("scale=1/255", "nhwc")
    with open_samples(Path("test.npz"), (3, 32, 32), form) as samples:
        first = samples.read(0, 100)  # float32, shape (100, 3, 32, 32)

A file is `.npz` (array x, and y for labels), `.npy`, `.csv` (label, then pixels), or a folder of
images; `SampleTable` is the same in memory.
"""

from __future__ import annotations

from storage.samples.arrays import SampleTable
from storage.samples.form import LAYOUTS, Layout, Normalisation, SampleForm, parse_form
from storage.samples.samples import (
    SampleArrays,
    Samples,
    open_samples,
    read_samples,
    require_samples,
)

__all__ = [
    "LAYOUTS",
    "Layout",
    "Normalisation",
    "SampleArrays",
    "SampleForm",
    "SampleTable",
    "Samples",
    "open_samples",
    "parse_form",
    "read_samples",
    "require_samples",
]
