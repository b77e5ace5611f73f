"""Tables of a mapping as arrays by name: its cores, links and neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.traffic.links import DIRECTIONS, existing
from mapper.results.loads import Loads

Columns = dict[str, NDArray[Any]]


def core_columns(chip: Chip, loads: Loads) -> Columns:
    """Return the use and the traffic of every core, shape (cores,), in real units.

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
    }


def link_columns(chip: Chip, loads: Loads) -> Columns:
    """Return the load of every link between routers, shape (Chip.links,), in real units.

    `x` and `y` are the router that the link leaves. The loads are of one packet per synapse
    (`unicast`), per core reached (`core_cast`), and per neuron (`multicast`).
    """
    columns, rows = chip.routers
    torus = chip.machine.torus if chip.machine else ""
    direction, y, x = np.indices((len(DIRECTIONS), rows, columns))
    return {
        "x": existing(x, torus),
        "y": existing(y, torus),
        "direction": np.array(DIRECTIONS)[existing(direction, torus)],
        "unicast": existing(loads.unicast_links, torus) * loads.weight_unit,
        "core_cast": existing(loads.core_links, torus) * loads.rate_unit,
        "multicast": existing(loads.multicast_links, torus) * loads.rate_unit,
    }


def neuron_columns(chip: Chip, core: NDArray[np.int32], names: Any) -> Columns:
    """Return the core of every neuron, shape (neurons,); names : of the neurons, or None."""
    found: Columns = {"neuron": np.arange(core.size)}
    if names is not None:
        column = np.empty(core.size, object)
        column[:] = list(names)
        found["name"] = column
    return {**found, "core": core, "x": core % chip.width, "y": core // chip.width}
