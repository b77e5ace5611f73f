"""Instructions of a macro node, tile by tile: load, multiply, ALU operations, and store.

The functions for the first operator and for the ALU operators are tables by operator class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mapper.compiler.codegen.alu import add, alu, clamp, looks_up, lookup, multiply, requantise
from mapper.compiler.codegen.areas import Entries, LoadArea
from mapper.compiler.codegen.binary import pack_signs
from mapper.compiler.codegen.builder import ProgramBuilder, TileWork
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.codegen.loads import load_entries
from mapper.compiler.codegen.matrix import Product, convolution
from mapper.compiler.codegen.pooling import pool, pool_map
from mapper.compiler.codegen.stores import store
from mapper.compiler.ir import node as op
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.node import Node
from mapper.compiler.tiling.tiles import Cut, Tile, spans_of, tiles_of
from mapper.errors import MapperError

Begin = Callable[[ProgramBuilder, Node], Product]
"""Put constants of a macro node's first operator into small memories; return its tile function."""
Work = Callable[[ProgramBuilder, Node, TileWork, bool], None]
"""Emit the ALU operations of an operator for a tile; True: results go to the result buffer."""

BEGINS: Mapping[type[op.Operator], Begin] = {op.Conv: convolution, op.Pool: pool_map}
WORKS: Mapping[type[op.Operator], Work] = {
    op.Requantise: requantise,
    op.Clamp: clamp,
    op.Pool: pool,
    op.Add: add,
    op.Product: multiply,
    op.Lookup: lookup,
    op.Sign: pack_signs,
    op.Threshold: pack_signs,
}


class Emitter(ProgramBuilder):
    """Emits the steps of macro nodes in order."""

    def emit(self, macro: Macro, cut: Cut) -> None:
        """Emit the steps of a macro node.

        Raises `MapperError` that names a node that cores cannot compute, `DoesNotFitError`.
        """
        self.macro, self.number = macro, self.number + 1
        if self.number in self.dynamic:
            self.streams.begin_layer(weight_words(macro, self.shape))
        product = self.begin()
        after = None  # step after the products of the previous tile
        for tile in tiles_of(macro, cut, self.shape):
            first = len(self.steps)
            self.emit_tile(product, tile, cut)
            if after is not None:
                self._begin_sums_at(after, first)
            units = [step.unit for step in self.steps[first:]]
            after = len(self.steps) - units[::-1].index("GEMM") if "GEMM" in units else None

    def emit_in_order(
        self, macros: Sequence[Macro], cuts: Sequence[Cut], order: Sequence[int]
    ) -> None:
        """Emit alternating tiles of several macro nodes, from the left to the right of their maps.

        order : macro node of each tile
        """
        tiles = [
            tiles_of(macro, cut, self.shape, by_columns=True)
            for macro, cut in zip(macros, cuts, strict=True)
        ]
        products: dict[int, Product | None] = {}
        for number in order:
            self.macro, self.number = macros[number], number
            if number not in products:
                products[number] = self.begin()
            self.emit_tile(products[number], next(tiles[number]), cuts[number])

    def _begin_sums_at(self, place: int, first: int) -> None:
        """Move the steps that begin the sums of a tile, from `first` on, to an earlier place.

        The ALU shifts biases of more than 32 bits, in the order of its queue: after the results of
        the previous tile, products would wait for the ALU, and the ALU for products. Tiles use the
        halves of the accumulators alternately. Tables that are reloaded keep their order.
        """
        kinds = [step.instruction.kind for step in self.steps[first : first + 2]]
        if kinds == ["BIAS", "SHL"] and not self.tables.reloaded:
            moved = self.steps[first : first + 2]
            self.steps[first : first + 2] = []
            self.steps[place:place] = moved

    def begin(self) -> Product | None:
        """Return the tile function of the first operator, or None if a load is enough."""
        first = self.macro.nodes[0]
        begin = BEGINS.get(type(first.operator))
        return None if begin is None else begin(self, first)

    def emit_tile(self, product: Product | None, tile: Tile, cut: Cut) -> None:
        """Emit the steps of a tile. product : tile function of the first operator"""
        macro = self.macro
        self.tile += 1
        spans = spans_of(macro, tile)
        work = TileWork(tile, cut, spans, Entries(self.next_entries(), 0, 0, 0), 0)
        todo = [
            node for node in macro.nodes if not isinstance(node.operator, op.Copy | op.Upsample)
        ]
        done = False
        if product is not None:
            done = product(self, work, len(todo) == 1)
            todo = todo[1:]
        else:
            area = LoadArea(self.regions[macro.inputs[0]], *spans[0], tile.blocks)
            work.made = load_entries(self, area, work.made.first)
        work.free = max(work.free, work.made.stop)
        self._behind(work, todo, done)

    def _behind(self, work: TileWork, todo: list[Node], done: bool) -> None:
        """Emit the ALU operations and the stores of a tile.

        done : the tile is already in the result buffer
        """
        for node, after in zip(todo, [*todo, None][1:], strict=True):
            do = WORKS.get(type(node.operator))
            if do is None:
                raise MapperError(f"{node.label}: cores do not support stand-alone {node.kind}")
            if looks_up(node, after):
                continue  # the lookup also requantises
            do(self, node, work, node is todo[-1])
        if not todo and not done and self.macro.output.type != "int32":
            alu(self, "MOV", work.made, work.made, {"source": 1, "out": 1})
        up = isinstance(self.macro.nodes[-1].operator, op.Upsample)
        for tensor in (self.macro.output, *self.macro.copies):
            store(self, tensor, work.tile, work.made, up)
        if self.macro.sign is not None:
            pack_signs(self, self.macro.sign, work)
            store(self, self.macro.sign.output, work.tile, work.made, up=False)
