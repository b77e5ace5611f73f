"""Use of the memories of each core, and hashes of their contents."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np

from hw.tables import ChipTables, CoreTables
from mapper.spiking.artifacts.manifest_file import CoreEntry


def core_entries(tables: ChipTables) -> list[CoreEntry]:
    """Return the use of each core with neurons, by core id."""
    return [
        CoreEntry(
            number, core.used, core.axons.size, len(core.routes), len(core.synapses),
            len(core.profiles), _digest(core),
        )
        for number, core in enumerate(tables.cores)
        if core.used
    ]  # fmt: skip


def _digest(core: CoreTables) -> str:
    """Return the SHA-256 of all tables of a core, as little-endian integers of 64 bits."""
    found = hashlib.sha256()
    for each in fields(core):
        values = np.ascontiguousarray(getattr(core, each.name), "<i8")
        found.update(repr((each.name, values.shape)).encode())
        found.update(values.tobytes())
    return found.hexdigest()
