"""One pass over the synapses of a network under a mapping, by the independent reader."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.evaluation.detours.routes import DetourRoutes
from mapper.evaluation.detours.traffic import costs_on, links_on, routers_on
from mapper.evaluation.verify import Connections, SlowReader
from mapper.evaluation.verify_energy import link_costs
from mapper.evaluation.verify_latency import Steps
from mapper.evaluation.verify_lists import stored_words
from mapper.evaluation.verify_machine import KEYS, DistanceCosts, MachineLayout, WalkedLinks
from mapper.evaluation.verify_split import SplitReader
from mapper.evaluation.verify_ticks import Activity
from mapper.evaluation.verify_traffic import Flows, LinkLoads

LIMITS = ("neurons", "synapses", "axons_in", "axons_out")


class Walk:
    """Pass over synapses: resource use of every core, and routes of spikes.

    did : activity of the cores
    links, casts, trees : loads of links by packets to synapses, to cores, and multicast
    through : where these packets enter, leave and turn in routers
    flows : between pairs of cores
    steps : hops east-west, and north-south; latest : largest latency of a spike
    """

    def __init__(self, core: NDArray[np.int64], chip: dict[str, Any]) -> None:
        cores = chip["width"] * chip["height"]
        self.use = {name: np.zeros(cores, np.int64) for name in LIMITS}
        self.did = Activity(cores)
        self.weight = self.cut = self.hops = self.farthest = self.connectivity = 0
        self.rated_hops = 0
        self.steps, self.latest = np.zeros(2, np.int64), 0.0
        self._times = np.array(link_costs(chip, "latency")) + chip["latency_router"]
        self._chip = chip
        self._core, self._cores = core, cores
        self.detours = DetourRoutes.of(chip)
        works = None if self.detours is None else self.detours.works
        self.layout = MachineLayout.of(chip, works)
        self.size = chip["width"], chip["height"]
        self.costs: DistanceCosts | None = None
        self.routes: tuple[WalkedLinks, ...] = ()
        self.links: LinkLoads | WalkedLinks
        self.casts: LinkLoads | WalkedLinks
        self.trees: LinkLoads | WalkedLinks
        if self.layout is None:
            self.links, self.casts, self.trees = (LinkLoads(*self.size) for _ in range(3))
        else:
            self.size = self.layout.routers
            if any(key in chip for key in KEYS):
                self.costs = costs_on(self.layout, self.detours)
            self.routes = tuple(links_on(self.layout, self.detours) for _ in range(3))
            self.links, self.casts, self.trees = self.routes
        self.sent = {way: np.zeros(cores, np.int64) for way in ("synapse", "core")}
        self.through = {
            way: routers_on(*self.size, self.detours) for way in ("synapse", "core", "tree")
        }
        # Spread over minimal paths is not checked on a torus, and undefined with broken links.
        torus = self.layout is not None and self.layout.torus
        self.flows = None if torus or self.detours else Flows(*self.size)

    def use_cores(self, sizes: NDArray[np.int64]) -> None:
        """Assign all neurons, of these sizes, to their cores."""
        np.add.at(self.use["neurons"], self._core, sizes)
        if self._chip.get("single_target"):  # each neuron itself, and later its copies
            np.add.at(self.use["axons_out"], self._core, 1)

    def share_lists(self, reader: SlowReader | SplitReader, core: NDArray[np.int64]) -> None:
        """Count list words instead of synapses, if the chip shares synapse lists."""
        if self._chip.get("sharing") == "offset":
            self.use["synapses"] = stored_words(reader, core, self._cores)

    def join(self, other: Walk) -> None:
        """Add the results for the synapses of other neurons."""
        for mine, more in ((self.use, other.use), (self.sent, other.sent)):
            for name, counts in mine.items():
                counts += more[name]
        for name in ("weight", "cut", "hops", "connectivity", "rated_hops"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.farthest = max(self.farthest, other.farthest)
        self.latest = max(self.latest, other.latest)
        self.steps += other.steps
        self.did.join(other.did)
        for way, through in self.through.items():
            through.join(other.through[way])
        for own, links in self._links(other):
            own.join(links)
        if self.costs is not None and other.costs is not None:
            self.costs.join(other.costs)
        if self.flows is not None and other.flows is not None:
            self.flows.join(other.flows)

    def _links(self, other: Walk) -> list[tuple[Any, Any]]:
        """Return pairs of link loads of both walks."""
        return [(getattr(self, name), getattr(other, name)) for name in ("links", "casts", "trees")]

    def without_cores(self) -> Walk:
        """Return this walk without the mapping, for other processes; it cannot be continued."""
        self._core = np.empty(0, np.int64)
        return self

    def follow(self, reader: SlowReader | SplitReader, parts: Iterable[Connections]) -> None:
        """Process all synapses of some blocks."""
        rate = reader.attribute("rate") if "rate" in reader.meta["attributes"] else None
        for part in parts:
            if part.owner.size:  # a block of neurons may have no synapses
                self._add(part, rate, reader.meta["undirected"])

    def _add(self, part: Connections, rate: NDArray[np.int64] | None, undirected: bool) -> None:
        core, cores = self._core, self._cores
        ahead = part.incoming == 0
        source, target, weight = part.owner[ahead], part.other[ahead], part.weight[ahead]
        np.add.at(self.use["synapses"], core[target], 1)
        reached = np.unique(source * cores + core[target])
        np.add.at(self.use["axons_in"], reached % cores, 1)
        pairs = reached
        reached = reached[core[reached // cores] != reached % cores]
        leaving = reached // cores
        if self._chip.get("single_target"):
            sources, cores_of = np.unique(pairs // cores, return_counts=True)
            np.add.at(self.use["axons_out"], core[sources], cores_of - 1)
        else:
            np.add.at(self.use["axons_out"], core[leaving], 1)
        first, last = int(part.owner.min()), int(part.owner.max())
        if rate is None:  # the largest weight of the outgoing synapses
            rates = np.zeros(last - first + 1, np.int64)
            np.maximum.at(rates, source - first, weight)
        else:
            rates = rate[first : last + 1]
        self.did.add(
            core, pairs, rates[pairs // cores - first], core[target], rates[source - first]
        )
        self.connectivity += int(rates[leaving - first].sum())
        self.casts.add(core[leaving], reached % cores, rates[leaving - first])
        cast = self._ways(core[leaving], reached % cores)
        self.through["core"].add(*cast, rates[leaving - first])
        np.add.at(self.sent["core"], core[leaving], rates[leaving - first])
        self.through["tree"].add_trees(leaving, *cast, rates[leaving - first])
        if self.costs is not None:
            self.costs.add_casts(core[leaving], reached % cores, rates[leaving - first])
        self.trees.add_trees(core[first : last + 1], leaving - first, reached % cores, rates)
        a, b = core[source], core[target]
        steps = np.abs(np.array(self._ways(a, b)[2:]))
        distance = steps.sum(axis=0)
        self.rated_hops += int((rates[source - first] * distance).sum())
        if undirected:
            once = source < target
            source, target, weight = source[once], target[once], weight[once]
            a, b, steps, distance = a[once], b[once], steps[:, once], distance[once]
        self.weight += int(weight.sum())
        self.cut += int(weight[a != b].sum())
        self.hops += int((weight * distance).sum())
        self.steps += (weight * steps).sum(axis=1)
        ways = self._chip["latency_router"] + self._times @ steps[:, (weight > 0) & (a != b)]
        self.latest = max(self.latest, float(ways.max(initial=0.0)))
        self.farthest = max(self.farthest, int(distance[weight > 0].max(initial=0)))
        np.add.at(self.did.weight, a, weight)
        self.links.add(a, b, weight)
        away = a != b
        self.through["synapse"].add(*self._ways(a[away], b[away]), weight[away])
        np.add.at(self.sent["synapse"], a[away], weight[away])
        if self.costs is not None:
            self.costs.add(a, b, weight)
        if self.flows is not None:
            at = self.layout.router if self.layout else np.asarray
            self.flows.add(at(a), at(b), weight, a != b)

    def _ways(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> Steps:
        """Return the routers of cores, and the steps between them along rows and columns."""
        if self.layout is not None and self.detours is not None:
            ends = self.layout.router(a), self.layout.router(b)
            return *ends, *self.detours.steps(*ends)
        if self.layout is not None:
            return self.layout.router(a), self.layout.router(b), *self.layout.ways(a, b)
        (ya, xa), (yb, xb) = (np.divmod(core, self._chip["width"]) for core in (a, b))
        return a, b, xb - xa, yb - ya


def walk_blocks(
    blocks: range, network: Path, core: NDArray[np.int32], chip: dict[str, Any]
) -> Walk:
    """Process the synapses of some blocks."""
    reader = SlowReader(network)
    try:
        walk = Walk(core.astype(np.int64), chip)
        walk.follow(reader, reader.connections(blocks))
        return walk.without_cores()
    finally:
        reader.close()
