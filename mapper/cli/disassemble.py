"""`mapper disassemble`: print the program of a core, or macro records, as text."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal

EPILOG = """\
examples:
  mapper disassemble out/core_0_0.npc
  mapper disassemble out/core_0_0.npc > program.txt
  mapper disassemble out/macros.bin

Prints one instruction per line, then the micro-ops; zero fields are omitted.
`mapper docs isa` explains instructions and fields. Macro records are printed
one per line, under the name of their layer.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="FILE",
                        help="program of a core (.npc), or macro records (macros.bin)")  # fmt: skip
    common.add_memory(parser)


def run(options: argparse.Namespace) -> int:
    from mapper.jobs.disassemble import disassembled

    found = disassembled(options.path)
    if options.json:
        terminal.emit(options, found, [])
    else:
        terminal.write(found["text"])
    return 0
