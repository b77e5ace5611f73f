"""`mapper completion`: print a shell completion script."""

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

Create missing folders first. For zsh, ~/.zshrc needs `fpath+=~/.zfunc` before
`autoload -U compinit; compinit`. New shells complete commands, options,
presets, pages and file names. Repeat the command after an update.
"""
BASH_END = """
# A value follows NAME= without a space.
_mapper_complete() {
  _shtab_mapper "$@"
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2> /dev/null
  return 0
}
complete -o bashdefault -F _mapper_complete mapper
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
    """Return the completion script of one of `SHELLS`."""
    import shtab

    from chipsim.chip.presets import PRESETS as CHIPS
    from mapper.cli.main import build_whole_parser
    from mapper.cli.manual import pages
    from mapper.settings import PRESETS
    from storage.plugins import CHIPS as ADDED
    from storage.plugins import names_of

    # a separate parser: these choices are suggestions, and other values stay valid
    parser = build_whole_parser()
    offered = {
        "chip": (*CHIPS, *names_of(ADDED)),
        "preset": tuple(PRESETS),
        "page": tuple(pages()),
    }
    for action in _actions(parser):
        choices = getattr(action, "offered", offered.get(action.dest))
        if choices is not None and action.choices is None:
            action.choices = choices
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, shell).rstrip("\n") + "\n"
    return script + BASH_END if shell == "bash" else script


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield all options and arguments, also of sub-commands."""
    from mapper.cli.main import subparsers

    yield from parser._actions
    for sub in subparsers(parser).values():
        yield from _actions(sub)
