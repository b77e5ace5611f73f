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
    from hw.errors import HwError
    from hw.npu.isa.assembly import disassemble
    from hw.npu.isa.encoding import decode, decode_micro_op
    from hw.npu.isa.table import INSTRUCTION_BYTES, MICRO_OP_BYTES
    from mapper.compiler.artifacts.contents import is_records
    from mapper.compiler.codegen.macros.file import listing_text
    from mapper.compiler.program.image import unpack_image
    from mapper.errors import MapperError
    from mapper.results.sealed_folder import MOST_FILE
    from storage.files import read_input

    where = str(options.path)
    if is_records(options.path):
        text = listing_text(read_input(options.path, MOST_FILE), where)
        if options.json:
            terminal.emit(options, {"text": text}, [])
        else:
            terminal.write(text)
        return 0
    image = unpack_image(read_input(options.path, MOST_FILE), where)
    try:
        instructions = [
            decode(image.instructions[at : at + INSTRUCTION_BYTES], f"{where}: offset {at}")
            for at in range(0, len(image.instructions), INSTRUCTION_BYTES)
        ]
        micro_ops = [
            decode_micro_op(image.micro_ops[at : at + MICRO_OP_BYTES], f"{where}: micro-op {at}")
            for at in range(0, len(image.micro_ops), MICRO_OP_BYTES)
        ]
    except HwError as error:
        raise MapperError(str(error)) from error
    text = disassemble(instructions, micro_ops)
    if options.json:
        terminal.emit(options, {"info": image.info, "text": text}, [])
    else:
        terminal.write(text)
    return 0
