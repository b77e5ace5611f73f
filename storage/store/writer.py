"""Writer of `net.bin` from a stream of synapses in any order, in bounded memory, atomically."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.closing import Closing
from storage.errors import BadInputError
from storage.graph import MAX_VERTICES, choose_block_size
from storage.quantise import Rounding
from storage.sorting.sorter import MAX_TOTAL, ConnectionSorter
from storage.sorting.weights import Weights, WeightSorter
from storage.store.archive import ArchiveWriter, Packed, pack
from storage.store.attributes import stored_values
from storage.store.codec import encode_numbers
from storage.store.encoding import BlockEncoder, Elsewhere, Progress, Totals
from storage.store.given import Given, GivenEdges, Ids, Numbers, add_given, check_edges
from storage.store.meta import MEMBER, WEIGHTED_VERSION, AttributeMeta, NetworkMeta, SynapticMeta
from storage.store.network import RATE, SIZE, attribute_member, weights_member
from storage.store.sharded_writer import ShardedWriter
from storage.store.traffic import (
    BOTH_WEIGHTS,
    RATE_WEIGHTS,
    SYNAPSE_WEIGHTS,
    TRAFFIC,
    from_rates,
    from_weights,
    rounded_facts,
    uniform,
)
from storage.store.weights import checked_weights, describe_weights, encode_weights, joined

ATTRIBUTE_BLOCK = 1 << 16
DEFAULT_MEMORY = 256 << 20

Stored = Callable[[int, int], NDArray[np.int64]]  # returns values of a range of neurons
Part = TypeVar("Part")


class NetworkWriter(Closing):
    """Collects synapses and attributes, then writes the network.

    ::

        with NetworkWriter(Path("net.bin"), neurons=3) as writer:
            writer.add(np.array([0, 1]), np.array([1, 2]), np.array([5, 7]))
            meta = writer.finish({"format": "arrays"})

    Leaving the block without `finish`, for example by an error, leaves no file.
    """

    def __init__(
        self,
        path: Path | ShardedWriter,
        neurons: int,
        *,
        undirected: bool = False,
        weights_are_rates: bool = True,
        weight_unit: float = 1.0,
        weights: str = RATE_WEIGHTS,
        memory: int = DEFAULT_MEMORY,
        threads: int | None = None,
        block_size: int | None = None,
    ) -> None:
        """path : of the file, or a writer of several files for a network without synaptic weights;
            it is closed with this writer
        undirected : each edge is given once, in either direction
        weight_unit : real value of a weight of 1
        weights : meaning of weights: "rate", traffic; "synapse", synaptic weights, stored with
            their signs, while the traffic follows from the attribute `rate`, default 1; or "both":
            the traffic is their magnitude
        memory : bytes for the external sort; runs are stored next to `path`
        """
        if not 0 < neurons <= MAX_VERTICES:
            raise BadInputError(
                f"a network of {neurons} neurons cannot be stored; it must have 1 to {MAX_VERTICES}"
            )
        if isinstance(path, ShardedWriter) and weights != RATE_WEIGHTS:
            raise ValueError(
                "synaptic weights can be written to only one file; split it afterwards"
            )
        self.neurons = neurons
        self._undirected = undirected
        self._weights_are_rates = weights_are_rates
        self._weight_unit = weight_unit
        self._threads = threads or os.cpu_count() or 1
        self._block_size = block_size
        self._attributes: dict[str, tuple[Stored, AttributeMeta]] = {}
        self._real: dict[str, NDArray[np.float64]] = {}
        self._given = Given()
        self._rate_rounding = Rounding()
        self._weights = weights
        self._archive = ArchiveWriter(path) if isinstance(path, Path) else path
        folder = self._archive.path.absolute().parent
        self._synaptic: WeightSorter | None = None
        if weights != RATE_WEIGHTS:
            memory //= 2
            self._synaptic = WeightSorter(neurons, folder, memory, self._threads)
        self._sorter = ConnectionSorter(neurons, folder, memory, self._threads)

    @property
    def keeps_weights(self) -> bool:
        """Return whether synaptic weights are stored with their signs."""
        return self._synaptic is not None

    def add(
        self,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: NDArray[np.integer] | NDArray[np.floating] | None = None,
    ) -> None:
        """Add synapses; all arrays have shape (synapses,). A missing weight is 1.

        Raises `BadInputError` for an id outside 0 .. neurons-1, a weight that is not finite, or
        negative traffic. Self-loops are counted, but only their synaptic weights are stored;
        repeated pairs are added.
        """
        kept = self._checked(source, target, weight, both=self._undirected)
        if kept is not None:
            self._sorter.add_edges(*kept, self._undirected)

    def add_made(
        self, parts: Iterable[Part], make: Callable[[Part], GivenEdges], *, in_order: bool = False
    ) -> Iterator[int]:
        """Add the synapses of `make` for each of the parts; yield the number of each part.

        make : returns some hundred thousand synapses as arguments of `add`; called by several
            threads at once unless `in_order`
        """
        if in_order or self._synaptic is not None:
            for part in parts:
                edges = make(part)
                self.add(*edges)
                yield edges[0].size
            return
        for given in add_given(self._sorter, parts, make, self._undirected):
            self._given.join(given)
            yield given.read

    def add_listed(
        self,
        owner: NDArray[np.integer],
        other: NDArray[np.integer],
        weight: NDArray[np.integer] | NDArray[np.floating] | None = None,
    ) -> None:
        """Add edges of an undirected network that the source lists at both ends.

        Like `add`, but each edge must be given twice, once from either end, with the same weight,
        which is not checked. It avoids reversing the edges.
        """
        if not self._undirected:
            raise ValueError("only an undirected network lists edges at both ends")
        kept = self._checked(owner, other, weight, both=False)
        if kept is not None:
            self._given.read -= int(np.count_nonzero(kept[0] > kept[1]))
            self._sorter.add(kept[0], kept[1], 0, kept[2])

    def _checked(
        self,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: NDArray[np.integer] | NDArray[np.floating] | None,
        both: bool,
    ) -> GivenEdges | None:
        """Count edges and return them with traffic, without self-loops; None if there are none.

        both : whether synaptic weights are stored in both directions
        """
        if weight is None:
            weight = np.broadcast_to(np.int64(1), source.shape)
        check_edges(self.neurons, source, target, weight)
        if not source.size:
            return None
        loops = source == target
        if self._synaptic is not None:
            weight = self._add_weights(source, target, weight, both, loops)
        return self._given.kept(source, target, weight, loops)

    def _add_weights(
        self, source: Ids, target: Ids, weight: Numbers, both: bool, loops: NDArray[np.bool_]
    ) -> Numbers:
        """Store synaptic weights; return the traffic of these synapses.

        both : whether to store them in both directions; loops : mask of self-loops
        """
        assert self._synaptic is not None
        checked_weights(weight)
        if both:  # a self-loop has only one direction
            self._synaptic.add(source[loops], target[loops], 0, weight[loops])
            kept = ~loops
            self._synaptic.add_edges(source[kept], target[kept], weight[kept], undirected=True)
        else:
            self._synaptic.add(source, target, 0, weight)
        if self._weights == BOTH_WEIGHTS:
            return np.abs(weight)
        return np.broadcast_to(np.int64(1), weight.shape)

    def set_real(self, name: str, values: NDArray[Any]) -> None:
        """Set a float64 per neuron, stored unchanged; shape (neurons,).

        Raises `BadInputError` for values that are not finite.
        """
        self._check_length(name, values)
        real = values.astype("<f8")
        if not np.isfinite(real).all():
            raise BadInputError(f"attribute {name!r} holds a value that is not finite")
        self._real[name] = real

    def set_attribute(
        self,
        name: str,
        values: NDArray[np.integer] | NDArray[np.floating],
        labels: Sequence[str] | None = None,
        unit: float = 1.0,
    ) -> None:
        """Set a value per neuron; shape (neurons,), in the given unit; do not modify it later.

        Raises `BadInputError` for values that the format cannot hold (negative sizes and rates,
        NaN).

        `size` and `rate` have a meaning in mapping; `id` is the original id; others are only
        stored.
        """
        self._check_length(name, values)
        whole, about, rounding = stored_values(name, values, labels, unit)
        if name == RATE:
            self._rate_rounding = rounding
        offset = about.offset
        self._attributes[name] = lambda a, b: whole[a:b].astype(np.int64) - offset, about

    def _check_length(self, name: str, values: NDArray[Any]) -> None:
        if values.shape != (self.neurons,):
            raise BadInputError(
                f"attribute {name!r} has {values.size} values for {self.neurons} neurons"
            )

    def set_attribute_parts(
        self, name: str, largest: int, read: Stored, labels: Sequence[str] | None = None
    ) -> None:
        """Set a whole number from 0 per neuron without holding all in memory.

        largest : of all values, below 2^63
        read : returns the values of neurons first .. last-1, called while the network is written
        """
        if not 0 <= largest < (2**63 if labels is None else len(labels)):
            raise BadInputError(
                f"attribute {name!r} has values up to {largest}, which is too large"
            )
        about = AttributeMeta(labels=list(labels) if labels is not None else None)
        self._attributes[name] = read, about

    def finish(
        self,
        provenance: Mapping[str, Any] | None = None,
        *,
        elsewhere: Elsewhere | None = None,
        progress: Progress = lambda _: None,
    ) -> NetworkMeta:
        """Sort, write and rename; return the metadata written.

        provenance : origin of the network
        elsewhere : processes that hold all synapses, if none was added here
        progress : called with the fraction of the blocks written, 0 .. 1
        """
        if elsewhere is not None:
            self._given.join(elsewhere.given)
        said = {} if provenance is None else dict(provenance)
        follow = self._weights == SYNAPSE_WEIGHTS  # the traffic is computed from the rates
        if follow and RATE not in self._attributes:
            self.set_attribute(RATE, np.ones(self.neurons, np.int64))
            said |= uniform()
        unit = self._attributes[RATE][1].unit if follow else self._given.units.unit()
        entries = self._sorter.entries if elsewhere is None else elsewhere.entries
        block_size = self._block_size or choose_block_size(self.neurons, entries)
        # Check whether weights follow the rates.
        asked = RATE in self._attributes and TRAFFIC not in said
        rates, rate_unit = None, 1.0
        if asked or follow:
            stored, about = self._attributes[RATE]
            rates, rate_unit = stored(0, self.neurons), about.unit
        if follow and rates is not None and float(rates.max()) * self._given.read * 2 >= MAX_TOTAL:
            raise BadInputError("the total traffic exceeds 2^62; scale the rates down")
        encoder = BlockEncoder(
            block_size, 1 if follow else unit, unit * self._weight_unit, self._undirected, rates,
            rate_unit, follow,
        )  # fmt: skip
        self._size = self.neurons if SIZE not in self._attributes else 0
        if isinstance(self._archive, ShardedWriter):
            self._archive.begin(self.neurons, block_size, ATTRIBUTE_BLOCK, self._attributes_of)
        totals = self._write_blocks(encoder, elsewhere, progress)
        self._sorter.close()
        synaptic = self._write_weights(block_size)
        if isinstance(self._archive, ShardedWriter):
            self._archive.end()
        else:
            for member in self._attributes_of(range(self.neurons)):
                self._archive.add(member)
        totals.sizes = self._size
        if asked:
            said |= from_rates() if totals.rated else from_weights()
        said |= rounded_facts(totals.rounding, self._rate_rounding)
        meta = self._describe(totals, unit, block_size, said).checked()
        if synaptic is not None or self._real:
            meta = replace(meta, synaptic=synaptic, version=WEIGHTED_VERSION)
        if isinstance(self._archive, ShardedWriter):
            self._archive.commit(meta.to_json())
        else:
            self._archive.add(pack(MEMBER, meta.to_json()))
            self._archive.commit()
        return meta

    def _attributes_of(self, vertices: range) -> Iterator[Packed]:
        """Yield the attribute members that start in a range of vertices; add up sizes."""
        firsts = range(0, self.neurons, ATTRIBUTE_BLOCK)
        some = [(i, first) for i, first in enumerate(firsts) if first in vertices]
        for name, (stored, _) in self._attributes.items():
            for index, first in some:
                values = stored(first, min(first + ATTRIBUTE_BLOCK, self.neurons))
                self._size += int(values.sum()) if name == SIZE else 0
                yield pack(attribute_member(name, index), encode_numbers(values))
        for name, real in self._real.items():
            for index, first in some:
                raw = real[first : first + ATTRIBUTE_BLOCK].tobytes()
                yield pack(attribute_member(name, index), raw)

    def _write_blocks(
        self, encoder: BlockEncoder, elsewhere: Elsewhere | None, progress: Progress
    ) -> Totals:
        """Write the members of blocks."""
        totals = Totals()
        if elsewhere is not None:
            for piece, some, done in elsewhere.encode(encoder):
                self._archive.append(piece)
                piece.path.unlink()
                totals.join(some)
                progress(done)
            return totals
        size = encoder.block_size
        members = self._sorter.map_blocks(encoder, size, encoder.unit)
        for index, (member, counted) in enumerate(members, start=1):
            self._archive.add(member)
            totals.count(counted)
            progress(min(index * size / self.neurons, 1.0))
        return totals

    def _write_weights(self, block_size: int) -> SynapticMeta | None:
        """Write the members of synaptic weights, if there are any."""
        if self._synaptic is None:
            return None

        def packed(weights: Weights) -> tuple[Packed, SynapticMeta]:
            raw, index = encode_weights(weights), weights.first // block_size
            return pack(weights_member(index), raw), describe_weights(weights, len(raw))

        found = []
        for member, own in self._synaptic.map_weights(packed, block_size):
            self._archive.add(member)
            found.append(own)
        self._synaptic.close()
        return joined(found)

    def _describe(
        self, totals: Totals, unit: float, block_size: int, provenance: dict[str, Any]
    ) -> NetworkMeta:
        synapses = totals.connections // 2
        return NetworkMeta(
            neurons=self.neurons,
            synapses=synapses,
            synapses_read=self._given.read,
            self_loops=self._given.self_loops,
            repeated=self._given.read - self._given.self_loops - synapses,
            connections=totals.connections,
            undirected=self._undirected,
            weights_are_rates=self._weights_are_rates,
            weight_unit=unit * self._weight_unit,
            weights_clamped=totals.rounding.raised // 2,
            block_size=block_size,
            attribute_block_size=ATTRIBUTE_BLOCK,
            default_size=1,
            default_weight=1,
            total_size=totals.sizes,
            total_weight=totals.weight // 2,
            largest_block_bytes=totals.largest,
            attributes={name: about for name, (_, about) in self._attributes.items()}
            | {name: AttributeMeta(real=True) for name in self._real},
            provenance=provenance,
        )

    def close(self) -> None:
        self._sorter.close()
        if self._synaptic is not None:
            self._synaptic.close()
        self._archive.close()
