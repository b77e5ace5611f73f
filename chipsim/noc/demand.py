"""Random loads: packet rate and targets of each node.

In each cycle core v creates a packet with probability ``rate[v]``, independent of the network: the
source queues are unlimited (an open loop). With probability ``spread`` a packet's target is drawn
uniformly from all nodes, else from the table of v by weight. Every core has its own random
generator, so its packets depend on the seed only. Nodes are routers; without tiles, they are the
cores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from chipsim.detours.paths import route_steps
from chipsim.errors import ChipError
from chipsim.noc.kernel import _guide
from chipsim.noc.mesh import Mesh
from chipsim.noc.state import Feed
from chipsim.protocols import FloatArray, Int32Array, Int64Array


@dataclass(frozen=True, slots=True)
class Demand:
    """A load on a mesh.

    Attributes
    ----------
    rate : ndarray[float64], shape (cores,), packets per cycle
    spread : share of the packets whose target is drawn uniformly from all nodes, including the
        source
    indptr : ndarray[int64], shape (cores + 1,)
        Core v owns the entries ``indptr[v]`` to ``indptr[v + 1] - 1`` of the next two arrays.
    choice : ndarray[int32], shape (entries,), target
    below : ndarray[int64], shape (entries,), cumulative weight within the core up to this entry
    guide : ndarray[int32], shape (entries,), speeds up the search in `below`
    nodes : number of nodes
    """

    rate: FloatArray
    spread: float
    indptr: Int64Array
    choice: Int32Array
    below: Int64Array
    guide: Int32Array
    nodes: int

    def __post_init__(self) -> None:
        bad = np.flatnonzero(~((self.rate >= 0) & np.isfinite(self.rate)))
        if bad.size:
            raise ChipError(
                f"load: node {bad[0]} has the rate {self.rate[bad[0]]}; give a number, 0 or more"
            )
        if not 0 <= self.spread <= 1:
            raise ChipError(f"load: spread is {self.spread!r}; give a share, 0 to 1")
        if self.spread < 1:
            silent = np.flatnonzero((np.diff(self.indptr) == 0) & (self.rate > 0))
            if silent.size:
                raise ChipError(f"load: node {silent[0]} has a rate but no target; give it one")

    @classmethod
    def from_flows(
        cls, mesh: Mesh, source: Int32Array, target: Int32Array, weight: Int64Array, unit: float
    ) -> Demand:
        """Return the load of flows between cores, each with ``weight * unit`` packets per cycle.

        source, target, weight : shape (flows,); sources sorted, weights positive
        """
        if len(source) and not (
            (np.diff(source) >= 0).all()
            and source[0] >= 0
            and source[-1] < mesh.cores
            and target.min() >= 0
            and target.max() < mesh.cores
            and weight.min() > 0
        ):
            raise ChipError(
                "load: flows must be sorted by source, with nodes of the mesh and weights above 0"
            )
        mesh.require_routes(mesh.router[source], mesh.router[target])
        indptr = np.searchsorted(source, np.arange(mesh.cores + 1)).astype(np.int64)
        below = np.cumsum(weight, dtype=np.int64)
        before = np.concatenate([[0], below])[indptr]
        below -= np.repeat(before[:-1], np.diff(indptr))
        rate = np.diff(before) * unit
        choice = (mesh.router[target] if mesh.shared else target).astype(np.int32)
        return cls(rate, 0.0, indptr, choice, below, _guide(indptr, below), mesh.nodes)

    @classmethod
    def to_one(cls, mesh: Mesh, target: Int64Array, rate: float, spread: float = 0.0) -> Demand:
        """Return a load of each core to one target, with a share of uniformly drawn targets.

        target : shape (cores,)
        rate : packets per cycle of each core
        """
        cores = mesh.cores
        return cls(
            np.full(cores, float(rate)),
            spread,
            np.arange(cores + 1, dtype=np.int64),
            mesh.router[target].astype(np.int32),
            np.ones(cores, dtype=np.int64),
            np.zeros(cores, dtype=np.int32),
            mesh.nodes,
        )

    def scaled(self, factor: float) -> Demand:
        """Return the same load with all rates multiplied."""
        return replace(self, rate=self.rate * factor)

    def feed(self, seed: int) -> Feed:
        """Return the kernel's packet source; raises `ChipError` above 1 flit per cycle and node."""
        if len(self.rate) and self.rate.max() > 1:
            worst = int(self.rate.argmax())
            raise ChipError(
                f"load: node {worst} sends {self.rate[worst]:.4g} flits per cycle; the maximum is "
                f"1: scale the load by {1 / self.rate[worst]:.4g} or less"
            )
        state = np.random.SeedSequence(seed).generate_state(len(self.rate), np.uint64)
        with np.errstate(divide="ignore"):  # log(0) = -inf is intended
            miss = np.log1p(-self.rate)
        return Feed(
            at=np.zeros(0, dtype=np.int64),
            stop=np.zeros(0, dtype=np.int64),
            order=np.zeros(0, dtype=np.int64),
            created=np.zeros(0, dtype=np.int64),
            wanted=np.zeros(0, dtype=np.int32),
            random=np.maximum(state, np.uint64(1)),
            miss=miss,
            spread=np.array([float(self.spread), float(self.nodes)]),
            indptr=self.indptr,
            choice=self.choice,
            below=self.below,
            guide=self.guide,
        )

    def flows(self) -> FloatArray:
        """Return the packets per cycle of each entry of the tables, shape (entries,)."""
        degree = np.diff(self.indptr)
        first = self.indptr[:-1][degree > 0]
        weight = np.diff(self.below, prepend=0)
        weight[first] = self.below[first]
        each = np.zeros(len(degree))
        each[degree > 0] = (1 - self.spread) / self.below[self.indptr[1:][degree > 0] - 1]
        return np.repeat(self.rate * each, degree) * weight

    def expected(self, mesh: Mesh) -> tuple[FloatArray, FloatArray]:
        """Return the flits per cycle on each link and to each node if all packets are delivered.

        Returns
        -------
        links : shape (4, height, width), in the form of `chipsim.traffic.links`
        received : shape (nodes,)
        """
        links = np.zeros((4, mesh.height, mesh.width))
        received = np.zeros(mesh.nodes)
        if self.spread:
            _spread_loads(mesh, self._entering(mesh) * self.spread, links, received)
        if self.spread < 1 and len(self.choice):
            source = np.repeat(mesh.router, np.diff(self.indptr))
            choice = self.choice.astype(np.int64)
            _flow_loads(mesh, source, choice, self.flows(), links)
            received += np.bincount(choice, self.flows(), minlength=mesh.nodes)
        return links, received

    def _entering(self, mesh: Mesh) -> FloatArray:
        """Return the packets per cycle into every router, shape (nodes,)."""
        if not mesh.shared:
            return self.rate
        entering: FloatArray = np.bincount(mesh.router, self.rate, mesh.nodes).astype(np.float64)
        return entering

    def busiest(self, mesh: Mesh) -> float:
        """Return the largest utilisation of a link or of a sending or receiving node; 1 is full.

        On a link that carries a flit per cycle, this is flits per cycle.
        """
        links, received = self.expected(mesh)
        if mesh.links is not None:
            links = links * mesh.links.cycles
        return float(max(links.max(), received.max(), self._entering(mesh).max()))


