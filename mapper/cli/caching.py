"""The option --no-cache, and the cache of a command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mapper.cache.cache import Cache


def add_no_cache(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--no-cache", action="store_true",
        help="use no results of earlier commands, and keep none",
    )  # fmt: skip


def cache_of(options: argparse.Namespace) -> Cache:
    """Return the cache of a command; off with --no-cache, and for commands without this option."""
    from mapper.cache.cache import OFF, Cache

    return Cache.of_user() if getattr(options, "no_cache", None) is False else OFF
