# amaranth: UnusedElaboratable=no
# (a chip that raises an error, and shared modules, are not elaborated)
"""A mixed chip: a mesh with NPU cores, spiking cores and host ports at its nodes.

Ports
    ``begin``   In, strobe   all NPU cores run this number of frames; flits of kind 7 start single
    cores
    ``firsts``  In           for each NPU core, in order, the first instruction of the frames that
    `begin` starts
    ``active``  Out          one bit per NPU core, in order: frames are in progress
    ``hosts``   one per host port, in order: ``i``, a stream of flits that enter there, and ``o``,
    of flits for the host
    ``tick``, ``done``   for spiking cores, as in `hw.chip.ChipDesign`; missing without them

Timing
    The first fetch of a frame is `STARTING` cycles after `begin`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.barrier import Barrier
from hw.core.core import Core
from hw.core.shape import CoreShape
from hw.errors import HwError
from hw.noc.mesh import Mesh
from hw.noc.packet import coordinate_bits
from hw.noc.router import PORTS
from hw.npu.core import NpuCore
from hw.npu.flit import COUNT_BITS, Kind, NpuFlit
from hw.npu.memories.memories import Contents
from hw.npu.node import Node
from hw.npu.shape import NpuShape
from hw.strobe import strobe

if TYPE_CHECKING:
    from hw.tables import CoreTables

Place = tuple[int, int]
"""Column and row of a node."""
STARTING = 3


class ChipParts(NamedTuple):
    """Parts of a chip by place.

    npus : initial memory contents of NPU cores
    hosts : nodes with a host port
    ports : host port that an NPU core requests weights from; default: the first one
    cores : tables of spiking cores; None for empty ones
    core_shape : shape of spiking cores; its coordinate widths are replaced by the mesh's
    """

    npus: Mapping[Place, Contents]
    hosts: Sequence[Place] = ((0, 0),)
    ports: Mapping[Place, Place] = {}
    cores: Mapping[Place, CoreTables | None] = {}
    core_shape: CoreShape = CoreShape()


class MixedChip(wiring.Component):
    """Chip of width x height nodes; raises `HwError` for parts outside and unsupported shapes."""

    def __init__(
        self, width: int, height: int, shape: NpuShape, parts: ChipParts, depth: int = 4
    ) -> None:
        self.shape, self.parts = shape, parts
        x_bits, y_bits = coordinate_bits(width), coordinate_bits(height)
        self.layout = NpuFlit(shape, x_bits, y_bits)
        self.mesh = Mesh(width, height, depth=depth, layout=self.layout)
        self._require_inside()
        core_shape = replace(parts.core_shape, x_bits=x_bits, y_bits=y_bits)
        if parts.cores and core_shape.axon_bits > shape.payload_bits:
            raise HwError(
                f"chip: axons have {core_shape.axon_bits} bits; a flit has {shape.payload_bits}"
            )
        self.npus = {
            place: NpuCore(shape, contents, self.layout) for place, contents in parts.npus.items()
        }
        self.cores = {place: Core(core_shape, tables) for place, tables in parts.cores.items()}
        flits = stream.Signature(self.layout)
        members: dict[str, Any] = {
            "begin": In(strobe(COUNT_BITS)),
            "firsts": In(COUNT_BITS).array(len(self.npus)),
            "active": Out(len(self.npus)),
            "hosts": Out(wiring.Signature({"i": In(flits), "o": Out(flits)})).array(
                len(parts.hosts)
            ),
        }
        if self.cores:
            members |= {"tick": In(1), "done": Out(1)}
        super().__init__(members)

    def _require_inside(self) -> None:
        parts, mesh = self.parts, self.mesh
        width, height = mesh.width, mesh.height
        for what, places in (
            ("NPU core", parts.npus), ("host port", parts.hosts), ("spiking core", parts.cores),
            ("host port", parts.ports.values()),
        ):  # fmt: skip
            for x, y in places:
                if not (0 <= x < width and 0 <= y < height):
                    raise HwError(f"chip: {what} ({x}, {y}) is outside the {width}x{height} mesh")
        if len(set(parts.hosts)) < len(parts.hosts):
            raise HwError("chip: two host ports share a node; give each its own node")
        for (x, y), port in parts.ports.items():
            if port not in parts.hosts:
                raise HwError(f"chip: core ({x}, {y}) uses host port {port}, which does not exist")

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        me: Any = self
        parts = self.parts
        m.submodules.mesh = mesh = self.mesh
        first = parts.hosts[0] if parts.hosts else (0, 0)
        self.nodes: list[Node] = []
        for number in range(mesh.nodes):
            y, x = divmod(number, mesh.width)
            place = x, y
            node = Node(
                self.layout, self.npus.get(place), self.cores.get(place), place in parts.hosts
            )
            self.nodes.append(node)
            m.submodules[f"node_{x}_{y}"] = node
            n: Any = node
            port = parts.ports.get(place, first)
            m.d.comb += [
                n.here.x.eq(x), n.here.y.eq(y), n.port.x.eq(port[0]), n.port.y.eq(port[1]),
            ]  # fmt: skip
            wiring.connect(m, mesh.local_out[number], n.incoming)
            wiring.connect(m, n.outgoing, mesh.local_in[number])
            if place in self.npus:
                at = list(self.npus).index(place)
                m.d.comb += [
                    n.begin.valid.eq(me.begin.valid),
                    n.begin.payload.count.eq(me.begin.payload),
                    n.begin.payload.first.eq(me.firsts[at]),
                    me.active[at].eq(n.active),
                ]  # fmt: skip
            if place in parts.hosts:
                host = me.hosts[list(parts.hosts).index(place)]
                wiring.connect(m, wiring.flipped(host.i), n.from_host)
                wiring.connect(m, n.to_host, wiring.flipped(host.o))
        if self.cores:
            self._tick(m)
        return m

    def _tick(self, m: Module) -> None:
        """Connect the ticks of the spiking cores: a tick ends when no spike is in the mesh."""
        me: Any = self
        mesh = self.mesh
        m.submodules.barrier = barrier = Barrier(mesh.nodes, mesh.nodes * len(PORTS) * mesh.depth)
        told = (
            host.i.valid & host.i.ready & (host.i.payload.kind == Kind.SPIKE) for host in me.hosts
        )
        m.d.comb += [
            me.done.eq(barrier.quiet),
            barrier.begins.eq(reduce(or_, told, me.tick & me.done)),
        ]
        for counted, ports in ((barrier.sent, mesh.local_in), (barrier.received, mesh.local_out)):
            for number, port in enumerate(ports):
                packet: Any = port.payload
                m.d.comb += counted[number].eq(
                    port.valid & port.ready & (packet.kind == Kind.SPIKE)
                )
        for x, y in self.cores:
            node: Any = self.nodes[y * mesh.width + x]
            m.d.comb += [
                node.tick.eq(me.tick & me.done), barrier.busy[y * mesh.width + x].eq(node.busy),
            ]  # fmt: skip
