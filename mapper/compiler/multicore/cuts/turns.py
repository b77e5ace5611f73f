"""Cutting of layers for a short latency.

All cores work on a layer, then on the next one. Part j of each layer is on the same core, so that
most of its input rows are computed there. A layer has fewer parts than there are cores if more
parts would not shorten it: parts repeat rows or inputs, and cause more traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mapper.compiler.multicore.cuts.period import Grouped, Line
from mapper.compiler.program.inputs import Span
from mapper.errors import DoesNotFitError

COUNTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of cores that are tried, up to the available number."""
SHORTER = 0.97
"""Maximum ratio of a layer's cycles with more parts for them to be worthwhile."""


def turns(line: Line, cores: int) -> Iterator[Grouped]:
    """Yield distinct cuts that use increasing numbers of cores."""
    before: list[int] = []
    for count in (*(one for one in COUNTS if one < cores), cores):
        parts = [_parts(line, layer, count) for layer in range(len(line.chains))]
        if parts != before and max(parts) == count:
            before = parts
            with suppress(DoesNotFitError):
                yield _cut(line, parts)


def _parts(line: Line, layer: int, cores: int) -> int:
    """Return the number of parts of a layer beyond which more cores do not shorten it."""
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
    """Cut layers into parts of nearly equal size; raises `DoesNotFitError`."""
    made, cores = Grouped([], [], []), max(parts)
    for layer, count in enumerate(parts):
        units = line.units(layer)
        ends = [units * one // count for one in range(count + 1)]
        for number in range(count):
            line.add(made, layer, Span(ends[number], ends[number + 1]), number * cores // count)
    return made