def _spread_loads(mesh: Mesh, rate: FloatArray, links: FloatArray, received: FloatArray) -> None:
    """Add the loads of packets with uniformly drawn targets.

    rate : shape (nodes,)
    links : shape (4, height, width)
    received : shape (nodes,)
    """
    _, height, width = links.shape
    received += rate.sum() / rate.size
    sent = rate.reshape(height, width)
    if mesh.detours is not None:
        nodes = np.arange(rate.size)
        for node in np.flatnonzero(rate):
            flow = np.full(rate.size, rate[node] / rate.size)
            _flow_loads(mesh, np.full_like(nodes, node), nodes, flow, links)
        return
    turning = np.repeat(sent.sum(axis=1, keepdims=True) / width, width, axis=1)
    if mesh.ways is not None:
        nodes = np.arange(rate.size)
        y, x = np.divmod(nodes, width)
        row, column = np.repeat(nodes, width), np.repeat(nodes, height)
        to_x, to_y = np.tile(np.arange(width), rate.size), np.tile(np.arange(height), rate.size)
        _flow_loads(mesh, row, y[row] * width + to_x, rate[row] / width, links)
        down = turning.ravel()[column] / height
        _flow_loads(mesh, column, to_y * width + x[column], down, links)
        return
    x, y = np.arange(width), np.arange(height)[:, None]
    links[0] += np.cumsum(sent, axis=1) * (width - 1 - x) / width
    links[1] += np.cumsum(sent[:, ::-1], axis=1)[:, ::-1] * x / width
    links[2] += np.cumsum(turning, axis=0) * (height - 1 - y) / height
    links[3] += np.cumsum(turning[::-1], axis=0)[::-1] * y / height


def _flow_loads(
    mesh: Mesh, source: Int64Array, target: Int64Array, flow: FloatArray, links: FloatArray
) -> None:
    """Add the loads of flows on their routes; arrays of shape (flows,), links as above."""
    if mesh.detours is not None:
        for index, router, way in route_steps(mesh.detours, source, target):
            np.add.at(links.reshape(4, -1), (way, router), flow[index])
        return
    height, width = mesh.height, mesh.width
    y, x = np.divmod(source, width)
    to_x = target % width
    dx, dy = mesh.steps(source, target)
    steps = np.zeros((4, height + 1, width + 1))
    rows = _straight(x, dx, width)
    columns = _straight(y, dy, height)
    for sign, end in ((1, 0), (-1, 1)):
        for part in range(1 if mesh.ways is None else 2):
            np.add.at(steps, ((dx < 0).astype(np.int64), y, rows[part][end]), sign * flow)
            np.add.at(steps, (2 + (dy < 0), columns[part][end], to_x), sign * flow)
    links[:2] += np.cumsum(steps[:2, :-1, :-1], axis=2)
    links[2:] += np.cumsum(steps[2:, :-1, :-1], axis=1)


def _straight(
    start: Int64Array, steps: Int64Array, length: int
) -> tuple[tuple[Int64Array, Int64Array], tuple[Int64Array, Int64Array]]:
    """Return first and end link of each way along an axis, and of its wrapped part."""
    first = np.where(steps < 0, start + steps + 1, start)
    past = np.where(steps < 0, start + 1, start + steps)
    before, after = first < 0, past > length
    begins = np.where(before, first + length, 0)
    ends = np.where(before, length, np.where(after, past - length, 0))
    return (np.maximum(first, 0), np.minimum(past, length)), (begins, ends)
