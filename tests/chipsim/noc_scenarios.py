"""Traffic for every model of the mesh; all of them deliver each packet in the same cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.reference.noc import Packet


@dataclass(frozen=True)
class Scenario:
    """A mesh with a buffer depth, and the packets that its cores create."""

    width: int
    height: int
    depth: int
    packets: list[Packet]


def random_traffic(
    nodes: int, load: float, cycles: int, seed: int, hot: float = 0.0
) -> list[Packet]:
    """Return packets of every node with probability `load` per cycle, a share of them to node 0."""
    rng = np.random.default_rng(seed)
    created, source = np.nonzero(rng.random((cycles, nodes)) < load)
    target = rng.integers(0, nodes, len(source))
    target[rng.random(len(target)) < hot] = 0
    return list(zip(created.tolist(), source.tolist(), target.tolist(), strict=True))


SCENARIOS: dict[str, Scenario] = {
    "nothing": Scenario(2, 2, 4, []),
    "a packet to the own core": Scenario(1, 1, 4, [(3, 0, 0)]),
}
for _width, _height in ((2, 2), (3, 3), (1, 4), (4, 1), (1, 1)):
    for _depth, _load in ((1, 0.2), (2, 0.9), (3, 0.3), (4, 1.0)):
        SCENARIOS[f"{_width}x{_height}, depth {_depth}, load {_load}"] = Scenario(
            _width,
            _height,
            _depth,
            random_traffic(_width * _height, _load, 40, seed=_width + 10 * _depth),
        )
for _depth in (1, 2, 4, 7):
    SCENARIOS[f"hot node, depth {_depth}"] = Scenario(
        3, 3, _depth, random_traffic(9, 0.5, 30, seed=_depth, hot=0.7)
    )
for _depth in (1, 4):
    SCENARIOS[f"all to the next in every cycle, depth {_depth}"] = Scenario(
        3, 3, _depth, [(t, node, (node + 1) % 9) for t in range(25) for node in range(9)]
    )
SCENARIOS["long saturation"] = Scenario(3, 3, 4, random_traffic(9, 1.0, 150, seed=5))
