"""Samples of models as users of Python give them: paths, arrays, or arrays by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from mapper.errors import UsageError, shown
from storage.address import path_of
from storage.samples import SampleTable

GivenSamples = str | os.PathLike[str] | ArrayLike | Mapping[str, ArrayLike]
AN_ARRAY = "the path of samples, an array of shape (samples, ...), or arrays by name"


def sample_table(samples: GivenSamples, name: str, wanted: str = AN_ARRAY) -> Path | SampleTable:
    """Return samples as a path, or as arrays by name; an array is `x`.

    name : of the argument; wanted : accepted values, for messages
    Raises `UsageError` for other objects.
    """
    if isinstance(samples, str | os.PathLike):
        return path_of(samples)
    if isinstance(samples, Mapping):
        return SampleTable(name, dict(samples))
    if hasattr(samples, "__array__") or isinstance(samples, list | tuple):
        return SampleTable(name, {"x": samples})
    raise UsageError(f"{name} is {shown(samples)}; give {wanted}")
