"""Pipeline of a core: the tiles of its layers in the units, in sequence.

A load waits for the matrix unit to release the half of the buffer and for its input rows; the
matrix unit waits for the ALU, the ALU for the store. With external memory all transfers use one
path, in the order of their requests.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from mapper.compiler.tiling.tiles import Cut


class TileCost(NamedTuple):
    """Cost of a tile: cycles per unit, instructions, and micro-ops.

    loads : number of loads of its inputs; products start when the first one is complete
    """

    load: int
    matrix: int
    alu: int
    store: int
    loads: int
    instructions: int
    micro_ops: int


class CutChoice(NamedTuple):
    """A cut, and the costs of its tiles, in order.

    across : tiles with the same rows; needs : end of the input rows of each feature map, by tile
    counted : total micro-ops, if tiles share many of them; 0 to sum them up
    streams : cycles in which the weights of each tile arrive; empty if they stay in the core
    """

    cut: Cut
    tiles: list[TileCost]
    across: int
    needs: list[tuple[int, ...]]
    counted: int = 0
    streams: tuple[int, ...] = ()

    @property
    def row_cycles(self) -> int:
        """Cycles of a row of tiles, limited by the slowest unit for each tile."""
        first = self.tiles[: self.across]
        return sum(max(one.load, one.matrix, one.alu, one.store) for one in first)

    @property
    def instructions(self) -> int:
        return sum(tile.instructions for tile in self.tiles)

    @property
    def micro_ops(self) -> int:
        """Micro-ops of all kinds of tiles; twice per kind if both buffer halves are used."""
        if self.counted:
            return self.counted
        times = Counter(map(id, self.tiles))
        kinds = {id(tile): tile.micro_ops for tile in self.tiles}
        return sum(min(2, times[kind]) * ops for kind, ops in kinds.items())


class Pipeline(NamedTuple):
    """Times at which units and buffers become free after some layers.

    rows : when each row of tiles is stored, by layer
    shared : maps are in external memory
    free : load, matrix, ALU and store
    inputs, sums, results : when the last two tiles released their halves of the buffers
    path : when the path to external memory becomes free
    """

    rows: tuple[tuple[int, ...], ...]
    shared: bool = False
    free: tuple[int, int, int, int] = (0, 0, 0, 0)
    inputs: tuple[int, int] = (0, 0)
    sums: tuple[int, int] = (0, 0)
    results: tuple[int, int] = (0, 0)
    path: int = 0

    @classmethod
    def empty(cls, layers: int, shared: bool = False) -> Pipeline:
        """Return the state before the first layer."""
        return cls(((),) * layers, shared)

    @property
    def end(self) -> int:
        """Time at which the last result has been stored."""
        return self.free[3]

    def stop(
        self, number: int, choice: CutChoice, sources: list[int], kept: Sequence[CutChoice]
    ) -> Pipeline:
        """Return the state after one more layer.

        sources : layers that compute its inputs; -1 for inputs of the model
        """
        load, matrix, alu, _ = self.free
        inputs, sums = self.inputs, self.sums
        stores = _Stores(self)
        streams = choice.streams or (0,) * len(choice.tiles)
        for at, tile in enumerate(choice.tiles):
            begin = max(load, inputs[0], self._there(choice.needs[at], sources, kept))
            if self.shared:
                stores.until(begin)
                begin = max(begin, stores.path)
            load = begin + tile.load
            stores.path = load + streams[at]
            parts, products = max(1, tile.loads), max(tile.matrix, streams[at])
            matrix = max(
                max(matrix, begin + -(-tile.load // parts), sums[0]) + products,
                load + products // parts,
            )
            inputs = (inputs[1], matrix)
            alu = max(alu, matrix, stores.end_of(at - 2)) + tile.alu
            sums = (sums[1], alu)
            stores.add(alu, tile.store)
        stores.until(None)
        done = tuple(stores.ends[2:][choice.across - 1 :: choice.across])
        layers = (*self.rows[:number], done, *self.rows[number + 1 :])
        results = stores.ends[-2], stores.ends[-1]
        free = load, matrix, alu, max(self.free[3], results[1])
        return Pipeline(layers, self.shared, free, inputs, sums, results, stores.path)

    def _there(self, needs: Sequence[int], sources: list[int], kept: Sequence[CutChoice]) -> int:
        """Return when the input rows of a tile are stored. needs : their ends, by input"""
        return max(
            (
                self.rows[source][
                    min((need - 1) // kept[source].cut.rows, len(self.rows[source]) - 1)
                ]
                for source, need in zip(sources, needs, strict=True)
                if source >= 0 and self.rows[source]
            ),
            default=0,
        )


class _Stores:
    """Stores of the tiles of a layer, in order; with external memory, those that were requested
    before a load use the path before it.

    ends : ends of the last two stores before the layer, then of its tiles
    path : when the path to external memory becomes free
    """

    def __init__(self, state: Pipeline) -> None:
        self.ends = list(state.results)
        self.path = state.path
        self._shared, self._free = state.shared, state.free[3]
        self._waiting: deque[tuple[int, int]] = deque()  # requests, and cycles

    def add(self, request: int, cycles: int) -> None:
        self._waiting.append((request, cycles))
        if not self._shared:
            self._next()

    def until(self, time: int | None) -> None:
        """Follow the stores that are requested until a time; None for all."""
        while self._waiting and (time is None or self._waiting[0][0] <= time):
            self._next()

    def end_of(self, tile: int) -> int:
        """Return the end of the store of a tile of the layer; -1 and -2 are tiles before it."""
        while len(self.ends) <= tile + 2:
            self._next()
        return self.ends[tile + 2]

    def _next(self) -> None:
        request, cycles = self._waiting.popleft()
        begin = max(self._free, request)
        if self._shared:
            begin = max(begin, self.path)
        self._free = begin + cycles
        if self._shared:
            self.path = self._free
        self.ends.append(self._free)
