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
    from mapper.jobs.cache import cache_contents
    from mapper.results.tables import facts, size

    found = cache_contents(options.action == "clear")
    rows: list[tuple[str, object]] = [("folder", found["folder"] or "none: the cache is off")]
    if found["folder"] is not None:
        rows += [("file", size(found["bytes"])), ("at most", size(found["most_bytes"]))]
    for kind, one in sorted(found["kinds"].items()):
        count = one["results"]
        rows.append((kind, f"{count:,} result{'s' * (count != 1)}, {size(one['bytes'])}"))
    terminal.emit(options, found, [facts("cleared" if found["cleared"] else "cache", rows)])
    return 0
