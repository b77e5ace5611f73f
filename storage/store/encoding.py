"""Encoding of blocks as members of a network file, with totals for its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from storage.graph import Block
from storage.quantise import Rounding
from storage.store.archive import ArchivePiece, Packed, pack
from storage.store.codec import encode_block
from storage.store.given import Given
from storage.store.network import block_member
from storage.store.rates import follows_rates, with_rates

Progress = Callable[[float], object]


class Counted(NamedTuple):
    """Counts of a block.

    rated : whether its weights follow from the rates
    """

    connections: int
    weight: int
    rounding: Rounding
    raw_bytes: int
    rated: bool


class Totals:
    """Running sums over the blocks; each synapse is counted at both of its ends.

    largest : bytes of the largest block; sizes : of all vertices
    """

    def __init__(self) -> None:
        self.connections = self.weight = self.largest = self.sizes = 0
        self.rounding = Rounding()
        self.rated = True

    def count(self, block: Counted) -> None:
        """Add a block."""
        self.connections += block.connections
        self.weight += block.weight
        self.rounding = self.rounding.joined(block.rounding)
        self.largest = max(self.largest, block.raw_bytes)
        self.rated = self.rated and block.rated

    def join(self, other: Totals) -> None:
        """Add the totals of other blocks."""
        self.connections += other.connections
        self.weight += other.weight
        self.rounding = self.rounding.joined(other.rounding)
        self.largest = max(self.largest, other.largest)
        self.rated = self.rated and other.rated


@dataclass(frozen=True, slots=True)
class BlockEncoder:
    """Encodes blocks as members; thread-safe.

    block_size : vertices per block
    unit : of the input weights; weight_unit : real value of that unit
    rates : ndarray[int64], shape (vertices of the network,), in `rate_unit`; None if it is not
        checked whether weights follow them
    follow : weights are computed from the rates instead of the input
    """

    block_size: int
    unit: float
    weight_unit: float
    undirected: bool
    rates: NDArray[np.int64] | None = None
    rate_unit: float = 1.0
    follow: bool = False

    def __call__(self, block: Block, rounding: Rounding) -> tuple[Packed, Counted]:
        """rounding : of the block's weights"""
        rates = self.rates
        if self.follow and rates is not None:
            block = with_rates(block, rates, self.undirected)
        raw = encode_block(block)
        rated = rates is not None and follows_rates(
            block, rates, self.undirected, self.weight_unit, self.rate_unit
        )
        found = Counted(block.connections, int(block.weights.sum()), rounding, len(raw), rated)
        return pack(block_member(block.first // self.block_size), raw), found


class Elsewhere(Protocol):
    """Other processes that hold the connections of a network, sorted or not.

    given : counts of its synapses; entries : connections, at both ends
    """

    given: Given
    entries: int

    def encode(self, encoder: BlockEncoder) -> Iterator[tuple[ArchivePiece, Totals, float]]:
        """Yield all blocks in order, in pieces, each with its totals and the completed fraction.

        Raises `BadInputError` like `ConnectionSorter.map_blocks`.
        """
