"""Contract of chips."""

from __future__ import annotations

import json
import pickle

from chipsim.chip.file import chip_toml
from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields, parse_chip
from mapper.extend.contract import own_folder, require
from mapper.inputs.chips import NAME


def check_chip(chip: Chip) -> None:
    """Check a chip: its name can be given to `--chip`, and its files have all of its values.

    Raises
    ------
    ContractError
        If the name looks like a size or a file, no core is usable, or a chip that is written as
        TOML, as JSON or as a pickle differs from it when it is read.
    """
    name = chip.name
    require(NAME.fullmatch(name) is not None, f"chip {name!r}: the name looks like a size or file")
    require(chip.usable_count > 0, f"chip {name}: has no usable core")
    with own_folder() as folder:
        path = folder / "other.toml"
        path.write_text(chip_toml(chip), encoding="utf-8")
        again = parse_chip(str(path))
    require(again == chip, f"chip {name}: differs after it was written as TOML")
    require(again.origin == chip.origin, f"chip {name}: loses the sources of its numbers as TOML")
    read = from_fields(json.loads(json.dumps(chip.to_json())))
    require(read == chip, f"chip {name}: differs after it was written as JSON")
    require(pickle.loads(pickle.dumps(chip)) == chip, f"chip {name}: differs after pickling")
