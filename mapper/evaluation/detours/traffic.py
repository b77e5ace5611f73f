"""Traffic on routes around broken links, for the check of a mapping: every route is walked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mapper.evaluation.detours.routes import CORE, DetourRoutes
from mapper.evaluation.verify_latency import Routers
from mapper.evaluation.verify_machine import DistanceCosts, MachineLayout, WalkedLinks

Int64 = NDArray[np.int64]


def summed(source: Int64, target: Int64, weight: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the pairs of routers, each once, with the sums of their weights."""
    most = int(max(source.max(initial=0), target.max(initial=0))) + 1
    pairs, place = np.unique(source * most + target, return_inverse=True)
    total = np.zeros(pairs.size, np.int64)
    np.add.at(total, place, weight)
    return pairs // most, pairs % most, total


class DetouredLinks(WalkedLinks):
    """Loads of links, as of `WalkedLinks`."""

    def __init__(self, layout: MachineLayout, detours: DetourRoutes) -> None:
        super().__init__(layout)
        self._detours = detours

    def add(self, source: Int64, target: Int64, weight: Int64) -> None:
        """Add spikes from core to core."""
        super().add(*summed(source, target, weight))

    def _walk(self, source: Int64, target: Int64) -> list[tuple[Int64, Int64]]:
        a, b = self._layout.router(source), self._layout.router(target)
        size = self._loads[0].size
        return [(part.route, part.way * size + part.router) for part in self._detours.parts(a, b)]


class DetouredRouters(Routers):
    """Ends and corners of routes, as of `Routers`; the steps along rows and columns are unused."""

    def __init__(self, width: int, height: int, detours: DetourRoutes) -> None:
        super().__init__(width, height)
        self._detours = detours

    def add(self, source: Int64, target: Int64, dx: Int64, dy: Int64, weight: Int64) -> None:
        """Add packets from router to router."""
        source, target, weight = summed(source, target, weight)
        np.add.at(self.entered, source, weight)
        count = self._count.reshape(-1)
        for part in self._detours.parts(source, target):
            bends = part.came != part.way
            leg = (part.router * 5 + part.came) * 5 + part.way
            np.add.at(count, leg[bends], weight[part.route][bends])
        came = self._detours.arrivals(source, target)
        np.add.at(count, (target * 5 + came) * 5 + CORE, weight)

    def add_trees(
        self, owner: Int64, source: Int64, target: Int64, dx: Int64, dy: Int64, rate: Int64
    ) -> None:
        """Add multicast spikes to all routers listed for an owner, each link and corner once."""
        size, found = self._count.size, [np.zeros((0, 2), np.int64)]
        for part in self._detours.parts(source, target):
            bends = part.came != part.way
            leg = (part.router * 5 + part.came) * 5 + part.way
            key = owner[part.route] * size + leg
            found.append(np.stack([key[bends], rate[part.route][bends]], axis=1))
        keys, rates = np.concatenate(found).T
        used, first = np.unique(keys, return_index=True)
        np.add.at(self._count.reshape(-1), used % size, rates[first])
        _, first = np.unique(owner, return_index=True)
        np.add.at(self.entered, source[first], rate[first])


class DetouredCosts(DistanceCosts):
    """Costs of routes, as of `DistanceCosts`: distances, and the cost of detours beyond them."""

    def __init__(self, layout: MachineLayout, detours: DetourRoutes) -> None:
        super().__init__(layout)
        self._detours = detours

    def cost(self, a: Int64, b: Int64) -> Int64:
        """Return the cost between two cores."""
        layout = self._layout
        ends = layout.router(a), layout.router(b)
        straight = layout.cost(*(layout.first_core(router) for router in ends))
        return layout.cost(a, b) + self._detours.sums(*ends, layout.link_steps()) - straight


def links_on(layout: MachineLayout, detours: DetourRoutes | None) -> WalkedLinks:
    """Return loads of links, zero."""
    return WalkedLinks(layout) if detours is None else DetouredLinks(layout, detours)


def routers_on(width: int, height: int, detours: DetourRoutes | None) -> Routers:
    """Return ends and corners of routes, zero."""
    if detours is None:
        return Routers(width, height)
    return DetouredRouters(width, height, detours)


def costs_on(layout: MachineLayout, detours: DetourRoutes | None) -> DistanceCosts:
    """Return costs of routes, zero."""
    return DistanceCosts(layout) if detours is None else DetouredCosts(layout, detours)
