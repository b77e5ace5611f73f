"""Options and output that several commands share."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from chipsim.chip.model import Chip
    from mapper.limits.constraints import Constraints, WishFile
    from mapper.limits.relays import Helpers
    from storage.store.meta import NetworkMeta
    from storage.store.network import NetworkFile

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
LEAST_MEMORY = 256 << 20  # Python and the compiled kernels take most of it


def parse_bytes(text: str) -> int:
    """`1GiB`, `512M`, `300000000`: bytes; K, M, G and T are powers of 1024."""
    from mapper.settings import MOST_MEMORY

    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 1GiB or 512M")
    if len(match[1]) > 40:
        raise argparse.ArgumentTypeError(f"{text[:24]}... is too much; write 1GiB or 512M")
    value = float(match[1]) * _UNITS[match[2]]
    if value < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(f"{text} is too little; give at least 256MiB")
    if value > MOST_MEMORY:
        most = f"{MOST_MEMORY >> 40}TiB"
        raise argparse.ArgumentTypeError(f"{text[:40]} is too much; give at most {most}")
    return int(value)


def positive(text: str) -> int:
    """A whole number, 1 or more."""
    return _whole(text, 1, 1 << 63)


def natural(text: str) -> int:
    """A whole number, 0 or more."""
    return _whole(text, 0, 1 << 63)


def _whole(text: str, least: int, end: int) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    # Python makes no numbers of thousands of digits
    value = end if len(text.lstrip("0")) > len(str(end)) else int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    if value >= end:
        shown = text if len(text) <= 40 else f"{text[:24]}..."
        raise argparse.ArgumentTypeError(f"{shown!r} is too much; give less than {end}")
    return value


def add_chip(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("chip")
    group.add_argument(
        "--chip", required=True, metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml"
    )
    for name, text in (
        ("neurons", "neurons (sum of sizes) that a core holds"),
        ("synapses", "incoming synapses that a core stores"),
        ("axons", "distinct source neurons of a core"),
        ("axons-out", "distinct (neuron, other core) pairs that leave a core"),
    ):
        group.add_argument(f"--{name}-per-core", type=positive, metavar="N", help=text)


def add_constraints(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--constraints",
        type=Path,
        metavar="FILE.toml",
        help="neurons that are pinned to a core or kept together",
    )


def add_split(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--split-neurons",
        action="store_true",
        help="spread the synapses of neurons that have more than a core holds over helpers",
    )


def add_rates(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("firing rates")
    group.add_argument(
        "--rates",
        type=_rates,
        metavar="FILE",
        help="rates of all neurons, which every synapse then carries: npz (array `rate`), text "
        "(neuron, rate) or a SONATA spike report; or `uniform`: a rate of 1, the default for "
        "NIR, ONNX and SONATA; or `weights`: synapses carry the magnitude of their weights",
    )
    group.add_argument(
        "--rates-duration",
        type=float,
        metavar="SECONDS",
        help="length of a spike report (default: until its last spike)",
    )


class _AddColumns(argparse.Action):
    """Adds the columns that an option names to those named before."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        from storage.formats.columns import parse_columns

        text = f"{self.const}={values}" if self.const else values
        try:
            found = parse_columns(text, getattr(namespace, self.dest))
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        setattr(namespace, self.dest, found)


def add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--columns",
        action=_AddColumns,
        metavar="ROLE=NAME,...",
        help="columns of a table: source, target, weight (- for none; also a GraphML key), "
        "source-population, target-population",
    )
    for role in ("source", "target", "weight"):  # as they were called first
        parser.add_argument(
            f"--{role}-column",
            action=_AddColumns,
            dest="columns",
            const=role,
            help=argparse.SUPPRESS,
        )


def refuse_columns(options: argparse.Namespace, path: Path) -> None:
    """Raise `UsageError` if the command line names columns of a network file, which has none."""
    if options.columns is not None:
        raise UsageError(f"{path}: is a network file; --columns is for tables, leave it out")


