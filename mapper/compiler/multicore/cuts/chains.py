"""Chains: layers that are cut together, so that the maps between them stay on their cores.

Each core computes a strip of rows of all layers of a chain. Only the rows at the edges of strips,
which windows of two strips read, pass between cores. All cores of a chain hold its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.multicore.costs import PartCosts
from mapper.compiler.multicore.job import MacroPiece
from mapper.compiler.multicore.known_costs import PartCost
from mapper.compiler.multicore.vertices import shares
from mapper.compiler.program.inputs import Span
from mapper.compiler.tiling.tiles import extent_of
from mapper.errors import DoesNotFitError

MOST_WEIGHTS = 1 / 2
"""Maximum part of the weight memory for a chain; other layers share its cores."""
MOST_ROWS = 4
"""Maximum rows of a layer, as a multiple of the rows of another layer of the chain."""


class CutOneByOne(Protocol):
    """Layers that are cut one by one; see `Line`."""

    costs: PartCosts
    rows: Sequence[Span]
    cores: int
    functions: list[int]
    whole: list[bool]
    alone: list[bool]

    def cycles(self, number: int) -> int: ...


def strips_of(
    line: CutOneByOne, layers: Sequence[int], units: Span, count: int
) -> list[MacroPiece]:
    """Return the rows of all layers of a chain in some of its units.

    count : units of the chain
    """
    found = []
    for layer in layers:
        rows = line.rows[layer]
        ends = [rows.first + rows.size * one // count for one in units]
        blocks = extent_of(line.costs.macros[layer], line.costs.shape).blocks
        found.append(MacroPiece(layer, Span(*ends), Span(0, blocks)))
    return found


def together(costs: Sequence[PartCost]) -> PartCost:
    """Return the cost of several parts on a core."""
    return costs[0] if len(costs) == 1 else PartCost(*map(sum, zip(*costs, strict=True)))


def chains_of(line: CutOneByOne, strip: float) -> list[tuple[int, ...]]:
    """Join consecutive layers to chains: first the layers that exchange the largest maps.

    line : the layers, cut one by one
    strip : minimum rows of the part of a layer per core
    """
    layers = range(len(line.rows))
    work = [line.cycles(number) for number in layers]
    period = max(1.0, sum(work) / line.cores)
    chains: list[tuple[int, ...]] = [(number,) for number in layers]  # of each layer
    for users in _users_by_size(line):
        ends = [end for user in users for end in (chains[user][0], chains[user][-1])]
        chain = tuple(range(min(ends), max(ends) + 1))
        rows = [line.rows[number].size for number in chain]
        cores = sum(work[number] for number in chain) / period
        if min(rows) < strip * cores or max(rows) > MOST_ROWS * min(rows):
            continue
        if _can_join(line, chain):
            for number in chain:
                chains[number] = chain
    return list(dict.fromkeys(chains))


def _users_by_size(line: CutOneByOne) -> list[list[int]]:
    """Return the layers that write and read each map between layers, the largest map first."""
    homes, users = line.costs.homes, dict[Tensor, list[int]]()
    made: set[Tensor] = set()
    for number, macro in enumerate(line.costs.macros):
        for tensor in (*macro.inputs, *macro.outputs):
            users.setdefault(homes.of(tensor).owner, []).append(number)
        made |= {homes.of(tensor).owner for tensor in macro.outputs}
    sizes = {one: homes.vectors(one) for one in users if one in made and len(set(users[one])) > 1}
    return [users[one] for one in sorted(sizes, key=lambda one: -sizes[one])]


def _can_join(line: CutOneByOne, chain: Sequence[int]) -> bool:
    """Return whether a row of each layer fits in a core, in one function."""
    costs, rows = line.costs, [line.rows[number].size for number in chain]
    if any(line.whole[number] or line.alone[number] for number in chain) or min(rows) < 2:
        return False
    words = sum(costs.words(number) for number in chain)
    if words > MOST_WEIGHTS * costs.shape.weight_words:
        return False
    middle = min(rows) // 2
    with suppress(DoesNotFitError):
        pieces = strips_of(line, chain, Span(middle, middle + 1), min(rows))
        cost = together([costs.of(one) for one in pieces])
        one_function = len({line.functions[number] for number in chain}) == 1
        return one_function and max(shares(cost, costs.shape, max(1, cost.cycles))) <= 1
    return False
