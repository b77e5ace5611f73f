# amaranth: UnusedElaboratable=no
# (parts of a chip that is then refused are never elaborated)
"""The chip: a mesh of routers, a core at each, and the barrier that ends a tick.

Ports
    ``tick``   In           a tick starts in a cycle with `tick` and `done`
    ``done``   Out          the last tick has ended, and all packets of the host have arrived
    ``input``  In, stream   packets of the host; they enter the mesh at node 0
    ``load``   In, strobe   a word for a core's memories: `node`, and a word as `Core.load` takes it

Timing
    A packet of the host counts in the next tick if it is accepted before the cycle in which that
    tick starts, and in the one after next if it is accepted in that cycle or later. While words are
    loaded, `done` must be 1, `tick` 0, and `input` not valid. Words and spikes go one a cycle.

State
    That of the mesh, the cores and the barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hw.barrier import Barrier
from hw.core.core import Core
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.noc.arbiter import Arbiter
from hw.noc.mesh import Mesh
from hw.noc.packet import coordinate_bits
from hw.noc.router import PORTS
from hw.socket import CoreSocket
from hw.strobe import strobe
from hw.tables import ChipTables


class Chip(wiring.Component):
    """Chip of width x height cores; node = y * width + x.

    shape : of a core; its `x_bits` and `y_bits` become those of the mesh
    depth : packets in each buffer of a router
    tables : contents of the memories after reset; without them all are zero
    make_core : makes the core of a node, with the ports of `hw.socket.CoreSocket` for the packets
        and the words of `shape`; without it spiking cores

    Raises `HwError` for sizes of which no chip can be built, and for tables of another chip.
    """

    tick: Signal
    done: Signal
    input: stream.Interface
    load: Any

    def __init__(
        self,
        width: int,
        height: int,
        shape: CoreShape | None = None,
        depth: int = 4,
        tables: ChipTables | None = None,
        make_core: Callable[[int], Any] | None = None,
    ) -> None:
        self.shape = chip_shape(width, height, shape or CoreShape())
        self.mesh = Mesh(width, height, self.shape.axon_bits, depth)
        if tables is not None:
            self.require_own(tables)
        if make_core is not None and tables is not None:
            raise HwError("chip: tables are of spiking cores; leave them or make_core out")
        make = make_core or (
            lambda node: Core(self.shape, None if tables is None else tables.cores[node])
        )
        self.cores = [make(node) for node in range(self.mesh.nodes)]
        socket = CoreSocket(self.shape.packet, self.shape.load)
        for node, core in enumerate(self.cores):
            if core.signature.members != socket.members:
                raise HwError(
                    f"chip: the core of node {node} has other ports than hw.socket.CoreSocket of "
                    "the chip's packets and words"
                )
        super().__init__(
            {
                "tick": In(1),
                "done": Out(1),
                "input": In(stream.Signature(self.shape.packet)),
                "load": In(strobe(self._load_layout())),
            }
        )

    def require_own(self, tables: ChipTables) -> None:
        """Raises `HwError` if the tables were made for another chip."""
        size, own = (tables.width, tables.height), (self.mesh.width, self.mesh.height)
        if size != own:
            raise HwError(
                f"tables of a {size[0]}x{size[1]} chip for one of {own[0]}x{own[1]}; make them "
                "from a mapping onto this chip"
            )
        if tables.shape != self.shape:
            raise HwError("tables for cores of another shape; make them with the chip's own")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.mesh = mesh = self.mesh
        nodes = mesh.nodes
        m.submodules.barrier = barrier = Barrier(nodes, nodes * len(PORTS) * mesh.depth)
        starts = Signal()
        loading: Any = self.load.payload
        m.d.comb += [
            self.done.eq(barrier.quiet),
            starts.eq(self.tick & self.done),
            barrier.begins.eq(starts | (self.input.valid & self.input.ready)),
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
        packet: Any = self.input.payload
        m.d.sync += Assert(
            ~self.input.valid | ((packet.x < mesh.width) & (packet.y < mesh.height)),
            "chip: the host sends a packet to a core that does not exist",
        )
        return m

    def _join(self, m: Module, sources: list[Any], sink: Any) -> None:
        """Two streams into one, in turn: neither waits for more than one packet of the other."""
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
    """`shape` for the cores of a width x height chip: its packets have the mesh's coordinates."""
    return replace(shape, x_bits=coordinate_bits(width), y_bits=coordinate_bits(height))
