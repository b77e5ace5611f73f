"""Reference implementation of the tick bounds, core by core and link by link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from chipsim.chip.time import ChipTime
from tests.reference.queues import BufferQueues, emptied

STEPS = 32


def tick_metrics(
    time: ChipTime, sizes: Sequence[int], sent: Sequence[float], taken: Sequence[float],
    events: Sequence[float], spikes: Sequence[float], flits: Sequence[tuple[float, float]],
    bandwidths: Sequence[float], queues: BufferQueues | None,
) -> dict[str, Any]:  # fmt: skip
    """Return the tick metrics.

    All arguments are per core and tick, except flits (with the cycles of a hop) and bandwidths,
    which are per link, and queues, which are None if they are not known.
    """
    start = time.barrier + time.spike
    bounds = dict.fromkeys(("neurons", "packets_out", "events", "links"), 0.0)

    def at_least(name: str, cycles: float) -> None:
        bounds[name] = max(bounds[name], cycles)

    for size, out, come, event in zip(sizes, sent, taken, events, strict=True):
        if size:
            at_least("neurons", time.barrier + size * time.neuron)
        if out:
            at_least("packets_out", start + out * time.packet_out)
        if come:
            at_least("events", start + (come * time.packet_in + event * time.event))
    for (load, _), bandwidth in zip(flits, bandwidths, strict=True):
        if load:
            at_least("links", start + load / bandwidth * time.link)
    if sum(spikes) and sum(sent) and sum(taken):
        more = (sum(sent) / sum(spikes) - 1) * time.packet_out
        more += (sum(events) / sum(taken) - 1) * time.event
        way = time.spike + sum(load * hop for load, hop in flits) / sum(sent) + max(0.0, more)
        bounds["neurons"] += tail([n * time.neuron for n in sizes], spikes, way)
    most, waiting = max(bounds.values()), 0.0
    if queues is not None and sum(sent):
        hops = sum(load * hop for load, hop in flits) / sum(sent)
        waiting = start + hops + emptied(queues, max(1.0, most - start))
    return {
        "tick_cycles": max(1.0, most, waiting),
        "tick_bound": min(bounds, key=lambda name: -bounds[name]),
        "tick_bounds": bounds | {"queues": waiting},
    }


def tail(sweeps: Sequence[float], spikes: Sequence[float], way: float) -> float:
    """Return the mean of max(0, last spike + way - longest sweep), by the trapezoid rule."""
    longest = max(sweeps)
    if not longest:
        return 0.0
    chances = []
    for step in range(STEPS + 1):
        begin = max(0.0, longest - way + way * step / STEPS)
        later = sum(
            rate * max(0.0, 1 - begin / n) for n, rate in zip(sweeps, spikes, strict=True) if n
        )
        chances.append(1 - math.exp(-later))
    return sum(a + b for a, b in pairwise(chances)) / 2 * way / STEPS


def sent_by(
    delivery: str, active: Mapping[str, Sequence[int]], out_weight: Sequence[int], unit: float,
    weight_unit: float,
) -> tuple[list[float], list[float], list[float], list[float]]:  # fmt: skip
    """Return packets sent and received, events and spikes per core and tick."""
    spikes = [max(a, b) * unit for a, b in zip(active["spikes"], active["local"], strict=True)]
    events = [n * unit for n in active["events"]]
    taken = [(a + b) * unit for a, b in zip(active["received"], active["local"], strict=True)]
    if delivery == "synapse":
        return [w * weight_unit for w in out_weight], events, events, spikes
    if delivery == "tree":
        return spikes, taken, events, spikes
    sent = [(a + b) * unit for a, b in zip(active["sent"], active["local"], strict=True)]
    return sent, taken, events, spikes
