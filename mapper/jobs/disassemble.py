"""Print the program of a core, or macro records, as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def disassembled(path: Path) -> dict[str, Any]:
    """Return the `text` of a file, and for a program the `info` of its header.

    Raises `MapperError` for other files, and if it is damaged.
    """
    where = str(path)
    if is_records(path):
        return {"text": listing_text(read_input(path, MOST_FILE), where)}
    image = unpack_image(read_input(path, MOST_FILE), where)
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
    return {"info": image.info, "text": disassemble(instructions, micro_ops)}
