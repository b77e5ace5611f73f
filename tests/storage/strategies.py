"""Numbers, blocks and networks for hypothesis."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from storage.store.meta import NetworkMeta
from storage.store.writer import NetworkWriter
from tests.reference.storage import Connection, Edge, Records, columns

LARGEST = 2**63 - 1

# every length of a varint, and both sides of each change of length
numbers = st.one_of(
    st.integers(0, 300),
    st.builds(lambda k, d: 2 ** (7 * k) + d, st.integers(0, 8), st.integers(-1, 1)),
    st.just(LARGEST),
    st.integers(0, LARGEST),
)


@dataclass
class BlockCase:
    """Records of consecutive vertices of a graph with that many vertices."""

    vertices: int
    first: int
    records: Records
    default_size: int
    default_weight: int


@st.composite
def blocks(draw: st.DrawFn) -> BlockCase:
    """Draw up to six vertices of small or very large graphs; defaults are common."""
    vertices = draw(st.one_of(st.integers(1, 12), st.integers(1, 2**31 - 1)))
    count = draw(st.integers(1, min(6, vertices)))
    first = draw(st.integers(0, vertices - count))
    size, weight = draw(st.sampled_from([(1, 1), (0, 7), (3, LARGEST)]))
    links = st.sets(st.tuples(st.integers(0, vertices - 1), st.integers(0, 1)), max_size=6)
    records = [
        [
            Connection(
                *link,
                draw(st.one_of(st.just(size), numbers)),
                draw(st.one_of(st.just(weight), numbers)),
            )
            for link in sorted(draw(links))
            if link[0] != v
        ]
        for v in range(first, first + count)
    ]
    return BlockCase(vertices, first, records, size, weight)


@dataclass
class NetCase:
    """A network, and the parameters of writing it."""

    neurons: int
    edges: list[Edge]
    undirected: bool
    block_size: int
    capacity: int  # of the sort's buffer, in connections: small values give many runs
    threads: int
    cuts: list[int]  # boundaries of chunks of edges

    def chunks(self) -> list[list[Edge]]:
        ends = [0, *sorted(self.cuts), len(self.edges)]
        return [self.edges[a:b] for a, b in pairwise(ends)]

    def write(self, path: Path, shuffle: random.Random | None = None) -> NetworkMeta:
        chunks = self.chunks()
        if shuffle is not None:
            shuffle.shuffle(chunks)
        with NetworkWriter(
            path,
            self.neurons,
            undirected=self.undirected,
            block_size=self.block_size,
            threads=self.threads,
        ) as writer:
            writer._sorter._capacity = writer._sorter._filling._capacity = self.capacity
            for chunk in chunks:
                writer.add(*columns(chunk))
            return writer.finish()


WEIGHTS: dict[str, Any] = {
    "whole": st.integers(0, 2**40),
    "decimal": st.decimals(0, 10**6, places=3).map(float),
    "real": st.floats(0, 1e300),
    "mixed": st.one_of(st.integers(0, 9), st.floats(0, 10)),
}


@st.composite
def networks(draw: st.DrawFn) -> NetCase:
    """Draw up to 12 neurons and 40 edges; repeated edges and self-loops are common."""
    neurons = draw(st.integers(1, 12))
    neuron = st.integers(0, neurons - 1)
    weight = WEIGHTS[draw(st.sampled_from(sorted(WEIGHTS)))]
    edges = draw(st.lists(st.tuples(neuron, neuron, weight), max_size=40))
    return NetCase(
        neurons,
        edges,
        draw(st.booleans()),
        draw(st.integers(1, neurons + 1)),
        draw(st.integers(1, 30)),
        draw(st.integers(1, 2)),
        draw(st.lists(st.integers(0, len(edges)), max_size=4)),
    )


def random_edges(neurons: int, count: int, seed: int) -> list[Edge]:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, neurons, (count, 2)).tolist()
    weights = rng.integers(0, 300, count).tolist()
    return [(s, t, w) for (s, t), w in zip(pairs, weights, strict=True)]