RATES_WORDS = ("uniform", "weights")


def _rates(text: str) -> str | Path:
    """One of `RATES_WORDS`, else a path; a file of such a name is ./weights."""
    return text if text in RATES_WORDS else Path(text)


SPLIT = "split.bin"


@contextmanager
def split_network(
    options: argparse.Namespace,
    network: NetworkFile,
    chip: Chip,
    keep_in: Path | None = None,
    resume: bool = False,
) -> Iterator[tuple[NetworkFile, Helpers | None]]:
    """The network to be mapped: with helpers, if the command line asks for them and says so.

    keep_in : folder for the network with helpers; a temporary one, removed afterwards, if None
    resume : take what is in that folder from an earlier run
    """
    import tempfile

    from mapper.limits.relays import plan_helpers, write_split
    from mapper.runtime.resume import is_whole
    from storage.store.network import NetworkFile

    if not options.split_neurons:
        yield network, None
        return
    helpers = plan_helpers(network, chip, threads_of(options))
    if not helpers.count:
        yield network, helpers
        return
    facts = helpers.facts()
    say(options, f"note: {facts['neurons']:,} neurons split, {helpers.count:,} helpers added")
    with tempfile.TemporaryDirectory() as folder:
        path = (keep_in or Path(folder)) / SPLIT
        if not (resume and is_whole(path, threads_of(options))):
            write_split(network, helpers, path, memory_of(options) // 4, threads_of(options))
        with NetworkFile(path) as split:
            yield split, helpers


def wishes_of(options: argparse.Namespace) -> WishFile | None:
    """The file of constraints that the command line names, or None."""
    from mapper.limits.constraints import WishFile

    return None if options.constraints is None else WishFile.read(options.constraints)


def constraints_of(
    wishes: WishFile | None, chip: Chip, network: NetworkFile, helpers: Helpers | None = None
) -> Constraints | None:
    """The constraints of a file for a network; None if there is no file."""
    from mapper.limits.constraints import read_constraints

    if wishes is None:
        return None
    return read_constraints(wishes, chip, network, 0 if helpers is None else helpers.count)


def named_chip(text: str) -> Chip:
    """The chip that --chip names."""
    from chipsim.chip.presets import parse_chip
    from chipsim.errors import ChipError

    try:
        return parse_chip(text)
    except ChipError as error:
        if text.strip().lower().endswith(".toml"):  # a file with a fault in it is bad input
            raise
        raise UsageError(str(error)) from error


def chip_of(options: argparse.Namespace) -> Chip:
    """The chip of the command line, its limits changed as asked."""
    return named_chip(options.chip).with_limits(
        neurons=options.neurons_per_core,
        synapses=options.synapses_per_core,
        axons_in=options.axons_per_core,
        axons_out=options.axons_out_per_core,
    )


def add_effort(parser: argparse.ArgumentParser, seed: bool = True) -> None:
    group = parser.add_argument_group("effort")
    group.add_argument(
        "--memory",
        type=parse_bytes,
        metavar="SIZE",
        help="memory to plan with, as 1GiB (default: three quarters of what is free)",
    )
    add_threads(group)
    if seed:
        group.add_argument("--seed", type=natural, default=0, metavar="S", help="default: 0")


def add_threads(group: argparse._ActionsContainer) -> None:
    group.add_argument("--threads", type=positive, metavar="N", help="default: all cores")


def memory_of(options: argparse.Namespace) -> int:
    from mapper.runtime.resources import available_bytes

    return options.memory or max(LEAST_MEMORY, available_bytes() * 3 // 4)


def threads_of(options: argparse.Namespace) -> int:
    if getattr(options, "threads", None):  # not every command has the option
        return int(options.threads)
    affinity = getattr(os, "sched_getaffinity", None)  # not everywhere; respects taskset, docker
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def stderr_console(options: argparse.Namespace) -> Console:
    from rich.console import Console

    return Console(stderr=True, quiet=options.quiet, highlight=False)


def stdout_console() -> Console:
    """For results. A reader that has gone is told to `mapper.cli.main`, as of other output."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Results(highlight=False)


def compile_kernels(options: argparse.Namespace, *works: str) -> None:
    """Compile what some kinds of work need, see `mapper.warmup`, if this is its first use.

    To be called once everything that can be wrong with the command line has been looked at.
    """
    from mapper.warmup import compile_once

    compile_once(stderr_console(options), works, threads_of(options))


def say(options: argparse.Namespace, line: str) -> None:
    """A note on stderr: one line, however long, unless --quiet."""
    stderr_console(options).print(line, soft_wrap=True, markup=False)


def complain(line: str) -> None:
    """Why the exit code is not 0: one line on stderr, --quiet or not."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(line, soft_wrap=True, markup=False)


def emit(options: argparse.Namespace, result: dict[str, Any], tables: list[Table]) -> None:
    """The result on stdout: one JSON object, or tables."""
    if options.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    console = stdout_console()
    for table in tables:
        console.print(table)


def lock_output(path: Path | None) -> AbstractContextManager[object]:
    """Keeps others from writing a file that a command is going to write, from its start.

    A place where nothing can be written is told by what opens the file.
    """
    from storage.locks import OutputLock

    return nullcontext() if path is None or not path.parent.is_dir() else OutputLock(path)


@contextmanager
def fraction_bar(options: argparse.Namespace, text: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on a terminal's stderr; gives a function that takes fractions 0 .. 1."""
    from rich.progress import Progress

    console = stderr_console(options)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(text, total=1.0)

        def update(fraction: float) -> None:
            progress.update(task, completed=fraction)

        yield update


def network_of(folder: Path, moved: Path | None, report: dict[str, Any]) -> Path:
    """The network of an output folder: the one given, else where it was, else in the folder."""
    network = moved or Path(report["network"]["path"])
    beside = folder / IMPORTED  # a folder that was moved takes its network along
    return beside if not network.exists() and beside.exists() else network


def is_network_name(path: Path) -> bool:
    """Whether a file is to be opened as a network file rather than imported."""
    if path.suffix.lower() == ".bin":
        return True
    if path.suffix.lower() == ".npz" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"PK"


def traffic_option(options: argparse.Namespace) -> str | None:
    """What importers are told about traffic: the word after --rates, None for their default."""
    rates = getattr(options, "rates", None)  # most commands have no such option
    return rates if isinstance(rates, str) else None


def wants_rates(options: argparse.Namespace) -> bool:
    """Whether the command line gives rates, which a network then is to have."""
    rates = getattr(options, "rates", None)
    if isinstance(rates, Path):
        return True
    if getattr(options, "rates_duration", None) is not None:
        raise UsageError("--rates-duration is that of a spike report; name it: --rates FILE")
    return rates == "uniform"


def give_rates(options: argparse.Namespace, network: NetworkFile, destination: Path) -> NetworkMeta:
    """Write the network with the rates that the command line names; returns what was written."""
    from storage.formats.rates import read_rates
    from storage.store.rates import write_rated, write_uniform

    threads = threads_of(options)
    if not isinstance(options.rates, Path):
        return write_uniform(network, destination, threads)
    rates = read_rates(options.rates, network, options.rates_duration)
    return write_rated(network, destination, rates, source=options.rates.name, threads=threads)


def require_weights(wanted: str | None, network: NetworkFile) -> None:
    """Raise `MapperError` if weights are wanted as traffic of a network that has lost them."""
    from mapper.errors import MapperError
    from storage.store.traffic import WEIGHTS, describe, traffic_of

    traffic = traffic_of(network.meta)
    if wanted == WEIGHTS and traffic["source"] != WEIGHTS:
        raise MapperError(
            f"{network.path}: its traffic is {describe(traffic)}, and weights are not kept beside "
            "it; import its source again with rates `weights`, or leave them out"
        )


@contextmanager
def open_network(
    options: argparse.Namespace, path: Path, keep_in: Path | None = None, resume: bool = False
) -> Iterator[NetworkFile]:
    """A network file, or any file that `import` reads, imported first (and its losses told).

    If the command line gives rates that it has not, the network is a copy that has them.
    keep_in : folder for an imported network; a temporary one, removed afterwards, if None
    resume : take what is in that folder from an earlier run
    """
    import tempfile

    from mapper.runtime.resume import is_whole
    from storage.store.network import NetworkFile

    if not wants_rates(options):
        with _open_plain(options, path, keep_in, resume) as network:
            yield network
        return
    with tempfile.TemporaryDirectory() as folder:
        rated = (keep_in or Path(folder)) / IMPORTED
        if not (resume and is_whole(rated, threads_of(options))):
            with _open_plain(options, path, None, False) as network:
                give_rates(options, network, rated)
        with NetworkFile(rated) as network:
            yield network


@contextmanager
def _open_plain(
    options: argparse.Namespace, path: Path, keep_in: Path | None, resume: bool
) -> Iterator[NetworkFile]:
    """The same without rates."""
    import tempfile

    from mapper.runtime.resume import is_whole
    from storage.formats import import_network, recognise
    from storage.store.network import NetworkFile

    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a network file")
    if is_network_name(path):
        refuse_columns(options, path)
        with NetworkFile(path) as network:
            require_weights(traffic_option(options), network)
            yield network
        return
    with tempfile.TemporaryDirectory() as folder:
        imported = (keep_in or Path(folder)) / IMPORTED
        if resume and is_whole(imported, threads_of(options)):
            with NetworkFile(imported) as network:
                yield network
            return
        compile_kernels(options, f"import/{recognise(path).name}")
        with fraction_bar(options, f"importing {path.name}") as progress:
            meta = import_network(
                path,
                imported,
                memory=memory_of(options) // 2,
                threads=threads_of(options),
                progress=progress,
                traffic=traffic_option(options),
                extra={"columns": options.columns},
            )
        tell_losses(options, meta)
        with NetworkFile(imported) as network:
            yield network


IMPORTED = "network.bin"


def require_format(name: str | None, formats: Collection[str]) -> None:
    """Raise `UsageError` if the command line names a format that is none of `formats`."""
    if name is not None and name not in formats:
        raise UsageError(f"no format is called {name!r}; there are {', '.join(formats)}")


def tell_losses(options: argparse.Namespace, meta: Any) -> None:
    """Say on stderr what a table was taken for, and what was dropped, merged or changed."""
    from storage.formats.columns import said as said_of_columns
    from storage.store.traffic import UNIFORM, traffic_of

    columns = said_of_columns(meta.provenance)
    if columns is not None:
        say(options, f"note: {columns}")
    layers = meta.provenance.get
    left_out = layers("nodes_left_out", [])
    uniform = traffic_of(meta)["source"] == UNIFORM
    negative = 0 if uniform else layers("weights_negative", 0)
    said = [
        f"{count:,} {what}"
        for count, what in (
            (meta.self_loops, "self-loops dropped"),
            (meta.repeated, "repeated synapses added up"),
            (meta.weights_clamped, "weights below the unit raised to one unit"),
            (layers("weights_zero", 0), "zero weights skipped"),
            (
                0 if uniform else layers("weights_missing", 0),
                "synapses without a weight weigh 1 each",
            ),
            (negative, "negative weights: absolute value used"),
            (len(left_out), f"nodes at the end left out ({', '.join(left_out)})"),
        )
        if count
    ]
    if said:
        say(options, f"note: {'; '.join(said)}")
    if uniform and getattr(options, "rates", None) is None:
        say(
            options,
            "note: no firing rates: every neuron fires at rate 1, and weights are not kept; "
            "--rates FILE gives rates, --rates weights takes the weights as traffic",
        )
