"""Check a folder of a compiled spiking model.

The tables of all cores are generated again from the integers and the mapping. They must have the
stored hashes and stay within the limits of the core, and each synapse of the network must be in
them exactly once. The integers must be the numbers of the model, rounded (`verify_integers`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hw.core.network import SpikingNetwork
from hw.errors import HwError
from hw.tables import ChipTables
from mapper.errors import CheckFailedError
from mapper.results.sealed_folder import MANIFEST
from mapper.spiking.artifacts.core_use import core_entries, list_entries, list_rows
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.artifacts.verify_integers import verify_integers
from mapper.spiking.chip_core import core_within

Int64 = NDArray[np.int64]


class VerifiedFolder(NamedTuple):
    """Checked amounts.

    words : words of synapse lists, which axons share
    numbers : weights and parameters of neurons that were compared with the model
    """

    cores: int
    neurons: int
    axons: int
    routes: int
    synapses: int
    words: int
    numbers: int


def verify_folder(folder: SpikingFolder) -> VerifiedFolder:
    """Check a folder; raise `CheckFailedError` that names the core and the difference."""
    network, shape = folder.integers.network, folder.integers.shape
    own = core_within(folder.chip, shape.weight_bits, int(network.delay.max(initial=0)))
    if shape != own:
        raise CheckFailedError(
            f"{folder.path / MANIFEST}: its core is not the core of chip {folder.chip.name}; "
            "compile the model again"
        )
    try:
        tables = folder.tables()
    except HwError as error:
        raise CheckFailedError(f"{folder.path}: {error}") from error
    found = {each.core: each for each in core_entries(tables)}
    stored = {each.core: each for each in folder.manifest.cores}
    for core in sorted(found.keys() | stored.keys()):
        if found.get(core) != stored.get(core):
            raise CheckFailedError(
                f"{folder.path / MANIFEST}: the tables of core {core} differ from the integers and "
                "the mapping; compile the model again"
            )
    _require_routes(folder, tables)
    _require_synapses(folder, network, tables)
    if list_entries(tables, folder.model) != folder.manifest.lists:
        raise CheckFailedError(
            f"{folder.path / MANIFEST}: the words of its lists differ from the tables; compile the "
            "model again"
        )
    numbers = verify_integers(folder)
    rows = found.values()
    return VerifiedFolder(
        len(rows), network.neurons, sum(one.axons for one in rows), sum(one.routes for one in rows),
        network.source.size, sum(one.synapses for one in rows), numbers,
    )  # fmt: skip


def _require_routes(folder: SpikingFolder, tables: ChipTables) -> None:
    """Check that the routes of each source lead to all of its axons, and to no other axon.

    The host is the core after the last, with an axon for each watched neuron.
    """
    sources = [*(core.axons for core in tables.cores), folder.model.watched]
    axons = np.concatenate(
        [np.column_stack([own, np.full(own.size, core)]) for core, own in enumerate(sources)]
    )
    routes = [np.zeros((0, 2), np.int64)]
    for core in tables.cores:
        source = np.repeat(core.neurons, np.diff(core.route_indptr))
        routes.append(_ends_of(sources, tables.width, source, core.routes))
    packets = [np.array(each, np.int64).reshape(-1, 3) for each in tables.input_packets]
    inputs = np.arange(len(packets)) + folder.integers.network.neurons
    source = np.repeat(inputs, [len(each) for each in packets])
    sent = np.concatenate([np.zeros((0, 3), np.int64), *packets])
    routes.append(_ends_of(sources, tables.width, source, sent))
    if not np.array_equal(_sorted(axons), _sorted(np.concatenate(routes))):
        raise CheckFailedError(
            f"{folder.path}: routes and axons of the cores differ; compile the model again"
        )


def _ends_of(sources: list[Int64], width: int, source: Int64, routes: Int64) -> Int64:
    """Return the source of the axon at the end of each route, which must be its sender, and core.

    sources : of the axons of each core

    A route to the axon of another source has sender -1.
    """
    core = routes[:, 1] * width + routes[:, 0]
    axons = np.concatenate(sources)
    first = np.cumsum([0, *(each.size for each in sources)])
    known = routes[:, 2] < np.diff(first)[core]
    ends = np.full(source.size, -1)
    ends[known] = axons[first[core[known]] + routes[known, 2]]
    return np.column_stack([np.where(ends == source, source, -1), core])


def _require_synapses(folder: SpikingFolder, network: SpikingNetwork, tables: ChipTables) -> None:
    """Check that the lists of all axons are the synapses of the network."""
    parts = [np.zeros((0, 4), np.int64)]
    for core in tables.cores:
        word, source, target = list_rows(core, tables.shape)
        _, weight, delay = core.synapses[word].T
        parts.append(np.column_stack([source, target, weight, delay]))
    wanted = np.column_stack([network.source, network.target, network.weight, network.delay])
    if not np.array_equal(_sorted(np.concatenate(parts)), _sorted(wanted)):
        raise CheckFailedError(
            f"{folder.path}: the synapse lists of the cores are not the synapses of the model; "
            "compile the model again"
        )


def _sorted(rows: Int64) -> Int64:
    """Return rows in ascending order."""
    return rows[np.lexsort(rows.T)]
