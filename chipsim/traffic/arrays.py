"""Traffic arrays of a mapped network: the basis of metrics and plots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from chipsim.chip.limits import Usage
from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.parallel import map_ordered
from chipsim.protocols import BlockSource, FloatArray, Int32Array, Int64Array, SynapseBlock
from chipsim.traffic.activity import Activity
from chipsim.traffic.congestion_sample import CongestionSample
from chipsim.traffic.flows import follow
from chipsim.traffic.links import Totals, loads_of, turns_of
from chipsim.traffic.machines import FlowCosts
from chipsim.traffic.pairs import PairTable
from chipsim.traffic.profile import Profile
from chipsim.traffic.sweep import SUM_LIMIT, Sweep, Swept

_Integer = TypeVar("_Integer", np.int32, np.int64)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Loads of a network under a mapping, as integers to be multiplied by the units.

    Attributes
    ----------
    weight_unit, rate_unit
        Unit of the unicast arrays and of the other arrays. If the rates of the neurons come from
        the weights, ``rate_unit`` is the unit of the weights.
    pairs
        The sum of the weights of every core pair with traffic, in a compact form.
    totals
        Totals of the unicast spikes for the metrics: weight, cut, hops.
    unicast_links, core_links, multicast_links : ndarray[int64], shape (4, rows, columns of routers)
        Load of the link that leaves router (x, y) at [d, y, x] towards
        `chipsim.traffic.links.DIRECTIONS[d]`: with one packet per synapse, in ``weight_unit``; with
        one packet per destination core, and with multicast trees, in ``rate_unit``.
    unicast_turns, core_turns, multicast_turns : ndarray[int64], shape (turns, rows, columns)
        Where these packets leave their cores and turn, in the form of `chipsim.traffic.turns`; for
        packets to cores and trees, shape (0, ...) if the chip does not need them.
    congestion : ndarray[float64], shape (rows, columns of routers)
        Expected load of the routers when spikes spread over all minimal paths; if links are broken,
        the load on their routes.
    congestion_sample : the sample of traffic that congestion was measured on; None for all traffic
    connectivity : sum over neurons of rate * (number of other cores reached)
    unicast_hops : sum over synapses of the rate of the source * distance, in ``rate_unit``: hops of
        one packet per synapse, with the same activity as the trees
    usage : use of every core
    activity : activity of every core, in ``rate_unit``
    profile : unicast traffic by core and by distance
    costs, core_cost : distance costs on a machine: of unicast spikes in ``weight_unit``, and of one
        packet per destination core in ``rate_unit``; 0 otherwise
    """

    weight_unit: float
    rate_unit: float
    pairs: PairTable
    totals: Totals
    unicast_links: Int64Array
    core_links: Int64Array
    multicast_links: Int64Array
    unicast_turns: Int64Array
    core_turns: Int64Array
    multicast_turns: Int64Array
    congestion: FloatArray
    congestion_sample: CongestionSample | None
    connectivity: int
    unicast_hops: int
    usage: Usage
    activity: Activity
    profile: Profile
    costs: FlowCosts
    core_cost: int


class Units(NamedTuple):
    """Units of weights and of rates."""

    weight: float = 1.0
    rate: float = 1.0


UNITS = Units()


