"""Mesh of a simulation: its size, its state at reset, and the driver loop of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chipsim.chip.faults import links_of
from chipsim.chip.model import Chip
from chipsim.detours.paths import unreached
from chipsim.detours.tables import Detours, detours_of
from chipsim.errors import ChipError
from chipsim.noc.kernel import CYCLE, NEVER, SCALARS, _advance, _start
from chipsim.noc.moves import WHEEL, leads
from chipsim.noc.rings import OUTPUTS, TorusSteps, fifos_after, rings_of
from chipsim.noc.state import Feed, FifoLayout, Routers, Sources, Tally, Tiles, Times, Wires
from chipsim.noc.tiles import NOBODY
from chipsim.protocols import BoolArray, FloatArray, Int64Array
from chipsim.traffic.machines import link_times

DEPTH = 4
"""Default depth of the FIFO of an input, in flits."""
MAX_SLOTS = 1 << 28
"""Maximum capacity of all FIFOs together, in flits: 3 GiB."""
CHUNK = 1 << 12
"""Cycles per kernel call; between calls Ctrl-C and progress are handled."""

ByteMask = np.ndarray[tuple[int], np.dtype[np.int8]]

Advance = Callable[[int], None]
"""Callback with the current cycle."""


class LinkTiming(NamedTuple):
    """Timing of links, shape (4, height, width), in the form of `chipsim.traffic.links`.

    latency : int64, cycles from leaving until the flit can be at the head of the next buffer, at
        least 1
    cycles : float64, cycles that a flit occupies the link, at least 1
    """

    latency: Int64Array
    cycles: FloatArray

    @property
    def held(self) -> Int64Array:
        """Flits in flight on a link at once, minus the one that the buffer has room for."""
        held: Int64Array = (np.ceil(self.latency / self.cycles) - 1).astype(np.int64)
        return held


@dataclass(frozen=True, slots=True)
class Mesh:
    """``width`` x ``height`` routers; each of their five inputs holds ``depth`` flits.

    Node = y * width + x, x to the east, y to the south. Buffers after slow links also hold the
    flits that are in flight on the link. ``tile`` gives the columns and rows of cores that share a
    router; cores are numbered like nodes, over the whole mesh. ``ways`` is for a torus, ``detours``
    for routes around broken links.

    Raises
    ------
    ChipError
        If a value is out of range; the message names it.
    """

    width: int
    height: int
    depth: int = DEPTH
    links: LinkTiming | None = field(default=None, compare=False, repr=False)
    tile: tuple[int, int] = (1, 1)
    ways: TorusSteps | None = field(default=None, compare=False, repr=False)
    detours: Detours | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("width", "height", "depth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ChipError(f"mesh: {name} is {value!r}; give a whole number, 1 or more")
            object.__setattr__(self, name, int(value))
        if self.links is not None and self.links.latency.max() >= WHEEL:
            raise ChipError(
                f"mesh: a flit takes {int(self.links.latency.max())} cycles on a link; the "
                f"simulator supports up to {WHEEL - 1}: give links more bandwidth or less latency"
            )
        if self.ways is not None and self.detours is None and self.depth < 2:
            raise ChipError(
                "mesh: depth is 1; a torus needs buffers of 2 flits or more, so that one place in "
                "each of its rings stays free"
            )
        if 5 * self.nodes * self.places > MAX_SLOTS:
            raise ChipError(
                f"mesh: FIFOs of {self.depth} flits in {self.width}x{self.height} routers are more "
                f"than {MAX_SLOTS} flits; try at most {MAX_SLOTS // (5 * self.nodes)} per FIFO"
            )

    @classmethod
    def of(cls, chip: Chip, depth: int = DEPTH) -> Mesh:
        """Return the mesh of a chip or machine, with the latency and width of each link."""
        machine = chip.machine
        ways, cycles = link_times(chip)
        alike = bool((ways == 1).all() and (cycles == 1).all())
        tile = (1, 1) if machine is None else machine.tile_size
        links = None if alike else LinkTiming(ways, cycles)
        return cls(*chip.routers, depth, links, tile, TorusSteps.of(chip), detours_of(chip))

    @property
    def nodes(self) -> int:
        """Number of routers."""
        return self.width * self.height

    @property
    def shared(self) -> bool:
        """True if several cores share a router."""
        return self.tile != (1, 1)

    @property
    def torus(self) -> str:
        """Axes on which the last router is adjacent to the first."""
        return "" if self.ways is None else self.ways.axes

    @property
    def works(self) -> BoolArray:
        """Whether each link exists and works, shape (4, height, width)."""
        if self.detours is not None:
            return self.detours.works
        return links_of(self.width, self.height, self.torus)

    def require_routes(self, source: Int64Array, target: Int64Array) -> None:
        """Raise `ChipError` for a pair of routers without a route: all their links are broken."""
        if self.detours is None:
            return
        cut = unreached(self.detours, source, target)
        if cut.size:
            raise ChipError(
                f"mesh: no route leads from router {source[cut[0]]} to router {target[cut[0]]}; "
                "their links are broken"
            )

    def steps(self, source: Int64Array, target: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return columns and rows of XY routes, negative westwards and northwards."""
        (y, x), (to_y, to_x) = (np.divmod(each, self.width) for each in (source, target))
        if self.ways is None:
            return to_x - x, to_y - y
        return self.ways.x[x, to_x], self.ways.y[y, to_y]

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.nodes * self.tile[0] * self.tile[1]

    @property
    def sides(self) -> tuple[int, int]:
        """Columns and rows of cores."""
        return self.width * self.tile[0], self.height * self.tile[1]

    @property
    def router(self) -> Int64Array:
        """The router of every core, shape (cores,)."""
        wide, tall = self.tile
        y, x = np.divmod(np.arange(self.cores), self.sides[0])
        return y // tall * self.width + x // wide

    @property
    def places(self) -> int:
        """Capacity of the deepest FIFO in flits, including flits on its link."""
        return self.depth + (0 if self.links is None else int(self.links.held.max()))

    @property
    def host(self) -> int:
        """Destination router of packets to the host: the node below column 0.

        A torus has no border: there, the host shares the last router of column 0 with its core.
        """
        return self.nodes - self.width if self.torus else self.nodes

    @property
    def node_bits(self) -> int:
        """Bits of the largest node number, `host`."""
        return self.nodes.bit_length()


