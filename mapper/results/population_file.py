"""populations.npz: traffic of the populations of a network, for the report page and Python.

A NumPy archive of plain arrays, named as the attributes of
`mapper.scoring.populations.PopulationTraffic` and its slices; `names` is a JSON list in UTF-8.
Networks without populations have no such file.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.errors import MapperError
from mapper.scoring.populations import LINK_PAIRS, PopulationTraffic, Slices
from storage.errors import reason_of
from storage.files import write_file
from storage.jsontext import parse_json
from storage.npz import npz_bytes, open_arrays
from storage.store.populations import KINDS

POPULATIONS = "populations.npz"
SCHEMA = 1
MOST_VALUES = 1 << 26
"""Maximum number of values of an array of the file."""

Arrays = dict[str, NDArray[Any]]


def save_populations(folder: Path, traffic: PopulationTraffic | None) -> None:
    """Write populations.npz into an output folder, if there are populations.

    Equal traffic gives equal bytes. Raises `WriteError`.
    """
    if traffic is None:
        return
    found: Arrays = {
        field.name: np.asarray(getattr(traffic, field.name))
        for field in fields(traffic)
        if field.name not in ("names", "kind", "slices")
    }
    found |= {f"slice_{name}": each for name, each in traffic.slices._asdict().items()}
    found["names"] = np.frombuffer(json.dumps(traffic.names).encode(), np.uint8)
    found["kind"], found["schema"] = np.array(KINDS.index(traffic.kind)), np.array(SCHEMA)
    write_file(folder / POPULATIONS, npz_bytes(found))


def load_populations(folder: Path, chip: Chip) -> PopulationTraffic | None:
    """Read populations.npz of an output folder; None if it does not exist.

    Raises `MapperError` if the file is damaged or belongs to another chip.
    """
    path = folder / POPULATIONS
    if not path.exists():
        return None
    try:
        with open_arrays(path, MOST_VALUES) as file:
            found = {name: file[name] for name in file.files}
        return _checked(found, chip)
    except Exception as error:  # numpy raises many kinds for a damaged archive
        raise MapperError(
            f"{path}: cannot be read: {reason_of(error)}; remove it: the page then has no "
            "populations"
        ) from error


def _checked(found: Arrays, chip: Chip) -> PopulationTraffic:
    if int(found.pop("schema")) != SCHEMA:
        raise ValueError(f"schema is not {SCHEMA}")
    names = parse_json(found.pop("names").astype(np.uint8).tobytes())
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("names are not a list of texts")
    kind, unit = KINDS[int(found.pop("kind"))], float(found.pop("unit"))
    if not 0 < unit < np.inf:
        raise ValueError(f"unit is {unit}")
    columns, rows = chip.routers
    count, pairs = len(names), len(found["pair_source"])
    ends = {  # the largest value of each array of numbers of things, plus one
        "slice_population": count, "slice_core": chip.cores, "range_population": count,
        "pair_source": count, "pair_target": count, "link_pair": pairs,
    }  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("sent", "received", "within", "hops"), (count,)
    )
    for group in ("slice", "range", "pair"):
        same = [name for name in found if name.startswith(f"{group}_")]
        shapes |= dict.fromkeys(same, found[same[0]].shape[:1])
    shapes |= dict.fromkeys(("link_pair", "link_traffic"), (4, rows, columns, LINK_PAIRS))
    for name, array in found.items():
        if array.dtype.kind not in "iu" or array.shape != shapes[name]:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}")
        least = -1 if name == "link_pair" else 0
        if array.size and (array.min() < least or array.max() >= ends.get(name, 2**63)):
            raise ValueError(f"{name} holds impossible values")
    slices = Slices(*(found.pop(f"slice_{name}") for name in Slices._fields))
    return PopulationTraffic(names, kind, unit, slices, **found)
