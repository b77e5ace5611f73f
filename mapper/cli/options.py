"""Options shared by several commands, and the objects built from them."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.cli import terminal
from mapper.cli.caching import add_no_cache, cache_of
from mapper.errors import UsageError, shown

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.executors.worker_interface import Asked
    from mapper.inputs.listener import Listener
    from mapper.inputs.source import Effort, Source
    from mapper.limits.constraints import ConstraintFile
    from mapper.monitoring.callbacks import OnFraction
    from mapper.planning.plan import Plan
    from mapper.session import MapRequest
    from mapper.settings import Settings
    from storage.store.meta import NetworkMeta
    from storage.store.network import NetworkFile


class Option(NamedTuple):
    """An option or argument of a command.

    name : one name or several, as "-o --output"
    kind : parser of the value; bool for a flag without a value
    """

    name: str
    metavar: str | None
    help: str
    kind: Callable[[str], Any] | None = None
    default: Any = None
    choices: tuple[Any, ...] | None = None


def choice(
    name: str, words: str, help: str, default: str | None = None, metavar: str | None = None
) -> Option:
    """Return an option with one of several words."""
    return Option(name, metavar, help, None, default, tuple(words.split()))


def flag(name: str, help: str) -> Option:
    """Return an option without a value."""
    return Option(name, None, help, bool)


def add_options(group: argparse._ActionsContainer, *options: Option) -> None:
    """Add options to a group or parser, in this order."""
    for name, metavar, text, kind, default, choices in options:
        if kind is bool:
            group.add_argument(*name.split(), action="store_true", help=text)
        else:
            group.add_argument(
                *name.split(), metavar=metavar, help=text, type=kind or str, default=default,
                choices=choices,
            )  # fmt: skip


def size(text: str) -> int:
    """Parse a size such as `1GiB`; return bytes."""
    from mapper.monitoring.resources import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    return _whole(text, 1, 1 << 63)


def natural(text: str) -> int:
    """Parse a whole number of at least 0."""
    return _whole(text, 0, 1 << 63)


def _whole(text: str, least: int, end: int) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    # int() rejects strings of thousands of digits
    value = end if len(text.lstrip("0")) > len(str(end)) else int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    if value >= end:
        shown = text if len(text) <= 40 else f"{text[:24]}..."
        raise argparse.ArgumentTypeError(f"{shown!r} must be below {end}")
    return value


def seconds(text: str) -> float:
    """Parse a time above 0, in seconds."""
    with suppress(ValueError):
        value = float(text)
        if 0 < value < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{shown(text)} is not a number of seconds above 0")


def above_zero(text: str) -> float:
    """Parse a finite number above 0."""
    with suppress(ValueError):
        value = float(text)
        if 0 < value < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")


def number(text: str) -> int | float:
    """Parse a finite number; a whole number becomes an int."""
    try:
        value = float(text)
        whole = int(text) if text.strip().lstrip("+-").isdecimal() else None
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value if whole is None else whole


def add_chip(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("chip")
    group.add_argument(
        "--chip",
        required=True,
        metavar="C",
        help="WIDTHxHEIGHT, a preset's name, or a chip file",
    )
    for name, text in (
        ("neurons", "neurons per core (sum of sizes)"),
        ("synapses", "incoming synapses per core"),
        ("axons", "distinct source neurons per core"),
        ("axons-out", "distinct (neuron, other core) pairs per core"),
    ):
        group.add_argument(f"--{name}-per-core", type=positive, metavar="N", help=text)


def add_constraints(parser: argparse.ArgumentParser) -> None:
    add_options(
        parser,
        Option(
            "--constraints", "FILE.toml", "cores that neurons may be on, alone or together", Path
        ),
    )


def add_split(parser: argparse.ArgumentParser) -> None:
    add_options(parser, flag("--split-neurons", "spread excess fan-in over relay neurons"))


def add_rates(parser: argparse.ArgumentParser) -> None:
    add_options(
        parser,
        Option("--rates", "FILE", "firing rates: file, `uniform` (1 each), `weights`", _rates),
        choice(
            "--weights-are",
            "rate synapse",
            "meaning of weights in the file: rate or synapse",
            None,
            "W",
        ),
        Option(
            "--rates-duration",
            "SECONDS",
            "length of the spike report (default: last spike)",
            seconds,
        ),
    )


class _AddColumns(argparse.Action):
    """Argparse action that adds columns to the columns of earlier options."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        from storage.formats.columns import parse_columns

        try:
            found = parse_columns(values, getattr(namespace, self.dest))
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        setattr(namespace, self.dest, found)


def add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--columns",
        action=_AddColumns,
        metavar="ROLE=NAME,...",
        help="columns of a table: source=NAME,target=NAME,...",
    )
    add_no_cache(parser)


def _rates(text: str) -> str | Path:
    """Return a word of `RATES_WORDS`, or else a path; name a file such as weights ./weights."""
    from mapper.inputs.source import RATES_WORDS

    return text if text in RATES_WORDS else Path(text)


def constraints_of(options: argparse.Namespace) -> ConstraintFile | None:
    """Return the file of --constraints, or None."""
    from mapper.limits.constraints import ConstraintFile

    return None if options.constraints is None else ConstraintFile.read(options.constraints)


