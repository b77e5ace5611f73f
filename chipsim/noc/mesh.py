"""The mesh of a simulation, its state at reset, and how long the kernel may stay away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.noc.kernel import CYCLE, NEVER, SCALARS, _advance, _start
from chipsim.noc.moves import EAST, NORTH, SOUTH, WEST, WHEEL, leads
from chipsim.noc.state import Feed, Layout, Routers, Sources, Tally, Tiles, Times, Wires
from chipsim.noc.tiles import NOBODY
from chipsim.protocols import FloatArray, Int64Array
from chipsim.traffic.machines import link_times

OUTPUTS = (EAST, WEST, SOUTH, NORTH)
"""In the order of `chipsim.traffic.links.DIRECTIONS`."""
DEPTH = 4
"""Flits in the FIFO of an input, unless said otherwise."""
MAX_SLOTS = 1 << 28
"""Flits that all FIFOs together may hold: 3 GiB."""
CHUNK = 1 << 12
"""Cycles between two looks at the outside: Ctrl-C, progress."""

ByteMask = np.ndarray[tuple[int], np.dtype[np.int8]]

Advance = Callable[[int], None]
"""Is called with the cycle that has been reached."""


class Links(NamedTuple):
    """What flits take on links, shape (4, height, width), in the form of `chipsim.traffic.links`.

    latency : int64, cycles from leaving until it can be at the head of the next buffer, at least 1
    cycles : float64, for which a flit has the link to itself, at least 1
    """

    latency: Int64Array
    cycles: FloatArray

    @property
    def held(self) -> Int64Array:
        """Flits that are on the way at once, without the one that the buffer has room for."""
        held: Int64Array = (np.ceil(self.latency / self.cycles) - 1).astype(np.int64)
        return held


@dataclass(frozen=True, slots=True)
class Mesh:
    """``width`` x ``height`` routers, each of whose five inputs holds ``depth`` flits.

    Node = y * width + x, x to the east, y to the south. Links of their own hold the flits that are
    on their way, so that inputs behind them hold more. ``tile`` is how many columns and rows of
    cores share each router; cores are numbered like nodes, over the whole mesh.

    Raises
    ------
    ChipError
        If a value is out of range; the message names it.
    """

    width: int
    height: int
    depth: int = DEPTH
    links: Links | None = field(default=None, compare=False, repr=False)
    tile: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        for name in ("width", "height", "depth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ChipError(f"mesh: {name} is {value!r}; give a whole number, 1 or more")
            object.__setattr__(self, name, int(value))
        if self.links is not None and self.links.latency.max() >= WHEEL:
            raise ChipError(
                f"mesh: a flit takes {int(self.links.latency.max())} cycles on a link; the "
                f"simulator has up to {WHEEL - 1}: give links more bandwidth or less latency"
            )
        if 5 * self.nodes * self.places > MAX_SLOTS:
            raise ChipError(
                f"mesh: FIFOs of {self.depth} flits in {self.width}x{self.height} routers are more "
                f"than {MAX_SLOTS} flits; try at most {MAX_SLOTS // (5 * self.nodes)} a FIFO"
            )

    @classmethod
    def of(cls, chip: Chip, depth: int = DEPTH) -> Mesh:
        """The mesh of a chip, or of a machine of chips, with the latency and width of each link.

        Raises `ChipError` for what the simulator does not model: the ring of a torus, which may
        wait for itself for ever.
        """
        machine = chip.machine
        if machine is not None and machine.torus:
            raise ChipError(
                f"chip {chip.name}: has a torus, which the simulator of the mesh "
                "does not model; report.json has loads, costs and crossings without simulation"
            )
        ways, cycles = link_times(chip)
        alike = bool((ways == 1).all() and (cycles == 1).all())
        tile = (1, 1) if machine is None else machine.tile_size
        return cls(*chip.routers, depth, None if alike else Links(ways, cycles), tile)

    @property
    def nodes(self) -> int:
        """Number of routers."""
        return self.width * self.height

    @property
    def shared(self) -> bool:
        """Whether routers have several cores."""
        return self.tile != (1, 1)

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
        """Flits that the deepest FIFO holds, with those on its link."""
        return self.depth + (0 if self.links is None else int(self.links.held.max()))

    @property
    def node_bits(self) -> int:
        """Bits of the largest node."""
        return (self.nodes - 1).bit_length()


def new_tally(mesh: Mesh, packets: int = 0) -> Tally:
    """Nothing counted yet; of a list of packets, none delivered."""
    return Tally(
        passed=np.zeros(5 * mesh.nodes, dtype=np.int64),
        offered=np.zeros(mesh.cores, dtype=np.int64),
        entered=np.zeros(mesh.cores, dtype=np.int64),
        histogram=np.zeros(0, dtype=np.int64),
        delivered=np.full(packets, -1, dtype=np.int64),
    )


def new_routers(mesh: Mesh, trees: ByteMask | None = None) -> Routers:
    """All routers at reset; trees : as in `Routers`."""
    nodes = mesh.nodes
    return Routers(
        column=(np.arange(nodes) % mesh.width).astype(np.int32),
        level=np.zeros(5 * nodes, dtype=np.int32),
        first=np.zeros(5 * nodes, dtype=np.int32),
        flits=np.zeros(5 * nodes * mesh.places, dtype=np.int64),
        request=np.zeros(nodes, dtype=np.int32),
        pointer=np.zeros(5 * nodes, dtype=np.int8),
        active=np.zeros(nodes, dtype=np.int32),
        listed=np.zeros(nodes, dtype=np.bool_),
        moves=np.zeros(5 * nodes, dtype=np.int64),
        wires=_wires(mesh),
        trees=np.zeros(0, dtype=np.int8) if trees is None else trees,
        ahead=leads(mesh.width),
    )


def new_tiles(mesh: Mesh) -> Tiles:
    """The first core of every tile is the first to send."""
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
    """Idle links; empty arrays where all are alike."""
    if mesh.links is None:
        whole, narrow = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
        return Wires(whole, np.zeros(0), np.zeros(0), narrow, whole, narrow, narrow)
    latency = np.ones((mesh.nodes, 5), dtype=np.int64)
    cycles = np.ones((mesh.nodes, 5))
    room = np.full(5 * mesh.nodes, mesh.depth, dtype=np.int32)
    for direction, port in enumerate(OUTPUTS):
        latency[:, port] = mesh.links.latency[direction].ravel()
        cycles[:, port] = mesh.links.cycles[direction].ravel()
        into = 5 * np.arange(mesh.nodes) + leads(mesh.width)[port]
        inside = (into >= 0) & (into < room.size)  # the others would leave the mesh
        room[into[inside]] += mesh.links.held[direction].ravel()[inside].astype(np.int32)
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
    """Flits on each link, shape (4, height, width), in the form of `chipsim.traffic.links`.

    passed : shape (5 * nodes,), flits through output o of node v at 5 * v + o
    """
    outputs = passed.reshape(mesh.height, mesh.width, 5)
    return np.stack([outputs[:, :, port] for port in OUTPUTS])


class Run:
    """A simulation at work: the mesh at reset, then whatever `until` made of it.

    Parameters
    ----------
    mesh
    feed : where the packets come from; its state moves on with the run
    tally : what is counted
    window : cycles of creation, from the first up to and without the second, of the packets that
        are to be delivered; what is counted by cycle is counted in these cycles
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
        """The cycle that comes next."""
        return int(self.scalars[CYCLE])

    def until(self, cycle: int, earliest: int, advance: Advance | None = None) -> bool:
        """Run up to `cycle`, or from `earliest` on until all is delivered; returns whether it is.

        The kernel is left every few thousand cycles, so that Ctrl-C is heard.
        """
        layout = Layout(self.mesh.depth, self.mesh.node_bits)
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
        """For how long the packet at the front of each source queue has waited; 0 without one."""
        return np.maximum(0, self.cycle - self.sources.time)

    def _make_room(self, cycle: int) -> None:
        """No latency is larger than the cycles since the window began."""
        needed = max(0, cycle - self.window[0])
        room = len(self.tally.histogram)
        if len(self.feed.random) and needed > room:
            histogram = np.zeros(max(needed, 2 * room), dtype=np.int64)
            histogram[:room] = self.tally.histogram
            self.tally = self.tally._replace(histogram=histogram)
