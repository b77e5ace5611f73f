# amaranth: UnusedElaboratable=no
# (a chip that raises an error is never elaborated, and neither are its parts)
"""The chip: a mesh of routers, a core at each router, and the barrier that ends a tick.

Ports
    ``tick``   In           a tick starts in a cycle with `tick` and `done`
    ``done``   Out          the last tick has ended, and all packets of the host have arrived
    ``input``  In, stream   packets of the host; they enter the mesh at node 0
    ``load``   In, strobe   a word for a core's memories: `node`, and a word as in `Core.load`
    ``<side>_in``, ``<side>_out``, ``column``, ``row``   ports of open sides, as of the mesh
    ``output``  Out, stream   packets for the host; only on a chip that has this port

Timing
    A packet of the host counts in the next tick if it is accepted before the cycle in which that
    tick starts, and in the tick after the next if it is accepted in that cycle or later. While
    words are loaded, `done` must be 1, `tick` 0, and `input` not valid. Words and spikes are
    accepted one per cycle.

Adjacent chips
    Two chips are joined at their borders, output to input. Routers, packets and cycles are then the
    same as in one large chip. `done` is local to a chip: a tick ends when it is 1 on all chips in
    the same cycle, and `tick` is set on all chips in such a cycle. This is correct because a chip
    that receives a packet at its border is not done from the next cycle on, and the sending chip is
    not done before. Registers on a link must also be empty.

State
    The state of the mesh, the cores and the barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.barrier import Barrier
from hw.core.core import Core
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.noc.arbiter import Arbiter
from hw.noc.mesh import Mesh, border_members, check_sides
from hw.noc.packet import Flit, coordinate_bits
from hw.noc.router import PORTS
from hw.socket import CoreSocket
from hw.strobe import strobe
from hw.tables import ChipTables


class Borders(NamedTuple):
    """Ports of a chip other than its cores, and its place in a machine.

    sides : sides of `hw.noc.mesh.SIDES` whose links are ports, for other chips
    columns, rows : columns and rows of routers of the whole machine; 0 for the size of the chip
    output : True for a port for packets to the host. The host is addressed as column 0 of the row
        below the last one: packets are routed to their column, and then south
    """

    sides: Sequence[str] = ()
    columns: int = 0
    rows: int = 0
    output: bool = False

    @property
    def addressed(self) -> tuple[int, int]:
        """Columns and rows that packets can address, including the host."""
        return self.columns, self.rows + self.output


class ChipDesign(wiring.Component):
    """Chip of width x height cores; node = y * width + x.

    shape : shape of a core; its `x_bits` and `y_bits` are replaced by the mesh's
    depth : packets per input buffer of a router
    tables : contents of the memories after reset; by default zero
    borders : open sides, host output and size of the machine
    layout : layout of the packets, for cores of `make_core` that are not spiking cores
    make_core : function that returns the core of a node, with the ports of `hw.socket.CoreSocket`
        for the packets and the words of `shape`; by default spiking cores

    Raises `HwError` for unsupported sizes, and for tables of another chip.
    """

    tick: Signal
    done: Signal
    input: stream.Interface
    load: Any
    output: Any

    def __init__(
        self,
        width: int,
        height: int,
        shape: CoreShape | None = None,
        depth: int = 4,
        tables: ChipTables | None = None,
        make_core: Callable[[int], Any] | None = None,
        borders: Borders | None = None,
        layout: Flit | None = None,
    ) -> None:
        given = borders or Borders()
        columns, rows = given.columns or width, given.rows or height
        self.borders = borders = given._replace(columns=columns, rows=rows)
        sides = check_sides("chip", borders.sides)
        if columns < width or rows < height:
            raise HwError(
                f"chip: a machine of {columns}x{rows} cores is smaller than a {width}x{height} "
                "chip; give the columns and rows of all chips together"
            )
        if borders.output and "south" in sides:
            raise HwError("chip: packets for the host leave by the open south side; set "
                          "output to False")  # fmt: skip
        self.shape = chip_shape(*borders.addressed, shape or CoreShape())
        if layout is not None and make_core is None:
            raise HwError("chip: layout requires make_core; give both")
        self.packet = packet = layout or self.shape.packet
        if packet.x_bits < self.shape.x_bits or packet.y_bits < self.shape.y_bits:
            raise HwError(
                f"chip: {borders.columns}x{borders.rows} cores need {self.shape.x_bits} and "
                f"{self.shape.y_bits} bits of x and y; the layout has {packet.x_bits} and "
                f"{packet.y_bits}"
            )
        self.mesh = Mesh(
            width, height, depth=depth, layout=packet,
            open_sides=[*sides, "south"] if borders.output else sides,
        )  # fmt: skip
        if tables is not None:
            self.require_own(tables)
        if make_core is not None and tables is not None:
            raise HwError("chip: tables are for spiking cores; give tables or make_core, not both")
        make = make_core or (
            lambda node: Core(self.shape, None if tables is None else tables.cores[node])
        )
        self.cores = [make(node) for node in range(self.mesh.nodes)]
        socket = CoreSocket(packet, self.shape.load)
        for node, core in enumerate(self.cores):
            if core.signature.members != socket.members:
                raise HwError(
                    f"chip: the core of node {node} lacks the ports of hw.socket.CoreSocket for "
                    "the chip's packets and words"
                )
        packets = stream.Signature(packet)
        members: dict[str, Any] = {
            "tick": In(1),
            "done": Out(1),
            "input": In(packets),
            "load": In(strobe(self._load_layout())),
        }
        members |= border_members(packet, sides, width, height)
        if borders.output:
            members["output"] = Out(packets)
        self.sides = sides
        super().__init__(members)

    def require_own(self, tables: ChipTables) -> None:
        """Raise `HwError` if the tables were built for another chip."""
        size, own = (tables.width, tables.height), (self.mesh.width, self.mesh.height)
        if size != own:
            raise HwError(
                f"tables of a {size[0]}x{size[1]} chip for one of {own[0]}x{own[1]}; build them "
                "from a mapping onto this chip"
            )
        if tables.shape != self.shape:
            raise HwError("tables for cores of another shape; build them for the chip's shape")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mesh = mesh = self.mesh
        nodes = mesh.nodes
        comes, leaves = self._join_borders(m)
        m.submodules.barrier = barrier = Barrier(
            nodes + len(comes), nodes * len(PORTS) * mesh.depth
        )
        starts = Signal()
        loading: Any = self.load.payload
        m.d.comb += [
            self.done.eq(barrier.quiet),
            starts.eq(self.tick & self.done),
            barrier.begins.eq(starts | (self.input.valid & self.input.ready) | Cat(comes).any()),
            Cat(barrier.sent[nodes:]).eq(Cat(comes)),
            Cat(barrier.received[nodes:]).eq(Cat(leaves)),
        ]
        for node, core in enumerate(self.cores):
            m.submodules[f"core_{node % mesh.width}_{node // mesh.width}"] = core
            m.d.comb += [
                core.tick.eq(starts),
                core.load.payload.eq(loading.word),
                core.load.valid.eq(self.load.valid & (loading.node == node)),
                barrier.busy[node].eq(core.busy),
                barrier.sent[node].eq(mesh.local_in[node].valid & mesh.local_in[node].ready),
                barrier.received[node].eq(mesh.local_out[node].valid & mesh.local_out[node].ready),
            ]
            wiring.connect(m, mesh.local_out[node], core.incoming)
            if node:
                wiring.connect(m, core.outgoing, mesh.local_in[node])
        self._join(m, [self.cores[0].outgoing, self.input], mesh.local_in[0])
        sent: Any = self.input.payload
        m.d.sync += Assert(
            ~self.input.valid | ((sent.x < self.borders.columns) & (sent.y < self.borders.rows)),
            "chip: the host sends a packet to a core that does not exist",
        )
        return m

    def _join_borders(self, m: Module) -> tuple[list[Value], list[Value]]:
        """Connect the open sides to the mesh.

        Returns, for each link, whether a packet arrives and whether one leaves in this cycle.
        """
        mesh: Any = self.mesh
        links = []  # links of the mesh: in, out
        for side in self.sides:
            ways = getattr(mesh, f"{side}_in"), getattr(mesh, f"{side}_out")
            own = getattr(self, f"{side}_in"), getattr(self, f"{side}_out")
            for come, leave, come_here, leave_here in zip(*ways, *own, strict=True):
                wiring.connect(m, wiring.flipped(come_here), come)
                wiring.connect(m, leave, wiring.flipped(leave_here))
                links.append((come, leave))
        if self.sides:
            me: Any = self
            m.d.comb += [mesh.column.eq(me.column), mesh.row.eq(me.row)]
        if self.borders.output:
            wiring.connect(m, mesh.south_out[0], wiring.flipped(self.output))
            links.append((mesh.south_in[0], mesh.south_out[0]))
            m.d.sync += [
                Assert(~other.valid, "chip: a packet for the host leaves by another column")
                for other in list(mesh.south_out)[1:]
            ]
        return (
            [come.valid & come.ready for come, _ in links],
            [leave.valid & leave.ready for _, leave in links],
        )

    def _join(self, m: Module, sources: list[Any], sink: Any) -> None:
        """Merge two streams, alternating: neither waits for more than one packet of the other."""
        m.submodules.host_arbiter = join = Arbiter(len(sources))
        m.d.comb += [
            join.requests.eq(Cat(source.valid for source in sources)),
            join.ready.eq(sink.ready),
            sink.valid.eq(join.requests.any()),
            sink.payload.eq(Mux(join.grants[0], *(source.payload for source in sources))),
        ]
        for source, grant in zip(sources, join.grants, strict=True):
            m.d.comb += source.ready.eq(sink.ready & grant)

    def _load_layout(self) -> data.StructLayout:
        return data.StructLayout(
            {"node": coordinate_bits(self.mesh.nodes), "word": self.shape.load}
        )


def chip_shape(width: int, height: int, shape: CoreShape) -> CoreShape:
    """Return `shape` for the cores of a width x height chip, with the mesh's coordinate bits."""
    return replace(shape, x_bits=coordinate_bits(width), y_bits=coordinate_bits(height))
