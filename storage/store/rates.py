"""Networks given firing rates: every synapse then carries the rate of its source.

The lists of connections stay as they are, so no sorting is needed: blocks are read, get other
weights, and are written, in any number of threads.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.graph import Block
from storage.parallel import map_ordered
from storage.quantise import Rounding, UnitFinder, to_units
from storage.sorting.sorter import MAX_TOTAL
from storage.store.archive import ArchiveWriter, Packed, pack
from storage.store.codec import encode_block, encode_numbers
from storage.store.meta import MEMBER, AttributeMeta, NetworkMeta
from storage.store.network import RATE, NetworkFile, attribute_member, block_member, weights_member
from storage.store.traffic import ROUNDED, from_rates, rounded_facts, uniform

Rates = NDArray[np.integer] | NDArray[np.floating]


def check_rates(rates: Rates, neurons: int, where: str) -> None:
    """Raise `BadInputError` unless there is one rate a neuron, finite and not negative.

    rates : shape (neurons,); where : what the message starts with
    """
    if rates.ndim != 1 or rates.size != neurons:
        shape = " x ".join(map(str, rates.shape)) or "a single one"
        raise BadInputError(f"{where}: rates are {shape}; the network has {neurons} neurons")
    if rates.dtype.kind not in "iuf":
        raise BadInputError(f"{where}: rates are {rates.dtype}; give numbers")
    wrong, fault = ~np.isfinite(rates), "is not finite; repair it"
    if not wrong.any():
        wrong, fault = rates < 0, "is negative; a neuron fires or is silent"
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise BadInputError(f"{where}: rate of neuron {at} (from 0): {rates[at]} {fault}")


def write_rated(
    network: NetworkFile,
    destination: Path,
    rates: Rates,
    *,
    source: str | None = None,
    traffic: dict[str, Any] | None = None,
    threads: int = 1,
) -> NetworkMeta:
    """Write a network like this one in which neuron v fires rates[v] times per unit of time.

    The attribute `rate` holds the rates. The weight of a connection is the rate of its source times
    the synapses that it stands for; that of an undirected edge has the rates of both its ends.
    Traffic that the network had is replaced; synaptic weights stay.
    rates : shape (neurons,); source : name of the file that they are from
    traffic : what the provenance says of them; None for `traffic.from_rates` of this file
    Raises `BadInputError` if they will not do; then no file is left behind.
    """
    check_rates(rates, network.vertices, source or RATE)
    finder = UnitFinder()
    finder.observe(rates, RATE)
    unit = finder.unit()
    stored, rounding = to_units(rates, unit)
    if float(stored.max(initial=0)) * network.meta.synapses_read * 2 >= MAX_TOTAL:
        raise BadInputError(f"{source or RATE}: the traffic adds up beyond 2^62; scale rates down")

    def rated(index: int) -> tuple[Packed, int, int]:
        block = with_rates(network.read_block(index), stored, network.undirected)
        raw = encode_block(block, network.meta.default_size, network.meta.default_weight)
        return pack(block_member(index), raw), int(block.weights.sum()), len(raw)

    weight = largest = 0
    with ArchiveWriter(destination) as archive:
        for member, own, length in map_ordered(rated, range(network.block_count), threads):
            archive.add(member)
            weight, largest = weight + own, max(largest, length)
        step = network.meta.attribute_block_size
        chunks = range(-(-network.vertices // step))
        for name in network.meta.attributes:
            for member_name in (attribute_member(name, i) for i in chunks if name != RATE):
                archive.add(pack(member_name, network.member(member_name)))
        if network.meta.synaptic is not None:
            for member_name in map(weights_member, range(network.block_count)):
                archive.add(pack(member_name, network.member(member_name)))
        for i in chunks:
            raw = encode_numbers(stored[i * step : (i + 1) * step])
            archive.add(pack(attribute_member(RATE, i), raw))
        meta = replace(
            network.meta,
            weights_are_rates=True,
            weight_unit=unit,
            weights_clamped=0,
            total_weight=weight // 2,
            largest_block_bytes=largest,
            attributes={**network.meta.attributes, RATE: AttributeMeta(unit, 0)},
            provenance={
                name: fact
                for name, fact in network.meta.provenance.items()
                if name not in ROUNDED  # of weights and rates that are replaced
            }
            | rounded_facts(Rounding(), rounding)
            | (traffic or from_rates(source)),
        )
        archive.add(pack(MEMBER, meta.to_json()))
        archive.commit()
    return meta


def write_uniform(network: NetworkFile, destination: Path, threads: int = 1) -> NetworkMeta:
    """Write a network like this one in which every neuron fires once per unit of time."""
    ones = np.ones(network.vertices, np.int64)
    return write_rated(network, destination, ones, traffic=uniform(), threads=threads)


def with_rates(block: Block, rates: NDArray[np.int64], undirected: bool) -> Block:
    """The block with the weights that follow from `rates`, shape (vertices of the network,)."""
    own = block.first + np.repeat(np.arange(block.vertices), np.diff(block.indptr))
    if undirected:
        weights = rates[own] + rates[block.ids]
    else:
        weights = rates[np.where(block.incoming > 0, block.ids, own)]
    if block.sizes is not None:
        weights = weights * block.sizes
    return replace(block, weights=weights)


def follows_rates(
    block: Block,
    rates: NDArray[np.int64],
    undirected: bool,
    weight_unit: float = 1.0,
    rate_unit: float = 1.0,
) -> bool:
    """Whether the weights of a block are those of `with_rates`, but for rounding to the units.

    rates : shape (vertices of the network,), in `rate_unit`
    """
    expected = with_rates(block, rates, undirected).weights
    if weight_unit == rate_unit == 1:
        return bool(np.array_equal(block.weights, expected))
    slack = (weight_unit + rate_unit) * (2 if undirected else 1)
    gap = np.abs(block.weights * weight_unit - expected * rate_unit)
    return bool(np.all(gap <= slack * (1 if block.sizes is None else block.sizes)))
