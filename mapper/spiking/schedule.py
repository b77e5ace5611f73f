"""Schedule of a spiking model on a chip, where every synapse takes a tick.

In frameworks a spike acts in its own tick through a feed-forward connection. On the chip each
population is `latency` ticks late instead. Delays of synapses balance paths of different lengths,
so that spike trains are equal after the shift.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from mapper.errors import MapperError
from mapper.spiking.model import SpikingModel
from mapper.spiking.order import execution_order

INPUT_LATENCY = -1  # the host sends the spikes of a tick before the tick
LONGEST_DELAY = 62  # ticks, of a core with 64 delay slots
_DETOUR = "other, longer paths need"


class Schedule(NamedTuple):
    """Times of a model on the chip, in ticks.

    latency : per population, ticks by which its spikes are later than in the framework
    delays : per connection, delay of its synapses
    last : ticks that a run is longer than its samples, until all populations are done
    """

    latency: tuple[int, ...]
    delays: tuple[int, ...]
    last: int


def schedule(model: SpikingModel, longest_delay: int = LONGEST_DELAY) -> Schedule:
    """Return the least latencies, and the delays that balance them.

    Raises `MapperError` naming the populations of a loop whose delays are shorter than the loop,
    or the connection whose synapses need a delay above `longest_delay`.
    """
    delays = execution_order(model).delays
    latency = _latencies(model, delays)
    balanced = tuple(
        delay + latency[each.target] - latency[each.source] - 1
        for each, delay in zip(model.connections, delays, strict=True)
    )
    for each, delay in zip(model.connections, balanced, strict=True):
        if delay > longest_delay:
            begin, end = (model.populations[n].name for n in (each.source, each.target))
            cause = f"its delay of {each.delay} ticks needs" if each.delay else _DETOUR
            raise MapperError(
                f"{begin} -> {end}: {cause} synapses of delay {delay}, but the longest delay of "
                f"the core is {longest_delay}; use a longer tick or more delay slots"
            )
    return Schedule(latency, balanced, max(0, *latency))


def _latencies(model: SpikingModel, delays: tuple[int, ...]) -> tuple[int, ...]:
    """Return the longest paths from the inputs, where a connection takes a tick less its delay."""
    steps: dict[tuple[int, int], int] = {}
    for each, delay in zip(model.connections, delays, strict=True):
        pair = each.source, each.target
        steps[pair] = max(steps.get(pair, 1 - delay), 1 - delay)
    latency = [INPUT_LATENCY if each.dynamics is None else 0 for each in model.populations]
    leads: dict[int, int] = {}
    later = 0
    for _ in range(len(latency) + 1):
        changed = False
        for (begin, end), step in steps.items():
            if latency[begin] + step > latency[end]:
                latency[end] = latency[begin] + step
                leads[end] = begin
                later, changed = end, True
        if not changed:
            return tuple(latency)
    loop = _loop(later, leads)
    names = [model.populations[number].name for number in loop]
    given = sum(1 - steps[pair] for pair in pairwise(loop))
    raise MapperError(
        f"loop {' -> '.join(names)}: its delays sum to {in_ticks(given)}, but a chip needs "
        f"{len(loop) - 1}, one per connection; add a delay of {len(loop) - 1 - given} to a "
        "connection of the loop"
    )


def in_ticks(count: int) -> str:
    """Return a number of ticks in words."""
    return "1 tick" if count == 1 else f"{count} ticks"


def _loop(number: int, leads: dict[int, int]) -> list[int]:
    """Return the loop that leads to `number`; its first population is also its last."""
    for _ in leads:
        number = leads[number]
    found = [number]
    while len(found) == 1 or found[0] != found[-1]:
        found.append(leads[found[-1]])
    found.reverse()
    least = found.index(min(found))
    return found[least:-1] + found[: least + 1]
