"""Show or clear the cache of results."""

from __future__ import annotations

from typing import Any

from mapper.cache.cache import Cache


def cache_contents(clear: bool = False) -> dict[str, Any]:
    """Return the folder, the sizes and the kinds of results of the cache; then clear it if asked.

    Raises `WriteError` if it cannot be read, or its results cannot be removed.
    """
    cache = Cache.of_user()
    found = cache.contents()
    if clear:
        cache.clear()
    return {
        "folder": None if cache.folder is None else str(cache.folder),
        "most_bytes": cache.most,
        "bytes": found.size,
        "kinds": {
            kind: {"results": count, "bytes": total} for kind, (count, total) in found.kinds.items()
        },
        "cleared": clear,
    }