def request_of(
    options: argparse.Namespace, chip: Chip, settings: Settings, workers: Asked | None = None
) -> MapRequest:
    """Return the mapping request of the command line."""
    from mapper.session import MapRequest

    source, command = source_of(options, options.network), ("mapper", *options.arguments)
    return MapRequest(
        source, chip, settings, constraints_of(options), options.split_neurons, command, workers,
        cache_of(options),
    )  # fmt: skip


def named_chip(text: str) -> Chip:
    """Return the chip of a name, size or chip file; raise `UsageError` for an unknown name."""
    from chipsim.errors import ChipError
    from mapper.inputs.chips import find_chip

    try:
        return find_chip(text)
    except ChipError as error:
        # an invalid file is bad input, not a usage error
        if text.strip().lower().endswith((".toml", ".yaml", ".yml")):
            raise
        raise UsageError(str(error)) from error


def tell_left_out(options: argparse.Namespace, text: str, chip: Chip) -> None:
    """Report values of an imported architecture file that the chip model does not have."""
    if text.strip().lower().endswith((".yaml", ".yml")) and chip.origin is not None:
        for note in chip.origin.notes:
            terminal.say(options, f"note: {text}: {note}")


def chip_of(options: argparse.Namespace) -> Chip:
    """Return the chip of --chip with the limits of the command line, without its NPU."""
    chip = replace(named_chip(options.chip), npu=None, host=None)
    tell_left_out(options, options.chip, chip)
    return chip.with_limits(
        neurons=options.neurons_per_core,
        synapses=options.synapses_per_core,
        axons_in=options.axons_per_core,
        axons_out=options.axons_out_per_core,
    )


def add_effort(
    group: argparse._ActionsContainer, seed: bool = True, memory: str = "3/4 of free"
) -> None:
    """Add --memory, --threads and --seed to a group, or to a new group of a parser.

    memory : default of --memory, for its help
    """
    if isinstance(group, argparse.ArgumentParser):
        group = group.add_argument_group("effort")
    add_memory(group, memory)
    add_threads(group)
    if seed:
        group.add_argument(
            "--seed", type=natural, default=0, metavar="S", help="random seed (default: 0)"
        )


def add_memory(group: argparse._ActionsContainer, default: str = "3/4 of free") -> None:
    """Add --memory; every command that reads a file has it."""
    add_options(
        group,
        Option("--memory", "SIZE", f"memory budget, e.g. 8GiB (default: {default})", size),
    )


def add_threads(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--threads", type=positive, metavar="N", help="threads (default: all processors)"
    )


def memory_of(options: argparse.Namespace) -> int:
    from mapper.monitoring.resources import default_memory

    return options.memory or default_memory()


def threads_of(options: argparse.Namespace) -> int:
    if getattr(options, "threads", None):  # not every command has the option
        return int(options.threads)
    from mapper.monitoring.resources import all_cores

    return all_cores()


def effort_of(options: argparse.Namespace) -> Effort:
    """Return the threads and memory for work on an input."""
    from mapper.inputs.source import Effort

    return Effort(threads_of(options), memory_of(options), cache_of(options))


def compile_kernels(options: argparse.Namespace, *works: str) -> None:
    """Compile the kernels of some tasks (see `mapper.kernels.warmup`) that are not in the cache.

    Call this after all checks of the command line, as it may take long.
    """
    from mapper.cli.compiling import compile_once

    compile_once(terminal.stderr_console(options), works, threads_of(options))


def source_of(options: argparse.Namespace, path: Path) -> Source:
    """Return the source of a network, with the columns and rates of the command line."""
    from mapper.inputs.source import Source
    from storage.store.network import is_network_name

    rates = getattr(options, "rates", None)  # most commands have no such options
    duration = getattr(options, "rates_duration", None)
    if duration is not None and not isinstance(rates, Path):
        raise UsageError("--rates-duration: needs a spike report; add --rates FILE")
    if options.columns is not None and is_network_name(path):
        raise UsageError(f"{path}: is a network file; --columns is for tables, omit it")
    weights_are = getattr(options, "weights_are", None)
    if weights_are is not None and is_network_name(path):
        raise UsageError(
            f"{path}: is a network file; --weights-are is for files to import, omit it"
        )
    return Source(path, options.columns, rates, duration, weights_are=weights_are)


def listener(options: argparse.Namespace) -> Listener:
    """Return a listener that reports the work on an input on the terminal."""
    from mapper.cli.compiling import compile_once
    from mapper.inputs.listener import Listener
    from mapper.results.tables import planned

    console = terminal.stderr_console(options)

    class Terminal(Listener):
        def note(self, line: str) -> None:
            terminal.say(options, line)

        def task(self, text: str) -> AbstractContextManager[OnFraction]:
            return terminal.fraction_bar(options, text)

        def compile(self, works: list[str], threads: int) -> None:
            compile_once(console, works, threads)

        def planned(self, plan: Plan) -> None:
            if console.is_terminal or getattr(options, "verbose", False):
                console.print(planned(plan))

    return Terminal()


@contextmanager
def open_network(options: argparse.Namespace, path: Path) -> Iterator[NetworkFile]:
    """Yield a network file; import other formats first, and report their losses."""
    from mapper.inputs.opening import open_source

    with open_source(source_of(options, path), effort_of(options), listener(options)) as network:
        yield network


def tell_losses(options: argparse.Namespace, meta: NetworkMeta) -> None:
    """Report on stderr the synapses dropped, merged or changed in building a network."""
    from mapper.inputs.opening import losses_of

    for line in losses_of(meta, asked=getattr(options, "rates", None) is not None):
        terminal.say(options, line)
