"""The mesh of a simulation, its state at reset, and how long the kernel may stay away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.noc.kernel import CYCLE, NEVER, SCALARS, _advance, _start
from chipsim.noc.moves import EAST, NORTH, SOUTH, WEST, WHEEL, leads
from chipsim.noc.state import Feed, Layout, Routers, Sources, Tally, Times, Wires
from chipsim.protocols import Int64Array

DEPTH = 4
"""Flits in the FIFO of an input, unless said otherwise."""
MAX_SLOTS = 1 << 28
"""Flits that all FIFOs together may hold: 3 GiB."""
CHUNK = 1 << 12
"""Cycles between two looks at the outside: Ctrl-C, progress."""

ByteMask = np.ndarray[tuple[int], np.dtype[np.int8]]

Advance = Callable[[int], None]
"""Is called with the cycle that has been reached."""


@dataclass(frozen=True, slots=True)
class Mesh:
    """``width`` x ``height`` routers, each of whose five inputs holds ``depth`` flits.

    Node = y * width + x, x to the east, y to the south.

    Raises
    ------
    ChipError
        If a value is out of range; the message names it.
    """

    width: int
    height: int
    depth: int = DEPTH

    def __post_init__(self) -> None:
        for name in ("width", "height", "depth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ChipError(f"mesh: {name} is {value!r}; give a whole number, 1 or more")
            object.__setattr__(self, name, int(value))
        if 5 * self.nodes * self.depth > MAX_SLOTS:
            raise ChipError(
                f"mesh: FIFOs of {self.depth} flits in {self.width}x{self.height} routers are more "
                f"than {MAX_SLOTS} flits; try at most {MAX_SLOTS // (5 * self.nodes)} a FIFO"
            )

    @classmethod
    def of(cls, chip: Chip, depth: int = DEPTH) -> Mesh:
        """The mesh of a chip, or of a machine of chips whose links are all alike.

        Raises `ChipError` for what the simulator does not model: routers that cores share, the ring
        of a torus, which may wait for itself for ever, and links that pass less than a flit in a
        cycle.
        """
        machine = chip.machine
        if machine is not None:
            parts = [part for part in (machine.chip, machine.board) if part is not None]
            lacks = {
                "tiles": machine.tile_size != (1, 1),
                "a torus": bool(machine.torus),
                "links of less bandwidth": any(part.bandwidth < 1 for part in parts),
            }
            if found := [name for name, lack in lacks.items() if lack]:
                raise ChipError(
                    f"chip {chip.name}: has {' and '.join(found)}, which the simulator of the mesh "
                    "does not model; report.json has loads, costs and crossings without simulation"
                )
        return cls(chip.width, chip.height, depth)

    @property
    def nodes(self) -> int:
        """Number of routers."""
        return self.width * self.height

    @property
    def node_bits(self) -> int:
        """Bits of the largest node."""
        return (self.nodes - 1).bit_length()


def new_tally(nodes: int, packets: int = 0) -> Tally:
    """Nothing counted yet; of a list of packets, none delivered."""
    return Tally(
        passed=np.zeros(5 * nodes, dtype=np.int64),
        offered=np.zeros(nodes, dtype=np.int64),
        entered=np.zeros(nodes, dtype=np.int64),
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
        flits=np.zeros(5 * nodes * mesh.depth, dtype=np.int64),
        request=np.zeros(nodes, dtype=np.int32),
        pointer=np.zeros(5 * nodes, dtype=np.int8),
        active=np.zeros(nodes, dtype=np.int32),
        listed=np.zeros(nodes, dtype=np.bool_),
        moves=np.zeros(5 * nodes, dtype=np.int64),
        wires=no_wires(),
        trees=np.zeros(0, dtype=np.int8) if trees is None else trees,
        ahead=leads(mesh.width),
    )


def no_wires() -> Wires:
    """Links that are all alike."""
    whole, narrow = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    real = np.zeros(0)
    return Wires(whole, real, real, narrow, whole, narrow, narrow)


def link_flits(mesh: Mesh, passed: Int64Array) -> Int64Array:
    """Flits on each link, shape (4, height, width), in the form of `chipsim.traffic.links`.

    passed : shape (5 * nodes,), flits through output o of node v at 5 * v + o
    """
    outputs = passed.reshape(mesh.height, mesh.width, 5)
    return np.stack([outputs[:, :, port] for port in (EAST, WEST, SOUTH, NORTH)])


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
        nodes = mesh.nodes
        self.routers = new_routers(mesh)
        self.sources = Sources(
            time=np.full(nodes, NEVER, dtype=np.int64),
            flit=np.zeros(nodes, dtype=np.int64),
            pending=np.zeros(nodes, dtype=np.int32),
            entering=np.zeros(nodes, dtype=np.int32),
            bucket=np.full(WHEEL, -1, dtype=np.int32),
            after=np.full(nodes, -1, dtype=np.int32),
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
