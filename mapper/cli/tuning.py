"""Options of the settings of a run: `--set NAME=VALUE`, and one option each for some.

The settings are in the table `mapper.settings.SETTINGS`.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.errors import UsageError, shown
from mapper.settings import OBJECTIVES, SETTINGS, Setting, Settings, preset, setting_of

OWN = {"preset": "--preset", "seed": "--seed", "threads": "--threads", "memory_bytes": "--memory"}
"""Settings with separate options, which `--set` rejects."""
METHOD = tuple(name for name in SETTINGS if name not in OWN)
"""Settings of `mapper run --set`, in Python the keyword arguments `method`."""


def add_preset(group: argparse._ActionsContainer) -> None:
    group.add_argument("--preset", default="default", metavar="P", help=SETTINGS["preset"].range)


def add_method(group: argparse._ActionsContainer) -> None:
    """Add the options of the objective, and of how full which cores are."""
    group.add_argument(
        "--objective",
        choices=OBJECTIVES,
        metavar="O",
        help=f"minimise {', '.join(OBJECTIVES)}",
    )
    for name, metavar in (("cores", "N"), ("fill", "F"), ("min_fill", "F")):
        setting = SETTINGS[name]
        group.add_argument(f"--{setting.option}", metavar=metavar, help=setting.help)
    group.add_argument("--spread", action="store_const", const="yes", help=SETTINGS["spread"].help)


def add_settings(group: argparse._ActionsContainer, names: Collection[str] = METHOD) -> None:
    """Add `--set` for some settings."""
    action = group.add_argument(
        "--set",
        action="append",
        metavar="NAME=VALUE",
        help="a setting from `mapper docs settings`; repeatable",
    )
    action.offered = tuple(f"{SETTINGS[name].option}=" for name in names)  # type: ignore[attr-defined]


def settings_of(
    options: argparse.Namespace,
    names: Collection[str] = METHOD,
    memory: int | None = None,
    threads: int | None = None,
) -> Settings:
    """Return the settings of the command line; raise `UsageError` for names not in `names`.

    memory, threads : bytes and number that replace --memory and --threads
    """
    given = _given(options, names)
    if hasattr(options, "seed"):  # not every command has the option
        given["seed"] = options.seed
    return preset(
        options.preset,
        threads=common.threads_of(options) if threads is None else threads,
        memory_bytes=common.memory_of(options) if memory is None else memory,
        **given,
    )


def tell_unread(
    options: argparse.Namespace, settings: Settings, read: Collection[str] | None = None
) -> None:
    """Report on stderr the given settings without effect.

    read : names of settings with effect; None derives them from method and objective
    """
    unread = [
        name
        for name in _given(options, METHOD)
        if not (settings.reads(name) if read is None else name in read)
    ]
    if unread:
        where = f"--preset {settings.preset}"
        if any(SETTINGS[name].group == "multicast" for name in unread):
            where += f" and the objective {settings.objective}"
        terminal.say(options, f"note: without effect with {where}: {', '.join(unread)}")


def _given(options: argparse.Namespace, names: Collection[str]) -> dict[str, Any]:
    """Return the settings of the command line, from separate options or `--set`."""
    found = {}
    for name in names:
        text = getattr(options, name, None)
        if text is not None:
            found[name] = SETTINGS[name].parse(text)
    before = dict(found)
    once: set[str] = set()
    for word in getattr(options, "set", None) or ():
        setting, value = _assigned(word, names)
        name = setting.name
        if name in once:
            raise UsageError(f"--set: duplicate {name}; give it once")
        if name in before and before[name] != value:
            raise UsageError(f"{name}: option has {before[name]}, but --set has {value}; give one")
        once.add(name)
        found[name] = value
    return found


def assigned_list(word: str) -> tuple[str, list[Any]]:
    """Return name and values of a word of `--set` with a list of values."""
    setting, text = _named(word, METHOD)
    return setting.name, [setting.parse(one.strip()) for one in text.split(",")]


def _assigned(word: str, names: Collection[str]) -> tuple[Setting, Any]:
    """Return the setting and value of a word of `--set`."""
    setting, text = _named(word, names)
    return setting, setting.parse(text.strip())


def _named(word: str, names: Collection[str]) -> tuple[Setting, str]:
    """Return the setting and the text of a word of `--set`."""
    name, equals, text = word.partition("=")
    name = name.strip().lower().replace("-", "_")
    if not equals:
        raise UsageError(f"--set {shown(word)}: expected NAME=VALUE, such as --set starts=4")
    if name in OWN:
        raise UsageError(f"--set: {name} is not a method setting; use {OWN[name]}")
    if name in METHOD and name not in names:
        raise UsageError(f"--set: {name} has no effect here; choose from {', '.join(names)}")
    try:
        setting = setting_of(name, names)
    except UsageError as error:
        end = "" if str(error).endswith("?") else ";"
        raise UsageError(f"--set: {error}{end} `mapper docs settings` lists all") from None
    return setting, text
