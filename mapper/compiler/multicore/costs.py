"""Cost of a part of a layer on a core: cycles, and use of each memory."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.caching import nameless
from mapper.compiler.codegen.builder import ALL_AT_ONCE, Choices, MemoryPlan
from mapper.compiler.codegen.emitter import Emitter
from mapper.compiler.codegen.kernels import weight_words
from mapper.compiler.codegen.placement import plan_weights
from mapper.compiler.codegen.program import UNLIMITED, memory_sizes
from mapper.compiler.codegen.searches import CutSearches
from mapper.compiler.ir.macro import Macro
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.memory.planner import Region, map_capacity, pixel_vectors
from mapper.compiler.multicore.areas import Homes
from mapper.compiler.multicore.job import MacroPiece, Whole
from mapper.compiler.multicore.known_costs import KnownCosts, PartCost
from mapper.compiler.multicore.line_buffers.lines import Lines, narrow_cut
from mapper.compiler.multicore.slices import Slice, Sliced, slice_macro
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Target
from mapper.compiler.program.presets import Preloaded, Preset
from mapper.compiler.program.steps import with_tokens
from mapper.compiler.tiling.onchip import Limits, chosen
from mapper.compiler.tiling.tiles import Cut, extent_of
from mapper.compiler.tiling.units import timeline_of_functions
from mapper.errors import DoesNotFitError


class PartCosts:
    """Costs of parts of macro nodes, cached: parts of the same size in the middle of a feature map
    have the same cost.

    streams : weights that do not fit in any core come from the host
    excess : weight words that a core takes, as a multiple of its memory; the host sends the rest
    known : costs that are known; extended
    lines : line buffers; None if cores keep whole maps
    """

    def __init__(
        self, whole: Whole, shape: NpuShape, choices: Choices, searches: CutSearches,
        streams: bool = False, excess: float = 1, known: KnownCosts | None = None,
        lines: Lines | None = None,
    ) -> None:  # fmt: skip
        self.whole, self.macros, self.shape, self.choices = whole, whole.macros, shape, choices
        self.searches, self.streams, self.excess = searches, streams, excess
        self.lines = lines
        self.homes = Homes(whole.places, shape.columns)
        self._known = known or KnownCosts()

    def of(self, piece: MacroPiece) -> PartCost:
        """Return the cost of a piece; raises `DoesNotFitError` if it does not fit in a core."""
        extent = extent_of(self.macros[piece.macro], self.shape)
        ends = piece.rows.first == 0, piece.rows.stop == extent.rows
        last = piece.blocks.stop == extent.blocks
        weights = self.streams, self.excess, None if self.lines is None else self.lines[2:]
        size = *weights, piece.rows.size, piece.blocks.size, *ends, last
        key = self.choices.lag, piece.macro, *size
        known = self._known.parts
        if key not in known:
            try:
                known[key] = self._recalled(piece, size)
            except DoesNotFitError as error:
                known[key] = error
        found = known[key]
        if isinstance(found, DoesNotFitError):
            raise found
        return found

    def words(self, number: int) -> int:
        """Return the weight words of a layer."""
        return weight_words(self.macros[number], self.shape)

    def _recalled(self, piece: MacroPiece, size: tuple[Hashable, ...]) -> PartCost:
        """Return the cost of a piece from the cache, or measure it."""
        layer = self._known.layer(piece.macro, self._layer)
        key = layer.key(self.choices.lag, self._line_buffers(piece.macro), *size)
        if key not in layer:
            layer[key] = self._measured(piece, (piece.macro, *size))
        return layer[key]

    def _layer(self, number: int) -> tuple[Any, ...]:
        """Return all that the costs of a layer depend on, except lag, line buffers and size."""
        macro = self.macros[number]
        tensors = [*macro.inputs, *macro.outputs]
        places = [self.homes.of(one) for one in tensors]
        owners = list(dict.fromkeys(one.owner for one in places))
        nodes = [one for one in (macro.windows, *macro.nodes, macro.sign) if one is not None]
        return (
            nameless(nodes, macro.outputs),
            [(one.shape, one.type, one.planes, one.pad) for one in owners],
            [(owners.index(one.owner), one[1:]) for one in places],
            [self._takers(one) for one in macro.outputs],
            (macro.words, self.shape, replace(self.choices, lag=0.0), self.searches.breadth),
        )

    def _line_buffers(self, number: int) -> Any:
        """Return the widths of a layer's tiles and of the line buffers that it reads."""
        if self.lines is None:
            return None
        owners = (self.homes.of(one).owner for one in self.macros[number].inputs)
        columns = [self.lines.columns.get((number, owner), 0) for owner in owners]
        return self.lines.widths[number], columns

    def _measured(self, piece: MacroPiece, size: Hashable) -> PartCost:
        """Return the cost of a piece. size : its size, and whether it is at an edge"""
        shape = self.shape
        made = slice_macro(self.macros[piece.macro], piece.rows, piece.blocks, shape.columns)
        regions, vectors = self._regions(made, piece.macro)
        if vectors > (most := map_capacity(shape)):
            raise DoesNotFitError(
                f"{made.macro.label}: feature memory: {vectors:,} vectors needed for its inputs, "
                f"a core has {most:,} ({vectors - most:,} short)"
            )
        targets = {
            one.part: (self._elsewhere(one),) * self._takers(one.whole) for one in made.outputs
        }
        words, memory = weight_words(made.macro, shape), ALL_AT_ONCE
        if self.streams and words > shape.weight_words:
            memory = MemoryPlan(plan_weights([made.macro], shape))
            words = -(-shape.weight_words // 2) if self.excess == 1 else words
        words = math.ceil(words / self.excess)
        memory = memory._replace(stop=min(vectors, most), targets=targets)
        emitter = Emitter(shape, regions, self.choices, memory)
        cut = self._cut(emitter, made.macro, piece.macro)
        key = size, cut
        known = self._known.cuts
        if key not in known:
            known[key] = self._emitted(emitter, made, cut, vectors, words)
        return known[key]

    def _emitted(
        self, emitter: Emitter, made: Slice, cut: Cut, vectors: int, words: int
    ) -> PartCost:
        """Return the cost of a part that is cut into tiles."""
        shape = self.shape
        emitter.emit(made.macro, cut)
        tables = emitter.tables
        kept = (one.base + one.vectors for one in emitter.regions.values())
        room = max([map_capacity(shape), *kept])
        program = with_tokens(emitter.steps, memory_sizes(shape, room))
        before = Preloaded.of(tables, Preset([], b""))
        timeline = timeline_of_functions(program, [(0, len(program))], shape, before)
        links = 0 if self.lines is None else self.lines.links * (emitter.tile + 1)
        return PartCost(
            timeline.cycles, vectors, words, len(tables.parameters),
            len(tables.micro_ops), len(program) + links, len(tables.headers),
        )  # fmt: skip

    def _cut(self, emitter: Emitter, macro: Macro, number: int) -> Cut:
        if self.lines is not None:
            return narrow_cut(macro, self.shape, self.lines.widths[number])
        limits = Limits(
            self.shape.instructions or UNLIMITED, self.shape.micro_ops, self.choices.lag
        )
        ways = [self.searches.ways(emitter, macro, 0, None)]
        (best,) = chosen([macro], ways, limits, not self.shape.map_vectors)
        return best.cut

    def _regions(self, made: Slice, number: int) -> tuple[dict[Tensor, Region], int]:
        """Return the regions of its inputs, and the vectors that a core keeps of them."""
        found, at, vectors = {}, 0, 0
        for one in made.inputs:
            kept = self.homes.kept(one)
            found[one.part] = self.homes.region(kept, one, at)
            at += self.homes.size(kept)
            columns = 0 if self.lines is None else self.lines.columns.get((number, kept.owner), 0)
            vectors += self.homes.size(kept, columns)
        return found, vectors

    def _takers(self, tensor: Tensor) -> int:
        """Return the number of layers that read a feature map, including the host."""
        owner, box = self.homes.of(tensor).owner, self.homes.whole(tensor)
        others = [macro.inputs for macro in self.macros] + [[one] for one in self.whole.read]
        return sum(
            any(
                self.homes.of(one).owner is owner and self.homes.whole(one).meet(box)
                for one in dict.fromkeys(inputs)
            )
            for inputs in others
        )

    def _elsewhere(self, one: Sliced) -> Target:
        pixel = pixel_vectors(one.part, self.shape.columns)
        region = self.homes.region(self.homes.kept(one), one, 0)
        return Target("REMOTE", region, Span(0, one.part.height), Span(0, pixel))
