"""Packages of the extras of the distribution, and what to install where one is missing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from storage.errors import BadInputError

DISTRIBUTION = "neuromapper"
"""Its name on the package index; `mapper` there is another project."""


def require(package: str, extra: str, path: Path, what: str) -> Any:
    """The module of an optional package.

    what : the files that need it, as in "Parquet files"
    Raises `BadInputError` that says which extra to install if the package is missing.
    """
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise BadInputError(
            f"{path}: {what} need {name}; pip install '{DISTRIBUTION}[{extra}]'"
        ) from error
