"""Size of a core: depths of its memories and widths of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2, exact_log2

from hw.errors import HwError, check_count
from hw.noc.packet import Packet, packet_layout

_LIMITS = {  # minimum and maximum of every field of CoreShape
    "neurons": (2, 1 << 20),
    "axons": (2, 1 << 20),
    "routes": (2, 1 << 24),
    "synapses": (2, 1 << 24),
    "potential_bits": (2, 32),
    "weight_bits": (2, 32),
    "sum_bits": (2, 48),
    "leak_bits": (1, 5),
    "x_bits": (1, 16),
    "y_bits": (1, 16),
}
_DEPTHS = ("neurons", "axons", "routes", "synapses")


class DestinationTable(IntEnum):
    """Destination table of a word that is loaded into a core; see docs/core.md."""

    USED = 0
    NEURONS = 1
    POTENTIALS = 2
    FANOUTS = 3
    ROUTES = 4
    AXONS = 5
    SYNAPSES = 6


@dataclass(frozen=True, slots=True)
class CoreShape:
    """Depths and widths of a core; raises `HwError` for unsupported values.

    neurons : neurons per core
    axons : axons per core, each with a list of synapses
    routes : total number of (neuron, destination core) pairs
    synapses : total number of synapses
    potential_bits : bits of a potential, a threshold, and a bias (signed)
    weight_bits : bits of a synapse's weight (signed)
    sum_bits : bits of the sum of all weights that reach a neuron in a tick (signed)
    leak_bits : bits of a neuron's leak
    x_bits, y_bits : bits of the destination of a packet

    Depths are powers of two, so every address that a packet can hold is in the memory.
    """

    neurons: int = 256
    axons: int = 1024
    routes: int = 2048
    synapses: int = 8192
    potential_bits: int = 16
    weight_bits: int = 8
    sum_bits: int = 16
    leak_bits: int = 4
    x_bits: int = 4
    y_bits: int = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            least, most = _LIMITS[field.name]
            check_count(f"core: {field.name}", getattr(self, field.name), least, most)
        for name in _DEPTHS:
            depth = getattr(self, name)
            if depth & (depth - 1):
                raise HwError(
                    f"core: {name} is {depth}; give a power of two, such as {1 << ceil_log2(depth)}"
                )
        if self.sum_bits < self.weight_bits:
            raise HwError(
                f"core: sum_bits is {self.sum_bits}; sums of {self.weight_bits}-bit weights need "
                f"{self.weight_bits} or more"
            )

    @property
    def neuron_bits(self) -> int:
        return exact_log2(self.neurons)

    @property
    def axon_bits(self) -> int:
        return exact_log2(self.axons)

    @property
    def no_leak(self) -> int:
        """The leak value that leaves a potential unchanged."""
        return (1 << self.leak_bits) - 1

    @property
    def packet(self) -> Packet:
        return packet_layout(self.x_bits, self.y_bits, self.axon_bits)

    @property
    def potential(self) -> Shape:
        return signed(self.potential_bits)

    @property
    def sum(self) -> Shape:
        return signed(self.sum_bits)

    @property
    def neuron(self) -> data.StructLayout:
        """A word of the neuron memory: the parameters of a neuron."""
        return data.StructLayout(
            {
                "threshold": self.potential,
                "bias": self.potential,
                "leak": unsigned(self.leak_bits),
                "subtract": unsigned(1),
            }
        )

    @property
    def fanout(self) -> data.StructLayout:
        """A word of the fan-out memory: start and number of a neuron's routes."""
        return _list_layout(self.routes)

    @property
    def axon(self) -> data.StructLayout:
        """A word of the axon memory: start and number of an axon's synapses."""
        return _list_layout(self.synapses)

    @property
    def synapse(self) -> data.StructLayout:
        """A word of the synapse memory."""
        return data.StructLayout({"neuron": self.neuron_bits, "weight": signed(self.weight_bits)})

    @property
    def memories(self) -> dict[DestinationTable, tuple[data.StructLayout | Shape, int]]:
        """Word shape and number of words of every memory that can be loaded."""
        return {
            DestinationTable.NEURONS: (self.neuron, self.neurons),
            DestinationTable.POTENTIALS: (self.potential, self.neurons),
            DestinationTable.FANOUTS: (self.fanout, self.neurons),
            DestinationTable.ROUTES: (self.packet, self.routes),
            DestinationTable.AXONS: (self.axon, self.axons),
            DestinationTable.SYNAPSES: (self.synapse, self.synapses),
        }

    @property
    def load(self) -> data.StructLayout:
        """A word on the load port: table, row, and data."""
        memories = self.memories.values()
        return data.StructLayout(
            {
                "table": DestinationTable,
                "address": max(exact_log2(depth) for _, depth in memories),
                "data": max(
                    self.neuron_bits + 1, *(Shape.cast(word).width for word, _ in memories)
                ),
            }
        )


DEEPEST = CoreShape(**{name: _LIMITS[name][1] for name in _DEPTHS})
"""The largest memories: for runs without hardware, where every network must fit."""


def _list_layout(entries: int) -> data.StructLayout:
    """Return the layout of a list: first entry and count in a memory of `entries`."""
    return data.StructLayout({"first": exact_log2(entries), "count": exact_log2(entries) + 1})
