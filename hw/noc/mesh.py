"""Mesh of width x height routers, each with a local port for a core.

Ports
    ``local_in``   In, stream, one per node    packets from the cores
    ``local_out``  Out, stream, one per node   packets to the cores

    ``<side>_in``, ``<side>_out``   In, Out, stream, one per router of that border, for each open
    side: links to the outside, such as another mesh
    ``column``, ``row``   In       place of router 0 in the whole machine, constant after reset;
    only with an open side, default 0, 0

    Node = y * width + x; x counts columns to the east, y rows to the south. The destination of
    every packet must be in the mesh: the sender has to reject others (an assertion at the border of
    the mesh catches them at the latest).

Timing
    A packet accepted in cycle t by an empty mesh is offered at its destination in cycle t + 1 + H,
    where H is the number of hops, |x' - x| + |y' - y|: t_fixed = 1, t_hop = 1. Packets between two
    nodes stay in order. No packet is lost as long as every core eventually accepts its packets; a
    core that accepts none blocks the routers on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Assert, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.errors import HwError, check_count
from hw.flow.sharing import SharedModules
from hw.noc.buffer import check_depth
from hw.noc.packet import Flit, Packet, coordinate_bits, packet_layout
from hw.noc.router import EAST, NORTH, PORTS, SOUTH, WEST, Router

MAX_SIDE = 256
MAX_ELABORATED = 256
"""Routers that are elaborated one by one; at about six per second these take 40 seconds."""
MAX_SHARED = 2048
"""Routers that are instances of one module; at about thirty per second these take 70 seconds."""
MAX_PORT_BITS = (1 << 16) - 1
"""Maximum input bits of a module that Amaranth converts."""

SIDES = tuple(PORTS[port] for port in (NORTH, EAST, SOUTH, WEST))
"""Borders of a mesh."""
NEIGHBOURS = {NORTH: (0, -1), EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0)}
OPPOSITE = {NORTH: SOUTH, EAST: WEST, SOUTH: NORTH, WEST: EAST}


def mesh_layout(width: int, height: int, axon_bits: int) -> Packet:
    """Return the packet layout of a mesh; raise `HwError` unless its sides are 1 to 256."""
    columns = check_count("mesh: width", width, 1, MAX_SIDE)
    rows = check_count("mesh: height", height, 1, MAX_SIDE)
    return packet_layout(coordinate_bits(columns), coordinate_bits(rows), axon_bits)


def check_size(width: int, height: int, shared: bool) -> None:
    """Raise `HwError` if the elaboration of a mesh would take more than about 40 seconds.

    shared : True if the routers are instances of one module
    """
    most = MAX_SHARED if shared else MAX_ELABORATED
    if width * height > most:
        raise HwError(
            f"mesh: {width}x{height} would take too long; "
            f"{'export' if shared else 'simulate'} at most {most} routers"
        )


def check_sides(where: str, sides: Sequence[str]) -> tuple[str, ...]:
    """Return the sides in the order of `SIDES`; raise `HwError` for an unknown side."""
    for side in sides:
        if side not in SIDES:
            raise HwError(f"{where}: unknown side {side!r}; sides are {', '.join(SIDES)}")
    return tuple(side for side in SIDES if side in sides)


def border_members(
    layout: Flit, sides: Sequence[str], width: int, height: int
) -> dict[str, wiring.Member]:
    """Return the ports of the open sides, and of the place of router 0 if any side is open."""
    members: dict[str, wiring.Member] = {}
    if sides:
        members |= {"column": In(layout.x_bits), "row": In(layout.y_bits)}
    packets = stream.Signature(layout)
    for side in sides:
        count = width if side in ("north", "south") else height
        members |= {
            f"{side}_in": In(packets).array(count), f"{side}_out": Out(packets).array(count)
        }  # fmt: skip
    return members


class Mesh(wiring.Component):
    """Mesh of width x height routers (sides 1 to 256) with buffers of ``depth`` packets.

    axon_bits : width of the axon index in a packet
    open_sides : sides of `SIDES` whose links are ports
    layout : layout of flits other than spikes; its coordinates must fit the mesh
    router : function of the layout and the depth that returns a router

    `layout` is the `hw.noc.packet.Flit` of all streams. Raises `HwError` for other sizes;
    elaboration raises it above 256 routers for simulation, above 2,048 for export.
    """

    def __init__(
        self, width: int, height: int, axon_bits: int = 10, depth: int = 4, *,
        open_sides: Sequence[str] = (), layout: Flit | None = None, router: Any = Router,
    ) -> None:  # fmt: skip
        spikes = mesh_layout(width, height, axon_bits)
        self.layout: Any = spikes if layout is None else layout
        if self.layout.x_bits < spikes.x_bits or self.layout.y_bits < spikes.y_bits:
            raise HwError(
                f"mesh: {width}x{height} needs {spikes.x_bits} and {spikes.y_bits} bits of x and "
                f"y; the layout has {self.layout.x_bits} and {self.layout.y_bits}"
            )
        self.width, self.height = width, height
        self.depth = check_depth("mesh", depth)
        self.make_router = router
        self.open_sides = check_sides("mesh", open_sides)
        packets = stream.Signature(self.layout)
        members: dict[str, Any] = {
            "local_in": In(packets).array(self.nodes),
            "local_out": Out(packets).array(self.nodes),
        }
        members |= border_members(self.layout, self.open_sides, width, height)
        super().__init__(members)

    @property
    def nodes(self) -> int:
        """Number of routers."""
        return self.width * self.height

    def elaborate(self, platform: Any) -> Module:
        check_size(self.width, self.height, isinstance(platform, SharedModules))
        bits = self.nodes * (self.layout.size + 2)  # payload and valid, and ready of the output
        is_top = isinstance(platform, SharedModules) and platform.definition is self
        if is_top and bits > MAX_PORT_BITS:
            raise HwError(
                f"mesh: its local ports have {bits} input bits, more than {MAX_PORT_BITS}; "
                "export the chip with its cores, or a mesh with fewer routers or axon bits"
            )
        m = Module()
        me: Any = self
        routers = [self.make_router(self.layout, self.depth) for _ in range(self.nodes)]
        for node, router in enumerate(routers):
            y, x = divmod(node, self.width)
            m.submodules[f"router_{x}_{y}"] = router
            if self.open_sides:
                m.d.comb += [router.x.eq(me.column + x), router.y.eq(me.row + y)]
            else:
                m.d.comb += [router.x.eq(x), router.y.eq(y)]
            wiring.connect(m, wiring.flipped(self.local_in[node]), router.local_in)
            wiring.connect(m, router.local_out, wiring.flipped(self.local_out[node]))
            for port, (dx, dy) in NEIGHBOURS.items():
                if 0 <= x + dx < self.width and 0 <= y + dy < self.height:
                    neighbour = routers[node + dy * self.width + dx]
                    wiring.connect(m, router.outputs[port], neighbour.inputs[OPPOSITE[port]])
                elif (side := PORTS[port]) in self.open_sides:
                    at = x if dy else y
                    wiring.connect(
                        m, router.outputs[port], wiring.flipped(getattr(self, f"{side}_out")[at])
                    )
                    wiring.connect(
                        m, wiring.flipped(getattr(self, f"{side}_in")[at]), router.inputs[port]
                    )
                else:  # inputs are never valid, outputs never ready
                    m.d.sync += Assert(
                        ~router.outputs[port].valid,
                        f"mesh: router {x},{y} sends {PORTS[port]}, out of the mesh",
                    )
        return m
