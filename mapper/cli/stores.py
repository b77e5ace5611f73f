"""The option --timeout, and the access of a command to objects in stores."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager

from mapper.errors import shown


def add_timeout(parser: argparse._ActionsContainer) -> None:
    """Add --timeout; every command that reads networks from addresses has it."""
    from storage.blobs.access import OPTION

    parser.add_argument(
        OPTION, type=_timeout, metavar="SECONDS",
        help="longest pause of an object store (default: 30)",
    )  # fmt: skip


def _timeout(text: str) -> float:
    from storage.blobs.access import parse_timeout

    try:
        return parse_timeout(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{shown(text)} is {error}") from error


def access_of(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context in which all objects keep the version that the command reads first."""
    from storage.blobs.access import StoreAccess, store_access

    return store_access(StoreAccess(getattr(options, "timeout", None)))
