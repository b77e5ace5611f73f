"""Tables of a mapping as arrays by name: its cores, links and neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.faults import working_links
from chipsim.chip.model import Chip
from chipsim.traffic.links import DIRECTIONS
from mapper.results.loads import Loads
from mapper.scoring.list_words import numbers_in_cores
from mapper.scoring.populations import PopulationTraffic

Columns = dict[str, NDArray[Any]]


def core_columns(chip: Chip, loads: Loads, populations: PopulationTraffic | None) -> Columns:
    """Return the use and the traffic of every core, shape (cores,), in real units.

    `population` is the population with most neurons in the core, "" for empty cores.
    `size` is the capacity that the neurons use; `spikes`, `sent`, `received`, `local` and `events`
    are the activity (`chipsim.traffic.activity`), the others are traffic of one packet per synapse.
    """
    use, activity, profile = loads.usage, loads.activity, loads.profile
    core = np.arange(chip.cores)
    rates = ("spikes", "sent", "received", "local", "events")
    return {
        "core": core,
        "x": core % chip.width,
        "y": core // chip.width,
        "neurons": use.count,
        "size": use.neurons,
        "synapses": use.synapses,
        "axons_in": use.axons_in,
        "axons_out": use.axons_out,
        "outgoing": profile.outgoing * loads.weight_unit,
        "incoming": profile.incoming * loads.weight_unit,
        "within": profile.within * loads.weight_unit,
        **{name: getattr(activity, name) * loads.rate_unit for name in rates},
        **_largest(chip, populations),
    }


def _largest(chip: Chip, populations: PopulationTraffic | None) -> Columns:
    """Return the name of the population with most neurons in each core; empty without any."""
    if populations is None:
        return {}
    largest = populations.largest(chip.cores)
    return {"population": np.where(largest < 0, "", _texts(populations.names)[largest])}


def link_columns(chip: Chip, loads: Loads) -> Columns:
    """Return the load of every working link between routers, shape (Chip.links,), in real units.

    `x` and `y` are the router that the link leaves. The loads are of one packet per synapse
    (`unicast`), per core reached (`core_cast`), and per neuron (`multicast`).
    """
    columns, rows = chip.routers
    works = working_links(chip)
    direction, y, x = np.indices((len(DIRECTIONS), rows, columns))
    return {
        "x": x[works],
        "y": y[works],
        "direction": np.array(DIRECTIONS)[direction[works]],
        "unicast": loads.unicast_links[works] * loads.weight_unit,
        "core_cast": loads.core_links[works] * loads.rate_unit,
        "multicast": loads.multicast_links[works] * loads.rate_unit,
    }


def neuron_columns(
    chip: Chip, core: NDArray[np.int32], names: Any, populations: PopulationTraffic | None
) -> Columns:
    """Return the core of every neuron, shape (neurons,), and its population if there are any.

    names : of the neurons, or None
    """
    found: Columns = {"neuron": np.arange(core.size)}
    if names is not None:
        column = np.empty(core.size, object)
        column[:] = list(names)
        found["name"] = column
    found |= {"core": core, "x": core % chip.width, "y": core // chip.width}
    of = None if populations is None else populations.of_neurons()
    if populations is None or of is None:
        return found
    of = of[: core.size]  # relay neurons come last
    found["population"] = _texts(populations.names)[of]
    found["population_index"] = numbers_in_cores(of, len(populations.names))
    return found


def _texts(names: list[str]) -> NDArray[Any]:
    found = np.empty(len(names), object)
    found[:] = names
    return found