def new_tally(mesh: Mesh, packets: int = 0) -> Tally:
    """Return empty counters; for a list of packets, none is delivered."""
    return Tally(
        passed=np.zeros(5 * mesh.nodes, dtype=np.int64),
        offered=np.zeros(mesh.cores, dtype=np.int64),
        entered=np.zeros(mesh.cores, dtype=np.int64),
        histogram=np.zeros(0, dtype=np.int64),
        delivered=np.full(packets, -1, dtype=np.int64),
    )


def new_routers(mesh: Mesh, trees: ByteMask | None = None) -> Routers:
    """Return all routers at reset; trees : as in `Routers`"""
    nodes = mesh.nodes
    fifos = 5 * (nodes + 1)
    return Routers(
        column=(np.arange(nodes + 1) % mesh.width).astype(np.int32),
        level=np.zeros(fifos, dtype=np.int32),
        first=np.zeros(fifos, dtype=np.int32),
        flits=np.zeros(fifos * mesh.places, dtype=np.int64),
        request=np.zeros(nodes, dtype=np.int32),
        pointer=np.zeros(5 * nodes, dtype=np.int8),
        active=np.zeros(nodes, dtype=np.int32),
        listed=np.zeros(nodes, dtype=np.bool_),
        moves=np.zeros(5 * nodes, dtype=np.int64),
        wires=_wires(mesh),
        trees=np.zeros(0, dtype=np.int8) if trees is None else trees,
        ahead=leads(mesh.width),
        rings=rings_of(mesh.width, mesh.height, mesh.ways, mesh.detours),
    )


def new_tiles(mesh: Mesh) -> Tiles:
    """Return the tiles at reset: the first core of each sends first."""
    none = np.zeros(0, dtype=np.int32)
    if not mesh.shared:
        return Tiles(none, none, none, none, 1)
    wide, tall = mesh.tile
    y, x = np.divmod(np.arange(mesh.cores), mesh.sides[0])
    return Tiles(
        router=mesh.router.astype(np.int32),
        place=(y % tall * wide + x % wide).astype(np.int32),
        turn=np.zeros(mesh.nodes, dtype=np.int32),
        first=np.full(mesh.nodes, NOBODY, dtype=np.int32),
        size=wide * tall,
    )


