"""Folders of results in Python: named ones, or temporary ones that last as long as the result."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mapper.results.output_folder import output_folder

T = TypeVar("T")
R = TypeVar("R")


def with_folder(
    output: Path | None, force: bool, fill: Callable[[Path], T], result: Callable[[Path, T], R]
) -> R:
    """Fill a folder, and return the result that refers to it.

    output : path of the folder; None creates a temporary one
    force : replace an existing output
    fill : writes the files into an empty folder
    result : makes the result from the path of the complete folder and what `fill` returns
    """
    if output is not None:
        with output_folder(output, force) as work:
            filled = fill(work.folder)
        return result(output, filled)
    return with_temporary(lambda folder: result(folder, fill(folder)))


def with_temporary(make: Callable[[Path], R]) -> R:
    """Return a result with a temporary folder, which is removed together with the result.

    make : fills the empty folder and makes the result
    """
    folder = Path(tempfile.mkdtemp(prefix="mapper-"))
    try:
        made = make(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(made, shutil.rmtree, folder, ignore_errors=True)
    return made
