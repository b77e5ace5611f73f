"""`mapper sweep`: map all combinations of networks, chips and settings."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import many
from mapper.cli import options as common
from mapper.cli.caching import add_no_cache, cache_of
from mapper.cli.stores import add_timeout

EPILOG = """\
examples:
  mapper sweep tries.toml --workers 2
  mapper sweep tries.toml --keep best --resume

tries.toml:
  network = "net.bin"
  chip = ["16x16", "loihi"]
  preset = ["fast", "default"]
  seed = "1..4"

Each key has a value or a list of values; each combination is a run and a row of
sweep.csv in the output folder. `mapper docs portfolio` lists the keys.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s FILE [options]"
    parser.add_argument("file", type=Path, metavar="FILE", help="TOML file with lists of values")
    many.add_folder(parser, "NAME-sweep")
    many.add_workers(parser)
    many.add_keep(parser)
    add_timeout(parser)
    common.add_effort(parser, seed=False)
    add_no_cache(parser)


def run(options: argparse.Namespace) -> int:
    from mapper.portfolio.sweep import sweep_jobs
    from mapper.portfolio.sweep_file import read_sweep

    sweep = read_sweep(options.file)
    output = options.output or Path(f"{options.file.stem}-sweep")
    runs = len(sweep.combinations())
    share = many.share_of(options, output, runs)
    jobs = sweep_jobs(sweep, share, ("mapper", *options.arguments), cache_of(options))
    return many.do_many(options, output, jobs)
