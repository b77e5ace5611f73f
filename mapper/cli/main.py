"""Command-line parser and dispatch: sub-commands, common options, one-line errors."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from mapper.cli.budget import budget_of
from mapper.cli.parser import HelpFormatter, Parser, Topic
from mapper.cli.stores import access_of
from mapper.concurrency.interrupts import leave
from mapper.errors import BAD_INPUT, CLOSED_PIPE, INTERRUPTED, known_error
from mapper.kernels.installation import bound_products, prepare
from mapper.version import version

COMMANDS = {
    "run": "map a network onto a chip",
    "sweep": "map all combinations of networks, chips and settings",
    "partition": "divide a graph into equal parts with few edges between them",
    "compile": "compile a trained model to programs for the cores",
    "import": "convert a file to a network file",
    "export": "convert a network or a mapping to another format",
    "generate": "generate a synthetic network",
    "info": "show the contents of a file or an output folder",
    "verify": "verify a network or a mapping with independent code",
    "check": "check whether a network fits a chip, without mapping it",
    "score": "score an existing mapping",
    "report": "write the report page of a mapping, or compare two",
    "simulate": "simulate the traffic of a mapping, or run a compiled model",
    "place": "place a graph of groups, one group per core",
    "runs": "list finished runs, compilations and sweeps",
    "chips": "list chip presets, or print one as a template",
    "plugins": "list formats, placers, chips and exports of other packages",
    "disassemble": "print the program of a core of a compiled model",
    "hw": "generate the chip as Verilog, and count its cells",
    "cache": "show or clear the cache of results",
    "warm": "compile the kernels ahead, e.g. for a container image",
    "docs": "list the pages of the documentation, or show one",
    "completion": "print a shell completion script",
}
KEPT = {
    "run": "repeat the command with --resume to continue",
    "sweep": "repeat the command with --resume to continue",
    "partition": "repeat the command with --resume to continue",
    "warm": "compiled kernels are kept",
}
"""Last part of the message after Ctrl-C, by command."""
STAGED = ("run", "sweep", "place", "compile", "partition")
"""Commands with stages, which take --verbose."""

SUMMARISED = ("run", "compile", "simulate", "verify", "check", "score", "place", "partition")
"""Commands that print a summary, and all tables with --details."""

EPILOG = """\
examples:
  mapper generate cortex net.bin --side 316 --fanout 50 --sigma 6
  mapper run net.bin --chip 20x20 --neurons-per-core 256 -o result
exit codes: 0 done, 1 bad input, 2 usage, 3 no fit, 4 limits missed, 130 Ctrl-C
`mapper COMMAND --help` explains a command; `mapper docs` lists the manual.
"""


def build_parser(command: str | None = None, words: Sequence[str] = ()) -> Parser:
    """Return the parser; only `command` gets its arguments, to save the other imports.

    words : words of the command line, as the help of some commands depends on their input; if they
        begin with the command, the parser has no others
    """
    parser = Parser(
        prog="mapper",
        description="Maps neural networks onto many-core neuromorphic chips.",
        epilog=EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mapper {version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    alone = command in COMMANDS and words[:1] == [command]
    for name, text in COMMANDS.items():
        if alone and name != command:
            continue
        sub = commands.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            formatter_class=HelpFormatter,
        )
        if name == command:
            _fill(sub, name, words)
    return parser


def build_whole_parser() -> Parser:
    """Return the parser with the arguments of all commands, for completion and documentation."""
    parser = build_parser()
    for name, sub in subparsers(parser).items():
        _fill(sub, name)
    return parser


def subparsers(parser: argparse.ArgumentParser) -> dict[str, Parser]:
    """Return the sub-parsers of a parser by name; {} if there are none."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _fill(sub: Parser, name: str, words: Sequence[str] = ()) -> None:
    """Add the arguments of a command to its parser."""
    module = import_module(f"mapper.cli.{'import_' if name == 'import' else name}")
    frequent = module.FREQUENT if hasattr(module, "FREQUENT") else ()
    depends = hasattr(module, "topic")  # on the input
    sub.set_topic(module.topic(words) if depends else Topic(frequent, module.EPILOG))
    module.add_arguments(sub)
    sub.set_defaults(run=module.run)
    common = sub.add_argument_group("common options")
    common.add_argument("--json", action="store_true", help="print one JSON object only")
    if name in SUMMARISED:
        common.add_argument(
            "--details", action="store_true", help="print all tables, not the summary"
        )
    told = common.add_mutually_exclusive_group()
    told.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing on success, except --json"
    )
    if name in STAGED:
        told.add_argument(
            "-v", "--verbose", action="store_true", help="report the progress of each stage"
        )
    common.add_argument("--debug", action="store_true", help="show tracebacks of errors")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code.

    argv : words of the command line; None reads `sys.argv`, and ends the process here
    """
    if argv is not None:
        return _main(argv)
    with suppress(ValueError, AttributeError):  # not the main thread, or a system without it
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    gc.set_threshold(20_000)  # imports create many objects, and nearly all of them stay
    return leave(_main(None))


def _main(argv: Sequence[str] | None) -> int:
    try:
        bound_products()
        prepare()
    except (ImportError, OSError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.strerror:
            said = f"{error.filename}: {error.strerror}; set NUMBA_CACHE_DIR to a writable folder"
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in f"mapper: {said}")
        print(text, file=sys.stderr)  # noqa: T201  # `storage` may be hidden
        return BAD_INPUT
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((word for word in arguments if not word.startswith("-")), None)
    parser = build_parser(command, arguments)
    options, unknown = parser.parse_known_args(arguments, argparse.Namespace(arguments=arguments))
    if unknown:  # print the usage of the command, not of the program
        subparsers(parser)[options.command].error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        code = _run(options)
        return _flushed(options, code)
    except BrokenPipeError:  # the reader of stdout closed the pipe
        _drop_output()
        return CLOSED_PIPE


def _flushed(options: argparse.Namespace, code: int) -> int:
    """Flush standard output; return the exit code, or 1 if this fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_output()
        if code == 0:
            return _fail(options, f"standard output: cannot write: {error.strerror}", BAD_INPUT)
    return code


def _drop_output() -> None:
    """Discard the rest of standard output: Python flushes it once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _notes(options: argparse.Namespace) -> Iterator[None]:
    """Print storage warnings as one-line notes on stderr, unless --quiet."""
    from storage.errors import StorageWarning
    from storage.printable import plain

    with warnings.catch_warnings():
        warnings.simplefilter("always", StorageWarning)
        others, shown = warnings.showwarning, set[str]()

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, StorageWarning):
                others(message, category, *where, **more)
            elif not options.quiet and str(message) not in shown:
                shown.add(str(message))
                print(plain(f"note: {message}"), file=sys.stderr)  # noqa: T201

        warnings.showwarning = show
        yield


def _run(options: argparse.Namespace) -> int:
    try:
        with _notes(options), budget_of(options), access_of(options):
            code: int = options.run(options)
        return code
    except KeyboardInterrupt as stop:
        what = KEPT.get(options.command, "nothing was kept")
        why = f"interrupted: {stop}" if str(stop) else "interrupted"
        return _fail(options, f"{why}; {what}", INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception as error:
        known = known_error(error)
        if options.debug or known is None:
            raise
        return _fail(options, *known)


def _fail(options: Any, message: str, code: int) -> int:
    from storage.printable import plain

    line = " ".join(message.split())
    print(plain(f"mapper {options.command}: {line}"), file=sys.stderr)  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main())
