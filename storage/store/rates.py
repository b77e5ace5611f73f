"""Assignment of firing rates to a network: each synapse then carries the rate of its source.

The lists of connections do not change, so no sorting is needed: threads read blocks, replace their
weights, and write them.
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
    """Raise `BadInputError` unless there is one rate per neuron, finite and not negative.

    rates : shape (neurons,); where : prefix of the message
    """
    if rates.ndim != 1 or rates.size != neurons:
        shape = " x ".join(map(str, rates.shape)) or "()"
        raise BadInputError(f"{where}: rates have shape {shape}; the network has {neurons} neurons")
    if rates.dtype.kind not in "iuf":
        raise BadInputError(f"{where}: rates are {rates.dtype}; give numbers")
    wrong, fault = ~np.isfinite(rates), "is not finite; repair it"
    if not wrong.any():
        wrong, fault = rates < 0, "is negative; rates must be 0 or more"
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
    """Write a copy of a network in which neuron v fires rates[v] times per unit of time.

    The attribute `rate` holds the rates. The weight of a connection is the rate of its source times
    the number of merged synapses; an undirected edge has the sum of the rates of both ends.
    Existing traffic is replaced; synaptic weights are kept.
    rates : shape (neurons,); source : name of the rates file
    traffic : provenance of the rates; None for `traffic.from_rates` of this file
    Raises `BadInputError` if the rates are invalid; then no output file remains.
    """
    check_rates(rates, network.vertices, source or RATE)
    finder = UnitFinder()
    finder.observe(rates, RATE)
    unit = finder.unit()
    stored, rounding = to_units(rates, unit)
    if float(stored.max(initial=0)) * network.meta.synapses_read * 2 >= MAX_TOTAL:
        raise BadInputError(
            f"{source or RATE}: the total traffic exceeds 2^62; scale the rates down"
        )

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
                if name not in ROUNDED  # these weights and rates are replaced
            }
            | rounded_facts(Rounding(), rounding)
            | (traffic or from_rates(source)),
        )
        try:
            meta.checked()
        except BadInputError as error:
            raise BadInputError(f"{source or RATE}: {error}") from error
        archive.add(pack(MEMBER, meta.to_json()))
        archive.commit()
    return meta


def write_uniform(network: NetworkFile, destination: Path, threads: int = 1) -> NetworkMeta:
    """Write a copy of a network in which each neuron fires once per unit of time."""
    ones = np.ones(network.vertices, np.int64)
    return write_rated(network, destination, ones, traffic=uniform(), threads=threads)


def with_rates(block: Block, rates: NDArray[np.int64], undirected: bool) -> Block:
    """Return the block with weights computed from `rates`, shape (vertices of the network,)."""
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
    """Return whether the weights of a block equal `with_rates`, up to rounding to the units.

    rates : shape (vertices of the network,), in `rate_unit`
    """
    expected = with_rates(block, rates, undirected).weights
    if weight_unit == rate_unit == 1:
        return bool(np.array_equal(block.weights, expected))
    slack = (weight_unit + rate_unit) * (2 if undirected else 1)
    gap = np.abs(block.weights * weight_unit - expected * rate_unit)
    return bool(np.all(gap <= slack * (1 if block.sizes is None else block.sizes)))
