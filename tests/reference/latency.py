"""Reference implementation of the latency estimate: every queue separately, every route leg by
leg."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

Router = tuple[int, int]
Leg = tuple[Router, str, str]
"""A router, and the input and output of a packet: "core" or a direction."""


def noc_latency(
    packets: Sequence[tuple[float, list[list[Leg]]]],
    service: Mapping[tuple[Router, str], float],
    ways: Mapping[tuple[Router, str], int],
    senders: Sequence[int],
) -> dict[str, float | str]:
    """Return the metrics of packets, each with its rate and the route to each of its cores.

    service : cycles that a flit occupies each link
    ways : latency of each link in cycles
    senders : the core of each packet; cores that share a router wait for each other
    """
    tiles: dict[Router, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (rate, routes), core in zip(packets, senders, strict=True):
        tiles[routes[0][0][0]][core] += rate
    flits: dict[Leg, float] = defaultdict(float)  # for a tree, once per leg
    comes: dict[tuple[Router, str], float] = defaultdict(float)
    for rate, routes in packets:
        legs = {leg for route in routes for leg in route}
        for leg in legs:
            flits[leg] += rate
        for router, way in {leg[:2] for leg in legs}:
            comes[router, way] += rate
    parts: dict[tuple[Router, str], list[float]] = defaultdict(list)
    for (router, _, way), load in flits.items():
        parts[router, way].append(load * service.get((router, way), 1.0))
    entering = [load for (_, way), load in comes.items() if way == "core"]
    busiest = max([*map(sum, parts.values()), *entering], default=0.0)
    wait = {}
    for output, loads in parts.items():
        load, cycles = sum(loads), service.get(output, 1.0)
        if 0 < load <= 0.6 + 1e-9:
            same = sum(part**2 for part in loads) / load
            wait[output] = (load - same + load * (cycles - 1)) / (2 * (1 - load))
        else:
            wait[output] = 0.0
    free = {}
    for (router, way), load in comes.items():
        heads = [
            flow * wait[router, out]
            for (here, came, out), flow in flits.items()
            if (here, came) == (router, way)
        ]
        free[router, way] = 1 - load - sum(heads)
    turn = {}
    for router, cores in tiles.items():
        load = sum(cores.values())
        same = sum(part**2 for part in cores.values()) / load if load else 0.0
        turn[router] = (load - same) / (2 * (1 - load)) if len(cores) > 1 and load < 1 else 0.0
    total = hops = waiting = 0.0
    for rate, routes in packets:
        for route in routes:
            total += rate
            waiting += rate * turn[route[0][0]]
            hops += rate * sum(ways.get((router, out), 0) for router, _, out in route)
            for router, way, out in route:
                behind = sum(
                    flow * wait[router, other] * (1 + wait[router, other])
                    for (here, came, other), flow in flits.items()
                    if (here, came) == (router, way) and other != out
                )
                waiting += rate * (wait[router, out] + behind / max(free[router, way], 0.1))
    if not total:
        return {"load_max": 0.0, "unloaded": 0.0, "mean": 0.0}
    unloaded = 1 + hops / total
    found: dict[str, float | str] = {"load_max": busiest, "unloaded": unloaded}
    if busiest > 0.6 + 1e-9 or min(free.values()) < 0.1 - 1e-9:
        return found | {"advice": "simulate"}
    return found | {"mean": unloaded + waiting / total}
