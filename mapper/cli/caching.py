"""The option --no-cache, and the cache of a command."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mapper.cli.options import flag

if TYPE_CHECKING:
    from mapper.cache.cache import Cache

NO_CACHE = flag("--no-cache", "use no results of earlier commands, and keep none")


def cache_of(options: argparse.Namespace) -> Cache:
    """Return the cache of a command; off with --no-cache."""
    from mapper.cache.cache import OFF, Cache

    return OFF if options.no_cache else Cache.of_user()
