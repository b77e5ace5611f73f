"""How layers are cut for an early result: each over as many cores as shorten it.

The cores take turns: all work on a layer, then on the next one. Part j of each layer is on the same
core, so that most rows that a part takes are made there. A layer has fewer parts than there are
cores if more would not shorten it: parts repeat rows or inputs, and send more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mapper.compiler.cores.period import Grouped, Line
from mapper.errors import DoesNotFitError

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Cores that are tried, as far as there are so many."""
SHORTER = 0.97
"""What more parts make of the cycles of a layer, at most."""


def turns(line: Line, cores: int) -> Iterator[Grouped]:
    """Cuts that use more and more cores, each once."""
    before: list[int] = []
    for count in (*(one for one in COUNTS if one < cores), cores):
        parts = [_parts(line, layer, count) for layer in range(len(line.rows))]
        if parts != before and max(parts) == count:
            before = parts
            with suppress(DoesNotFitError):
                yield _cut(line, parts)


def _parts(line: Line, layer: int, cores: int) -> int:
    """So many parts of a layer that one more core does not shorten it."""
    units = line.units(layer)
    best, least = 1, _cycles(line, layer, units)
    for count in (*(one for one in COUNTS if one < cores), cores):
        if count > units:
            break
        found = _cycles(line, layer, -(-units // count))
        if found < SHORTER * least:
            best, least = count, found
    return best


def _cycles(line: Line, layer: int, size: int) -> float:
    try:
        return line.cost(layer, size).cycles
    except DoesNotFitError:
        return float("inf")


def _cut(line: Line, parts: list[int]) -> Grouped:
    """Layers in parts as even as they come; raises `DoesNotFitError`."""
    made, cores = Grouped([], [], []), max(parts)
    for layer, count in enumerate(parts):
        units = line.units(layer)
        ends = [units * one // count for one in range(count + 1)]
        for number in range(count):
            made.pieces.append(line.piece(layer, ends[number], ends[number + 1]))
            made.costs.append(line.cost(layer, ends[number + 1] - ends[number]))
            made.groups.append(number * cores // count)
    return made
