"""Contract of all `Graph` classes. A new implementation is one line in GRAPHS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from storage.graph import Graph
from storage.scratch.scratch import Scratch, ScratchGraph
from storage.store.memory import MemoryGraph, load
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.reference import storage as naive
from tests.reference.storage import Edge
from tests.storage.strategies import random_edges

Maker = Callable[[Path, int, list[Edge], int, bool], AbstractContextManager[Graph]]
SHAPES = [(1, 0, 1), (1, 0, 4), (7, 3, 7), (60, 500, 7), (61, 500, 1), (64, 200, 16), (9, 400, 50)]


def sizes_of(vertices: int) -> list[int]:
    return [3 * v % 7 for v in range(vertices)]


@contextmanager
def network(
    folder: Path, vertices: int, edges: list[Edge], block_size: int, undirected: bool
) -> Iterator[Graph]:
    path = folder / "net.bin"
    with NetworkWriter(path, vertices, undirected=undirected, block_size=block_size) as writer:
        writer.add(*naive.columns(edges))
        writer.set_attribute("size", np.array(sizes_of(vertices)))
        writer.finish()
    with NetworkFile(path) as net:
        yield net


@contextmanager
def memory(
    folder: Path, vertices: int, edges: list[Edge], block_size: int, undirected: bool
) -> Iterator[Graph]:
    yield MemoryGraph.from_edges(
        vertices,
        *naive.columns(edges),
        sizes=np.array(sizes_of(vertices)),
        undirected=undirected,
        block_size=block_size,
    )


@contextmanager
def scratch(
    folder: Path, vertices: int, edges: list[Edge], block_size: int, undirected: bool
) -> Iterator[Graph]:
    """Scratch stores only the undirected form."""
    with memory(folder, vertices, edges, block_size, undirected) as graph:
        whole = load(graph)
    whole.block_size = block_size
    with Scratch(folder / "scratch") as environment:
        written = environment.write_graph("g", whole.vertex_sizes(), block_size, whole.blocks())
        assert written.connections == whole.connections
        yield ScratchGraph(environment, "g")


GRAPHS: dict[str, Maker] = {"network": network, "memory": memory, "scratch": scratch}


@pytest.fixture(params=GRAPHS)
def make(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[..., AbstractContextManager[Graph]]:
    return lambda *shape: GRAPHS[request.param](tmp_path, *shape)


@pytest.fixture(params=[False, True], ids=["directed", "undirected"])
def undirected(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.mark.sample(28)
@pytest.mark.parametrize(("vertices", "count", "block_size"), SHAPES)
def test_same_blocks_in_any_order(
    vertices: int,
    count: int,
    block_size: int,
    undirected: bool,
    make: Callable[..., AbstractContextManager[Graph]],
) -> None:
    edges = random_edges(vertices, count, 3)
    expected = naive.network(vertices, edges, undirected=undirected)
    with make(vertices, edges, block_size, undirected) as graph:
        assert graph.vertices == vertices
        assert graph.vertex_sizes().tolist() == sizes_of(vertices)
        assert graph.vertex_sizes().dtype == np.int64
        assert graph.block_size == block_size
        blocks = list(graph.blocks())
        assert len(blocks) == graph.block_count == -(-vertices // block_size)
        assert graph.connections == sum(block.connections for block in blocks)
        if not isinstance(graph, ScratchGraph):
            assert graph.undirected == undirected
            assert naive.flatten(blocks) == expected
        merged = [row for block in blocks for row in naive.lists_of(*block.undirected())]
        assert merged == naive.merged_directions(expected)

        pairs = list(graph.undirected_blocks())
        assert [first for first, _ in pairs] == [block.first for block in blocks]
        for (_, lists), block in zip(pairs, blocks, strict=True):
            assert naive.lists_of(*lists) == naive.lists_of(*block.undirected())

        for index, block in enumerate(blocks):
            lists = graph.read_outgoing(index)
            assert naive.lists_of(*lists) == naive.lists_of(*block.outgoing())

        order = np.random.default_rng(8).permutation(graph.block_count).tolist() * 2
        for threads in (1, 2):
            found = list(graph.blocks(order, threads=threads))
            for index, block in zip(order, found, strict=True):
                assert block.first == index * block_size
                assert naive.records_of(block) == naive.records_of(blocks[index])
            for index, (first, lists) in zip(
                order, graph.undirected_blocks(order, threads=threads), strict=True
            ):
                assert first == index * block_size
                assert naive.lists_of(*lists) == naive.lists_of(*pairs[index][1])


def test_bounds(make: Callable[..., AbstractContextManager[Graph]]) -> None:
    with make(20, random_edges(20, 30, 1), 6, False) as graph:
        bounds = [graph.block_bounds(index) for index in range(graph.block_count)]
        assert bounds == [(0, 6), (6, 12), (12, 18), (18, 20)]
        for index in (-1, 4, 100):
            for ask in (
                graph.block_bounds,
                graph.read_block,
                graph.read_undirected,
                graph.read_outgoing,
            ):
                with pytest.raises(IndexError, match=f"^block {index} of 4$"):
                    ask(index)
            with pytest.raises(IndexError):
                list(graph.blocks([0, index], threads=2))


def test_types(make: Callable[..., AbstractContextManager[Graph]]) -> None:
    with make(20, random_edges(20, 90, 1), 6, False) as graph:
        for block in graph.blocks():
            assert block.indptr.dtype == block.weights.dtype == np.int64
            assert [block.ids.dtype, block.incoming.dtype] == [np.int32, np.uint8]
            assert block.sizes is None or block.sizes.dtype == np.int64
            assert [part.dtype for part in block.undirected()] == [np.int64, np.int32, np.int64]
        for _, lists in graph.undirected_blocks():
            assert [part.dtype for part in lists] == [np.int64, np.int32, np.int64]
