"""Checks that the macro records of a compiled folder make its program."""

from __future__ import annotations

import numpy as np

from mapper.compiler.codegen.image import Image
from mapper.compiler.codegen.loaded import image_of_records
from mapper.compiler.codegen.macros.file import record_count
from mapper.compiler.manifest import RECORDS, WEIGHTS, CompiledFolder
from mapper.errors import CheckFailedError

SAID = {
    "info": "sizes",
    "micro_ops": "micro-ops",
    "weights": "weight words",
    "parameters": "parameter words",
    "headers": "packet headers",
    "maps": "preset vectors",
}
"""Parts of a program, as messages name them."""


def verify_records(folder: CompiledFolder) -> int:
    """Make the program of the macro records once more; returns how many records there are.

    Raises `CheckFailedError` that names what differs, `MapperError` that names a damaged record.
    """
    where = str(folder.path / RECORDS)
    if not folder.records:
        raise CheckFailedError(f"{where}: is missing; compile the model again")
    image, words, layers = image_of_records(folder.records, where)
    place = layers.core
    if place not in folder.images:
        raise CheckFailedError(f"{where}: its core {place} has no program; compile again")
    kept = folder.images[place]
    for name in Image._fields:
        mine, made = getattr(kept, name), getattr(image, name)
        if not (np.array_equal(mine, made) if isinstance(made, np.ndarray) else mine == made):
            raise CheckFailedError(
                f"{where}: makes other {SAID.get(name, name)} than those of "
                f"core_{place[0]}_{place[1]}.npc; compile the model again"
            )
    stored = b"" if folder.weights is None else folder.weights.tobytes()
    if words != stored:
        raise CheckFailedError(f"{where}: makes other words than {WEIGHTS}; compile again")
    return record_count(folder.records, where)