def _wires(mesh: Mesh) -> Wires:
    """Return idle links; empty arrays if all are equal."""
    if mesh.links is None:
        whole, narrow = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return Wires(whole, np.zeros(0), np.zeros(0), narrow, whole, narrow, narrow)
    latency = np.ones((mesh.nodes, 5), dtype=np.int64)
    cycles = np.ones((mesh.nodes, 5))
    room = np.full(5 * (mesh.nodes + 1), mesh.depth, dtype=np.int32)
    after = fifos_after(mesh.width, mesh.height)
    for direction, port in enumerate(OUTPUTS):
        latency[:, port] = mesh.links.latency[direction].ravel()
        cycles[:, port] = mesh.links.cycles[direction].ravel()
        room[after[:, port]] += mesh.links.held[direction].ravel().astype(np.int32)
    return Wires(
        latency=latency.ravel(),
        cycles=cycles.ravel(),
        free=np.zeros(5 * mesh.nodes),
        room=room,
        due=np.zeros(room.size * mesh.places, dtype=np.int64),
        bucket=np.full(WHEEL, -1, dtype=np.int32),
        after=np.full(room.size, -1, dtype=np.int32),
    )


def link_flits(mesh: Mesh, passed: Int64Array) -> Int64Array:
    """Return flits per link, shape (4, height, width), in the form of `chipsim.traffic.links`.

    passed : shape (5 * nodes,), flits through output o of node v at 5 * v + o
    """
    outputs = passed.reshape(mesh.height, mesh.width, 5)
    return np.stack([outputs[:, :, port] for port in OUTPUTS])


class MeshRun:
    """A running simulation: the mesh at reset, advanced by `until`.

    Parameters
    ----------
    mesh
    feed : source of the packets; its state advances with the run
    tally : counters
    window : range of creation cycles, first and end, of the packets that must be delivered; counts
        per cycle cover these cycles
    """

    def __init__(self, mesh: Mesh, feed: Feed, tally: Tally, window: tuple[int, int]) -> None:
        self.mesh = mesh
        self.feed = feed
        self.tally = tally
        self.window = window
        self.scalars = np.zeros(SCALARS, dtype=np.int64)
        cores = mesh.cores
        self.routers = new_routers(mesh)
        self.tiles = new_tiles(mesh)
        self.sources = Sources(
            time=np.full(cores, NEVER, dtype=np.int64),
            flit=np.zeros(cores, dtype=np.int64),
            pending=np.zeros(cores, dtype=np.int32),
            entering=np.zeros(cores, dtype=np.int32),
            bucket=np.full(WHEEL, -1, dtype=np.int32),
            after=np.full(cores, -1, dtype=np.int32),
        )
        _start(self.sources, feed, tally, self.scalars, mesh.node_bits, *window)

    @property
    def cycle(self) -> int:
        """The next cycle."""
        return int(self.scalars[CYCLE])

    def until(self, cycle: int, earliest: int, advance: Advance | None = None) -> bool:
        """Run up to `cycle`, or from `earliest` on until all is delivered; return True if it is.

        The kernel returns every few thousand cycles, so that Ctrl-C is handled.
        """
        layout = FifoLayout(self.mesh.depth, self.mesh.node_bits)
        done = False
        while not done and self.cycle < cycle:
            stop = min(cycle, self.cycle + CHUNK)
            self._make_room(stop)
            done = bool(
                _advance(
                    self.routers,
                    self.sources,
                    self.tiles,
                    self.feed,
                    self.tally,
                    self.scalars,
                    layout,
                    Times(stop, cycle, *self.window, earliest),
                )
            )
            if advance is not None:
                advance(self.cycle)
        return done

    def waits(self) -> Int64Array:
        """Return the waiting time of the front packet of each source queue; 0 without one."""
        return np.maximum(0, self.cycle - self.sources.time)

    def _make_room(self, cycle: int) -> None:
        """Grow the histogram: no latency exceeds the cycles since the window began."""
        needed = max(0, cycle - self.window[0])
        room = len(self.tally.histogram)
        if len(self.feed.random) and needed > room:
            histogram = np.zeros(max(needed, 2 * room), dtype=np.int64)
            histogram[:room] = self.tally.histogram
            self.tally = self.tally._replace(histogram=histogram)
