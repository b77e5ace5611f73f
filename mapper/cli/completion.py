"""`mapper completion`: a script that teaches a shell the commands and their options."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

EPILOG = """\
examples:
  mapper completion bash > ~/.local/share/bash-completion/completions/mapper
  mapper completion zsh > ~/.zfunc/_mapper
  mapper completion fish > ~/.config/fish/completions/mapper.fish
  mapper completion tcsh >> ~/.cshrc
  mapper completion powershell >> $PROFILE

Folders that do not exist have to be made first. zsh looks into ~/.zfunc if
~/.zshrc says `fpath+=~/.zfunc` before `autoload -U compinit; compinit`. New
shells complete commands, options, presets, pages and names of files. Write the
script anew after an update.
"""
SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(options: argparse.Namespace) -> int:
    script = completion_script(options.shell)
    if options.json:
        sys.stdout.write(json.dumps({"shell": options.shell, "script": script}) + "\n")
    else:
        sys.stdout.write(script)
    return 0


def completion_script(shell: str) -> str:
    """The script for one of `SHELLS`."""
    import shtab

    from chipsim.chip.presets import PRESETS as CHIPS
    from mapper.cli.main import build_whole_parser
    from mapper.cli.manual import pages
    from mapper.cli.tuning import METHOD
    from mapper.settings import PRESETS, SETTINGS

    # Of a parser that only completes: what may be given stays wider than what is offered.
    parser = build_whole_parser()
    offered = {
        "chip": tuple(CHIPS),
        "preset": tuple(PRESETS),
        "page": tuple(pages()),
        "set": tuple(f"{SETTINGS[name].option}=" for name in METHOD),
    }
    for action in _actions(parser):
        if action.dest in offered and action.choices is None:
            action.choices = offered[action.dest]
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(parser, shell).rstrip("\n") + "\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """All options and arguments, those of sub-commands too."""
    from mapper.cli.main import subparsers

    yield from parser._actions
    for sub in subparsers(parser).values():
        yield from _actions(sub)
