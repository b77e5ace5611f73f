"""Where the traffic of a mapped network goes: the arrays behind the metrics and the pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from chipsim.chip import Chip
from chipsim.congestion import router_loads
from chipsim.errors import ChipError
from chipsim.limits import Usage
from chipsim.links import loads_of, unicast_loads
from chipsim.protocols import FloatArray, Int32Array, Int64Array, SynapseBlock
from chipsim.sweep import SUM_LIMIT, Sweep

_Integer = TypeVar("_Integer", np.int32, np.int64)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Loads of one network under one mapping, in units that are still to be multiplied in.

    Attributes
    ----------
    weight_unit, rate_unit
        What 1 means in the unicast and in the multicast arrays. Where the rates of the neurons
        come from the weights, ``rate_unit`` is the unit of the weights.
    pair_source, pair_target, pair_weight : ndarray[int64], shape (core pairs with traffic,)
        Core ids and the sum of the weights, sorted by source and then target. Traffic within a
        core is there too, with source = target.
    unicast_links, multicast_links : ndarray[int64], shape (4, height, width)
        Load of the link that leaves router (x, y) at [d, y, x] towards
        `chipsim.links.DIRECTIONS[d]`.
    congestion : ndarray[float64], shape (height, width)
        Expected load of the routers when spikes spread over all minimal paths.
    connectivity : sum over neurons of rate * (number of other cores reached)
    usage : what every core holds
    """

    weight_unit: float
    rate_unit: float
    pair_source: Int64Array
    pair_target: Int64Array
    pair_weight: Int64Array
    unicast_links: Int64Array
    multicast_links: Int64Array
    congestion: FloatArray
    connectivity: int
    usage: Usage


def measure(
    chip: Chip,
    core: Int32Array,
    blocks: Iterable[SynapseBlock],
    *,
    sizes: Int64Array,
    rates: Int64Array | None = None,
    undirected: bool = False,
    weight_unit: float = 1.0,
    rate_unit: float = 1.0,
) -> Traffic:
    """Stream ``blocks`` once and gather all loads.

    Parameters
    ----------
    chip
        The chip that the mapping is for. Unavailable cores are routed through and may even be in
        use here; `chipsim.limits.violations` tells.
    core : ndarray[int32], shape (neurons,), core id
        The mapping.
    blocks
        Every vertex of the network once, in any order of the blocks.
    sizes : ndarray[int64], shape (neurons,), capacity that a neuron uses, >= 0
    rates : ndarray[int64], shape (neurons,), in ``rate_unit``, >= 0
        Firing rates; None for the largest weight of each neuron's outgoing synapses.
    undirected
        Each edge is listed as outgoing at both of its ends. It is one flow, from the lower to
        the higher vertex id, in all unicast sums; and two synapses, one each way, in the multicast
        ones and in the use of the cores.

    Raises
    ------
    ChipError
        If the arrays do not belong together, or a sum would exceed 2^62.
    """
    core, sizes, rates = _checked(core, sizes, rates)
    for name, unit in (("weight_unit", weight_unit), ("rate_unit", rate_unit)):
        if not 0 < unit < np.inf:
            raise ChipError(f"{name} is {unit!r}; give a positive number")
    sweep = Sweep(chip, core, sizes, rates, undirected)
    for block in blocks:
        sweep.add(block)
    if sweep.vertices != len(core):
        raise ChipError(
            f"the blocks hold {sweep.vertices} vertices, the mapping {len(core)} neurons; "
            "use the mapping of this network"
        )
    source, target, weight = sweep.pairs.result()
    if float(np.dot(weight.astype(np.float64), distances(chip, source, target))) >= SUM_LIMIT:
        raise ChipError("unicast: weight * hops exceeds 2^62; use a coarser weight unit")
    return Traffic(
        weight_unit=weight_unit,
        rate_unit=weight_unit if rates is None else rate_unit,
        pair_source=source,
        pair_target=target,
        pair_weight=weight,
        unicast_links=unicast_loads(chip, source, target, weight),
        multicast_links=loads_of(sweep.tree_links),
        congestion=router_loads(chip, source, target, weight),
        connectivity=sweep.connectivity,
        usage=sweep.usage,
    )


def distances(chip: Chip, source: Int64Array, target: Int64Array) -> Int64Array:
    """Manhattan distance in hops between cores, elementwise."""
    x, y = chip.coordinates()
    hops = np.abs(x[target] - x[source])
    hops += np.abs(y[target] - y[source])
    return hops.astype(np.int64)


def _checked(
    core: Int32Array, sizes: Int64Array, rates: Int64Array | None
) -> tuple[Int32Array, Int64Array, Int64Array | None]:
    """The arrays per neuron in the types of the kernels; copies only where they differ."""
    core = _whole("core", core, np.int32, np.size(core))
    sizes = _whole("sizes", sizes, np.int64, len(core))
    if rates is not None:
        rates = _whole("rates", rates, np.int64, len(core))
        if len(rates) and rates.min() < 0:
            raise ChipError(f"rates: neuron {int(rates.argmin())} has a negative rate")
    if float(sizes.sum(dtype=np.float64)) >= SUM_LIMIT:
        raise ChipError("sizes add up to over 2^62; use a coarser unit")
    return core, sizes, rates


def _whole(
    name: str, array: npt.NDArray[np.integer], dtype: type[_Integer], neurons: int
) -> npt.NDArray[_Integer]:
    found = np.asarray(array)
    if found.shape != (neurons,) or not np.issubdtype(found.dtype, np.integer):
        raise ChipError(
            f"{name} has shape {found.shape} and type {found.dtype}; "
            f"give whole numbers, one for each of the {neurons} neurons"
        )
    if neurons and not np.can_cast(found.dtype, dtype):
        for value in (int(found.min()), int(found.max())):
            if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                raise ChipError(f"{name} holds {value}, too large for {dtype.__name__}")
    return found.astype(dtype, copy=False)
