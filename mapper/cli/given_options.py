"""Options in the words of a command line, as opposed to defaults."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection

from mapper.errors import UsageError


def refuse_others(
    options: argparse.Namespace,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    known: Collection[str],
    why: str,
) -> None:
    """Raise `UsageError` for given options of a command that have no meaning for its input.

    add_arguments : adds the options of the command
    known : destinations of the options with a meaning
    why : end of the message, e.g. "applies to ONNX models only"
    """
    given = _given(options, add_arguments)
    if others := [name for dest, name in given.items() if dest not in known]:
        verb = "applies" if len(others) == 1 else "apply"
        raise UsageError(f"{', '.join(others)}: {verb} {why}; omit {_it(others)}")


def _it(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _given(
    options: argparse.Namespace, add_arguments: Callable[[argparse.ArgumentParser], None]
) -> dict[str, str]:
    """Return the given options: destinations, and the longest name of each."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    names = {}
    for action in parser._actions:
        names[action.dest] = (action.option_strings or [action.dest])[-1]
        action.default = argparse.SUPPRESS
    found, _ = parser.parse_known_args(options.arguments[1:])
    return {dest: names[dest] for dest in vars(found)}
