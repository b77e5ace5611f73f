"""Check that the macro records of a compiled folder generate its programs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mapper.compiler.artifacts.manifest import RECORDS, WEIGHTS, CompiledFolder, program_file
from mapper.compiler.codegen.loaded import images_of_records
from mapper.compiler.codegen.macros.file import record_count
from mapper.compiler.program.image import Image
from mapper.errors import CheckFailedError

SAID = {
    "info": "sizes",
    "micro_ops": "micro-ops",
    "weights": "weight words",
    "parameters": "parameter words",
    "headers": "packet headers",
    "maps": "preset vectors",
}
"""Names of program parts in messages."""


def verify_records(folder: CompiledFolder) -> int:
    """Generate the programs from the macro records again; return the number of records.

    Raises `CheckFailedError` that names the difference, `MapperError` that names a damaged record.
    """
    where = str(folder.path / RECORDS)
    if not folder.records:
        raise CheckFailedError(f"{where}: is missing; compile the model again")
    made = images_of_records(folder.records, where)
    places = [one.core for one in made.layers]
    if places != list(folder.images):
        raise CheckFailedError(
            f"{where}: has cores {_named(places)}, but programs are for "
            f"{_named(folder.images)}; compile the model again"
        )
    for place, image in zip(places, made.images, strict=True):
        _require_same(folder.images[place], image, f"{where}: the {{}} differ from "
                      f"{program_file(place)}; compile the model again")  # fmt: skip
    stored = b"" if folder.weights is None else folder.weights.tobytes()
    if made.words != stored:
        raise CheckFailedError(f"{where}: its weight words differ from {WEIGHTS}; compile again")
    return record_count(folder.records, where)


def _named(places: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"({x}, {y})" for x, y in places) or "none"


def _require_same(kept: Image, made: Image, message: str) -> None:
    for name in Image._fields:
        mine, its = getattr(kept, name), getattr(made, name)
        if not (np.array_equal(mine, its) if isinstance(its, np.ndarray) else mine == its):
            raise CheckFailedError(message.format(SAID.get(name, name)))
