"""Argument parser: a short help and a complete one, and invalid choices in one line."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Sequence
from shutil import get_terminal_size
from typing import Any, NamedTuple, NoReturn

HELP_ALL = "--help-all"
ALWAYS = ("help", "json", "details", "quiet", "verbose")
"""Destinations of options in every short help."""
NEGATIVE = re.compile(r"-((\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$", re.IGNORECASE)
"""Negative numbers, which argparse must not report as unknown options."""


class Topic(NamedTuple):
    """Content of the help of a command.

    frequent : destinations of the options that the short help lists; () for all
    epilog : text after the options; the short help prints its first paragraph, the examples
    excluded : destinations of options that do not apply to the given input
    more : last line of the short help, after the line on --help-all
    """

    frequent: Collection[str] = ()
    epilog: str = ""
    excluded: Collection[str] = ()
    more: str = ""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help formatter with an option column wide enough to keep most options on one line."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=29, width=get_terminal_size().columns)

    def add_argument(self, action: argparse.Action) -> None:
        """Add an action; the column also fits the names of commands, which are indented."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment


class CompleteHelp(argparse.Action):
    """Argparse action that prints the complete help and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS,
            help="list all options, and exit",
        )  # fmt: skip

    def __call__(self, parser: argparse.ArgumentParser, *unused: Any) -> None:
        assert isinstance(parser, Parser)
        parser._print_message(parser.format_complete_help(), sys.stdout)
        parser.exit()


class Parser(argparse.ArgumentParser):
    """Parser with a short help, and errors in the style of the other commands."""

    topic = Topic()

    def set_topic(self, topic: Topic) -> None:
        """Set the content of the help; add --help-all if the short help leaves out options."""
        self._negative_number_matcher = NEGATIVE
        self._positionals.title = "arguments"
        self.topic, self.epilog = topic, topic.epilog
        if topic.frequent:
            self.add_argument(HELP_ALL, action=CompleteHelp)

    def format_help(self) -> str:
        """Return the text of --help: frequent options in one list, and the examples."""
        if not self.topic.frequent:
            return self.format_complete_help()
        shown = [one for one in self._actions if self._is_frequent(one)]
        positional = [one for one in shown if not one.option_strings]
        options = [one for one in shown if one.option_strings]
        examples = self.topic.epilog.partition("\n\n")[0].rstrip()
        more = f"`{self.prog} {HELP_ALL}` lists all {len(self._applicable())} options.\n"
        more += self.topic.more
        return self._formatted(
            [("arguments", positional), ("options", options)], f"{examples}\n\n{more}"
        )

    def format_complete_help(self) -> str:
        """Return the text of --help-all: all options by group, and the whole epilog."""
        allowed = {id(one) for one in self._applicable()}
        groups = [
            (
                str(group.title),
                [
                    one
                    for one in group._group_actions
                    if not one.option_strings or id(one) in allowed
                ],
            )
            for group in self._action_groups
        ]
        return self._formatted(groups, self.topic.epilog or self.epilog or "")

    def error(self, message: str) -> NoReturn:
        from storage.printable import plain_lines  # after the check of the installation

        super().error(plain_lines(message))

    def _applicable(self) -> list[argparse.Action]:
        """Return the options that apply to the given input."""
        return [
            one for one in self._actions
            if one.option_strings and one.help != argparse.SUPPRESS
            and one.dest not in self.topic.excluded
        ]  # fmt: skip

    def _is_frequent(self, action: argparse.Action) -> bool:
        if not action.option_strings or action.dest in ALWAYS:
            return True
        return action.dest in self.topic.frequent and action.dest not in self.topic.excluded

    def _formatted(self, groups: list[tuple[str, list[argparse.Action]]], epilog: str) -> str:
        """Return usage, description, groups of actions and epilog as text."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, actions in groups:
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(epilog)
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from storage.jsontext import shown

            known = ", ".join(map(str, action.choices))
            text = f"{shown(value)} is not known; choose from {known}"
            raise argparse.ArgumentError(action, text)
