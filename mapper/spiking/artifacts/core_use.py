"""Use of the memories of each core and by lists, and hashes of their contents."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from hw.core.shape import CoreShape
from hw.tables import ChipTables, CoreTables
from mapper.spiking.artifacts.manifest_file import CoreEntry, ListsEntry
from mapper.spiking.model import SpikingModel

Int64 = NDArray[np.int64]


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


def list_rows(core: CoreTables, shape: CoreShape) -> tuple[Int64, Int64, Int64]:
    """Return word, source and target of each synapse of a core, shape (synapses,), by axon.

    word : address in the synapse memory, which several axons may read
    target : id in the network, -1 for a number without a neuron
    """
    first, count, base = core.lists.T
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    word = np.repeat(first, count) + place
    local = (np.repeat(base, count) + core.synapses[word, 0]) % shape.neurons
    target = np.full(local.size, -1)
    target[local < core.used] = core.neurons[local[local < core.used]]
    return word, np.repeat(core.axons, count), target


def list_entries(tables: ChipTables, model: SpikingModel) -> list[ListsEntry]:
    """Return the synapse words of each pair of populations, those with the most words first."""
    count = len(model.populations)
    order = np.argsort(model.first, kind="stable")  # neurons first, then inputs
    first = np.array(model.first)[order]
    words, synapses, cores = (np.zeros(count * count, np.int64) for _ in range(3))
    for core in tables.cores:
        word, source, target = list_rows(core, tables.shape)
        of = [order[np.searchsorted(first, each, "right") - 1] for each in (source, target)]
        pair = of[0] * count + of[1]
        stored = pair[np.unique(word, return_index=True)[1]]
        synapses += np.bincount(pair, minlength=count * count)
        words += np.bincount(stored, minlength=count * count)
        cores += np.bincount(np.unique(pair), minlength=count * count)
    names = [each.name for each in model.populations]
    found = [
        ListsEntry(
            names[pair // count], names[pair % count], int(words[pair]), int(synapses[pair]),
            int(cores[pair]),
        )
        for pair in np.flatnonzero(synapses).tolist()
    ]  # fmt: skip
    return sorted(found, key=lambda each: -each.words)


def _digest(core: CoreTables) -> str:
    """Return the SHA-256 of all tables of a core, as little-endian integers of 64 bits."""
    found = hashlib.sha256()
    for each in fields(core):
        values = np.ascontiguousarray(getattr(core, each.name), "<i8")
        found.update(repr((each.name, values.shape)).encode())
        found.update(values.tobytes())
    return found.hexdigest()
