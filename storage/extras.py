"""Optional packages, and the extra to install if one is missing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from storage.errors import BadInputError, MissingExtraError

DISTRIBUTION = "neuromapper"
"""Name on the package index; `mapper` there is a different project."""


def require(package: str, extra: str, path: Path, what: str) -> Any:
    """Return the module of an optional package.

    what : the files that need it, for example "Parquet files"
    Raises `BadInputError` that names the extra to install if the package is missing.
    """
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise BadInputError(
            f"{path}: {what} need {name}; pip install '{DISTRIBUTION}[{extra}]'"
        ) from error


def require_extra(package: str, extra: str, where: Path, what: str) -> Any:
    """Like `require`, for a request on the command line: raises `MissingExtraError`."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f"{where}: {what} need the extra {extra}: pip install '{DISTRIBUTION}[{extra}]'"
        ) from error
