"""`mapper sweep`: map all combinations of networks, chips and settings."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import many, tuning
from mapper.cli import options as common
from mapper.cli.caching import add_no_cache, cache_of
from mapper.cli.stores import add_timeout
from mapper.errors import UsageError

if TYPE_CHECKING:
    from mapper.portfolio.sweep_file import SweepFile

FREQUENT = (
    "output", "force", "resume", "keep", "chip", "preset", "seeds", "neurons_per_core", "set",
    "workers", "memory", "threads",
)  # fmt: skip
EPILOG = """\
examples:
  mapper sweep net.bin --chip 8x8 loihi2 --preset fast default --seeds 1..3
  mapper sweep net.bin --chip 16x16 --set starts=1,4 fm-passes=1,3 --workers 2
  mapper sweep tries.toml --keep best --resume

tries.toml:
  network = "net.bin"
  chip = ["16x16", "loihi"]
  preset = ["fast", "default"]
  seed = "1..4"

Each combination is a run and a row of sweep.csv in the output folder. Options
replace keys of the file. `mapper docs portfolio` lists the keys.
"""
WORDS = ("preset", "objective")
LIMITS = ("neurons_per_core", "synapses_per_core", "axons_per_core", "axons_out_per_core")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s NET... --chip C... [options]\n       %(prog)s FILE.toml [options]"
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="networks, or one TOML file with lists of values"
    )
    many.add_folder(parser, "NAME-sweep")
    varied = parser.add_argument_group("lists of values")
    varied.add_argument("--chip", nargs="+", metavar="C", help="as for mapper run")
    varied.add_argument("--preset", nargs="+", metavar="P", help="fast, default, strong, classic")
    varied.add_argument("--objective", nargs="+", metavar="O", help="as for mapper run")
    varied.add_argument("--seeds", metavar="A..B", help="random seeds: 1..8, or 1,4,9")
    for name in LIMITS:
        option = f"--{name.replace('_', '-')}"
        words = f"limits of {name.removesuffix('_per_core').replace('_', ' ')}"
        varied.add_argument(option, nargs="+", type=common.positive, metavar="N", help=words)
    varied.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=V,...",
        help="values of a setting from `mapper docs settings`",
    )  # fmt: skip
    many.add_workers(parser)
    many.add_keep(parser)
    add_timeout(parser)
    common.add_effort(parser, seed=False)
    add_no_cache(parser)


def run(options: argparse.Namespace) -> int:
    from mapper.portfolio.sweep import sweep_jobs

    sweep = _sweep_of(options)
    first = Path(options.inputs[0])
    output = options.output or Path(f"{Path(first.name.removesuffix('.gz')).stem}-sweep")
    runs = len(sweep.combinations())
    share = many.share_of(options, output, runs)
    jobs = sweep_jobs(sweep, share, ("mapper", *options.arguments), cache_of(options))
    return many.do_many(options, output, jobs)


def _sweep_of(options: argparse.Namespace) -> SweepFile:
    """Return the combinations of a file, of the options, or of a file with keys replaced."""
    from mapper.portfolio.sweep_file import SweepFile, read_sweep, values_of

    lists = {}
    for name, option, value in _given(options):
        try:
            lists[name] = values_of(name, value)
        except (UsageError, ValueError) as error:
            raise UsageError(f"{option}: {error}") from error
    files = [one for one in options.inputs if one.lower().endswith(".toml")]
    if not files:
        if "chip" not in lists:
            raise UsageError("--chip is missing; give one or more, such as --chip 8x8 16x16")
        networks = values_of("network", options.inputs)
        sweep = SweepFile(Path("options"), {"network": networks, **lists})
        sweep.require_few()
        return sweep
    if len(options.inputs) > 1:
        raise UsageError(f"{files[0]}: give a TOML file alone; it names the networks")
    read = read_sweep(Path(files[0]))
    if "chip" in lists:  # paths in the file start in its folder, paths in options here
        lists["chip"] = [
            str(Path(one).absolute()) if one.lower().endswith((".toml", ".yaml", ".yml")) else one
            for one in lists["chip"]
        ]
    sweep = read._replace(lists={**read.lists, **lists})
    sweep.require_few()
    return sweep


def _given(options: argparse.Namespace) -> Iterator[tuple[str, str, Any]]:
    """Yield key, option and values of each option that names values to combine."""
    for name in ("chip", *LIMITS, *WORDS):
        if (values := getattr(options, name)) is not None:
            yield name, f"--{name.replace('_', '-')}", values
    seen: set[str] = set()
    for word in options.set:
        name, values = tuning.assigned_list(word)
        if name in seen or (name in WORDS and getattr(options, name) is not None):
            raise UsageError(f"--set: duplicate {name}; give its values once, as {name}=1,2")
        seen.add(name)
        yield name, "--set", values
    if options.seeds is not None:
        yield "seed", "--seeds", options.seeds
