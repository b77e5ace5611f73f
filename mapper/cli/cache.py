"""`mapper cache`: show or clear the cache of results."""

from __future__ import annotations

import argparse

from mapper.cli import terminal

EPILOG = """\
examples:
  mapper cache info
  mapper cache clear

Commands keep results of long searches in a cache, which saves their time if
the same inputs come again; results are the same with and without it. `mapper
docs cache` explains it. MAPPER_CACHE_DIR names another folder.
MAPPER_CACHE_SIZE limits it (default: 2GiB); 0 switches it off, as the option
--no-cache does for one command.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=("info", "clear"), default="info",
        help="show its contents, or remove them (default: info)",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from mapper.cache.cache import Cache
    from mapper.results.tables import facts, size

    cache = Cache.of_user()
    found = cache.contents()
    if options.action == "clear":
        cache.clear()
    result = {
        "folder": None if cache.folder is None else str(cache.folder),
        "most_bytes": cache.most,
        "bytes": found.size,
        "kinds": {
            kind: {"results": count, "bytes": total} for kind, (count, total) in found.kinds.items()
        },
        "cleared": options.action == "clear",
    }
    rows: list[tuple[str, object]] = [("folder", result["folder"] or "none: the cache is off")]
    if cache.is_on:
        rows += [("file", size(found.size)), ("at most", size(cache.most))]
    rows += [
        (kind, f"{count:,} result{'s' * (count != 1)}, {size(total)}")
        for kind, (count, total) in sorted(found.kinds.items())
    ]
    title = "cleared" if options.action == "clear" else "cache"
    terminal.emit(options, result, [facts(title, rows)])
    return 0