def measure(
    chip: Chip,
    core: Int32Array,
    blocks: Iterable[SynapseBlock] | BlockSource,
    *,
    sizes: Int64Array,
    rates: Int64Array | None = None,
    undirected: bool = False,
    units: Units = UNITS,
    threads: int = 1,
    scratch: Path | None = None,
    swept: Iterable[Swept] = (),
) -> Traffic:
    """Stream ``blocks`` once and collect all loads.

    Parameters
    ----------
    chip
        The chip of the mapping. Routes may pass unavailable cores, and these may even be in use
        here; `chipsim.chip.limits.violations` reports that.
    core : ndarray[int32], shape (neurons,), core id
        The mapping.
    blocks
        Every vertex of the network once, in any order of the blocks. Threads read the blocks of a
        `BlockSource` themselves; an iterable is consumed in the caller's thread, a few blocks
        ahead.
    sizes : ndarray[int64], shape (neurons,), capacity that a neuron uses, >= 0
    rates : ndarray[int64], shape (neurons,), in rate units, >= 0
        Firing rates; None for the largest weight of each neuron's outgoing synapses.
    units
        Units of weights and of rates; if rates come from the weights, the rate unit equals the
        weight unit.
    undirected
        True if each edge is listed as outgoing at both of its ends. An edge is one flow, from the
        lower to the higher vertex id, in all unicast sums; it is two synapses, one each way, in the
        multicast sums and in the use of the cores.
    threads
        Number of threads. The result is bit-identical for any number.
    scratch
        Folder for temporary files if the core pairs exceed hundreds of megabytes; None keeps them
        in memory.
    swept
        Sums of other processes over blocks that are not in ``blocks``.

    Raises
    ------
    ChipError
        If the arrays do not belong together, or a sum would exceed 2^62.
    """
    core, sizes, rates = _checked(core, sizes, rates, units)
    sweep = Sweep(chip, core, sizes, rates, undirected, scratch)
    _add_all(sweep, blocks, threads, swept)
    _require_all(sweep, len(core))
    sweep.finish()
    pairs = sweep.pairs.table()
    flows = follow(chip, pairs, np.flatnonzero(sweep.usage.count), threads)
    return Traffic(
        weight_unit=units.weight,
        rate_unit=units.weight if rates is None else units.rate,
        pairs=pairs,
        totals=flows.totals,
        unicast_links=loads_of(flows.routes),
        core_links=loads_of(sweep.core_links),
        multicast_links=loads_of(sweep.tree_links),
        unicast_turns=turns_of(flows.routes),
        core_turns=turns_of(sweep.core_links),
        multicast_turns=turns_of(sweep.tree_links),
        congestion=flows.congestion,
        congestion_sample=flows.sample,
        connectivity=sweep.connectivity,
        unicast_hops=sweep.unicast_hops,
        usage=sweep.usage,
        activity=sweep.activity,
        costs=flows.costs,
        core_cost=sweep.core_cost,
        profile=flows.profile,
    )


def _add_all(
    sweep: Sweep,
    blocks: Iterable[SynapseBlock] | BlockSource,
    threads: int,
    swept: Iterable[Swept],
) -> None:
    """Add all blocks, and the sums of other processes; a thread holds one block at a time."""
    if isinstance(blocks, BlockSource):
        source = blocks
        added = map_ordered(
            lambda index: sweep.add(source.read_block(index)), range(source.block_count), threads
        )
    else:
        added = map_ordered(sweep.add, blocks, threads)
    for _ in added:
        pass
    for part in swept:
        sweep.join(part)


def _require_all(sweep: Sweep, neurons: int) -> None:
    if sweep.vertices != neurons:
        raise ChipError(
            f"the blocks hold {sweep.vertices} vertices, the mapping {neurons} neurons; "
            "use the mapping of this network"
        )


def _checked(
    core: Int32Array, sizes: Int64Array, rates: Int64Array | None, units: Units
) -> tuple[Int32Array, Int64Array, Int64Array | None]:
    """Return the arrays per neuron in the types of the kernels; copies only if they differ."""
    core = _whole("core", core, np.int32, np.size(core))
    sizes = _whole("sizes", sizes, np.int64, len(core))
    if rates is not None:
        rates = _whole("rates", rates, np.int64, len(core))
        if len(rates) and rates.min() < 0:
            raise ChipError(f"rates: neuron {int(rates.argmin())} has a negative rate")
    if float(sizes.sum(dtype=np.float64)) >= SUM_LIMIT:
        raise ChipError("the sum of sizes exceeds 2^62; use a coarser unit")
    for name, unit in zip(("weight_unit", "rate_unit"), units, strict=True):
        if not 0 < unit < np.inf:
            raise ChipError(f"{name} is {unit!r}; give a positive number")
    return core, sizes, rates


def _whole(
    name: str, array: npt.NDArray[np.integer], dtype: type[_Integer], neurons: int
) -> npt.NDArray[_Integer]:
    found = np.asarray(array)
    if found.shape != (neurons,) or not np.issubdtype(found.dtype, np.integer):
        raise ChipError(
            f"{name} has shape {found.shape} and type {found.dtype}; "
            f"give one whole number for each of the {neurons} neurons"
        )
    if neurons and not np.can_cast(found.dtype, dtype):
        for value in (int(found.min()), int(found.max())):
            if not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
                raise ChipError(f"{name} holds {value}, too large for {dtype.__name__}")
    return found.astype(dtype, copy=False)
