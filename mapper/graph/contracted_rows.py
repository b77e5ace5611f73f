"""Contraction into scratch: the graph of clusters if not even a sample of it fits in memory.

Pairs of clusters go through the external sort (`storage.sorting`), which adds up equal ones. So
rows are ascending in their ids, and depend neither on the order of chunks nor on the executor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.concurrency.threads import ThreadTeam
from mapper.executors.executor import LocalShardExecutor
from mapper.executors.sections import MOST_WEIGHT, Pairs
from mapper.executors.shard import Shard, State
from mapper.graph.csr import Chunk
from mapper.graph.rows import CopiedRows, Rows
from mapper.graph.sampled_contraction import row_shift, sample_rows
from mapper.monitoring.callbacks import Advance, ignore
from storage.arrays import Int32, Int64
from storage.graph import Block, choose_block_size
from storage.scratch.packed import PackedBlock, PackedRows, keep_packed, pack_block
from storage.scratch.scratch import Scratch
from storage.sorting.sorter import ConnectionSorter

NAME = "contracted"  # name in scratch


class ContractedRows(CopiedRows):
    """Rows of clusters in scratch; weights are shifted so that the sum of a row stays small."""

    def __init__(self, packed: PackedRows, sizes: Int64, shift: int) -> None:
        super().__init__(packed, sizes)
        self._shift = shift

    def read(self, index: int) -> Chunk:
        return shifted(super().read(index), self._shift)


def shifted(chunk: Chunk, shift: int) -> Chunk:
    """Return the chunk with weights shifted right, by `row_shift`."""
    if shift:
        chunk = chunk._replace(weights=np.maximum(chunk.weights >> shift, 1))
    return chunk


def heaviest_row(indptr: Int64, weights: NDArray[Any]) -> int:
    """Return the largest sum of the weights of a row."""
    sums = np.concatenate([[0], np.cumsum(weights, dtype=np.int64)])[indptr]
    return int(np.diff(sums).max(initial=0))


def sample_pairs(shard: Shard, chunk: Chunk, threshold: int, seed: int) -> Pairs:
    """Return the sampled connections of a chunk to clusters with higher ids."""
    cluster = shard.state.part[chunk.first : chunk.first + chunk.vertices]
    _, lengths, ids, weights = sample_rows(shard, chunk, threshold, seed)
    own = np.repeat(cluster, lengths)
    up = own < ids
    return Pairs(own[up], ids[up], weights[up])


def contract_to_scratch(
    rows: Rows,
    cluster: Int32,
    sizes: Int64,
    sample: tuple[int, int],
    scratch: Scratch,
    memory: int,
    team: ThreadTeam,
    advance: Advance = ignore,
) -> ContractedRows:
    """Build the graph of clusters in scratch, from a sample of the connections.

    cluster : ndarray[int32], shape (vertices,); sizes : of the clusters
    sample : threshold and seed, see `mapper.graph.sampled_contraction`
    memory : bytes for the sort
    """
    count, executor = sizes.size, LocalShardExecutor(rows, team)
    executor.begin(State(cluster))
    heaviest = [0]  # largest row sum of each block
    with ConnectionSorter(count, scratch.path, memory, team.threads) as sorter:
        for found in executor.each(sample_pairs, range(rows.chunks), *sample, advance=advance):
            sorter.add_edges(*found, undirected=True)
        block_size = choose_block_size(count, sorter.entries)

        def packed(block: Block, _: object) -> PackedBlock:
            weights = np.minimum(block.weights, MOST_WEIGHT)
            heaviest.append(heaviest_row(block.indptr, weights))
            number = block.first // block_size
            return pack_block(number, (block.indptr, block.ids, weights.astype(np.int32)))

        def blocks() -> Iterator[PackedBlock]:
            for block in sorter.map_blocks(packed, block_size):
                team.stop.check()
                yield block

        kept = keep_packed(scratch, NAME, count, block_size, blocks())
    return ContractedRows(kept, sizes, row_shift(max(heaviest)))
