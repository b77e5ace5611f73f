"""Node attributes of exported SONATA files for which the standard has no names.

The attributes `mapper_id`, `mapper_name` and `mapper_size` in group 0 of a population are ids or
names, and sizes, of its nodes. Names are unique only within a population, so ids are read only if
there is one population. Sizes are read from all; nodes of populations without them get the size 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.hdf5 import file as hdf5
from storage.store.network import ID, SIZE

OWN_ID, OWN_NAME, OWN_SIZE = "mapper_id", "mapper_name", "mapper_size"
GROUP = "0"

Found = dict[str, tuple[NDArray[Any], list[str] | None]]


def read_attributes(paths: list[Path], counts: Mapping[str, int]) -> Found:
    """Return values and labels of the attributes `id` and `size`, if the files have them.

    counts : nodes of each population, in the order of the neurons
    """
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    sizes = np.ones(sum(counts.values()), np.int64)
    found: Found = {}
    for path in paths:
        with hdf5.opened(path) as file:
            nodes = hdf5.group(file, "nodes", path)
            for name in hdf5.groups(nodes):
                own, count = nodes[name].get(GROUP), counts[name]
                if own is None or not hasattr(own, "keys"):
                    continue
                if OWN_SIZE in own:
                    part = slice(first[name], first[name] + count)
                    sizes[part] = hdf5.column(own, OWN_SIZE, path, count)[:]
                    found[SIZE] = sizes, None
                if len(counts) == 1 and OWN_ID in own:
                    found[ID] = hdf5.column(own, OWN_ID, path, count)[:], None
                elif len(counts) == 1 and OWN_NAME in own:
                    found[ID] = np.arange(count), _names(own, path, count)
    return found


def _names(group: Any, path: Path, count: int) -> list[str]:
    try:
        texts = hdf5.column(group, OWN_NAME, path, count, kinds="O")[:].tolist()
        return [text.decode() if isinstance(text, bytes) else str(text) for text in texts]
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: {group.name}/{OWN_NAME} is not in UTF-8") from error
