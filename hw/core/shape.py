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
    "profiles": (2, 1 << 10),
    "delay_slots": (2, 64),
    "state_bits": (2, 32),
    "decay_bits": (1, 16),
    "weight_bits": (2, 32),
    "sum_bits": (2, 48),
    "shift_bits": (1, 5),
    "refractory_bits": (1, 16),
    "x_bits": (1, 16),
    "y_bits": (1, 16),
}
_DEPTHS = ("neurons", "axons", "routes", "synapses", "profiles", "delay_slots")


class DestinationTable(IntEnum):
    """Destination table of a word that is loaded into a core; see docs/core.md."""

    USED = 0
    NEURONS = 1
    STATES = 2
    FANOUTS = 3
    ROUTES = 4
    AXONS = 5
    SYNAPSES = 6
    PROFILES = 7
    SUMS = 8


@dataclass(frozen=True, slots=True)
class CoreShape:
    """Depths and widths of a core; raises `HwError` for unsupported values.

    neurons : neurons per core
    axons : axons per core, each with a list of synapses
    routes : total number of (neuron, destination core) pairs
    synapses : words of synapse lists; axons with equal lists share one
    profiles : sets of dynamics (decays, shift, reset mode, refractory ticks), shared by neurons
    delay_slots : sums per neuron; a synapse has a delay of up to `delay_slots` - 2 ticks
    state_bits : bits of a current, potential, threshold, reset value, and bias (signed)
    decay_bits : fraction bits of a decay factor
    weight_bits : bits of a synapse's weight (signed)
    sum_bits : bits of the sum of all weights that reach a neuron in a tick (signed)
    shift_bits : bits of the left shift of a sum
    refractory_bits : bits of the number of ticks for which a neuron stays at its reset value
    x_bits, y_bits : bits of the destination of a packet

    Depths are powers of two, so every address that a packet can hold is in the memory.
    """

    neurons: int = 256
    axons: int = 1024
    routes: int = 2048
    synapses: int = 8192
    profiles: int = 64
    delay_slots: int = 2
    state_bits: int = 24
    decay_bits: int = 12
    weight_bits: int = 8
    sum_bits: int = 16
    shift_bits: int = 4
    refractory_bits: int = 6
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
    def longest_delay(self) -> int:
        """Ticks by which a synapse may be later than one without a delay."""
        return self.delay_slots - 2

    @property
    def unity(self) -> int:
        """The decay factor that leaves a value unchanged."""
        return 1 << self.decay_bits

    @property
    def neuron_bits(self) -> int:
        return exact_log2(self.neurons)

    @property
    def slot_bits(self) -> int:
        return exact_log2(self.delay_slots)

    @property
    def axon_bits(self) -> int:
        return exact_log2(self.axons)

    @property
    def packet(self) -> Packet:
        return packet_layout(self.x_bits, self.y_bits, self.axon_bits)

    @property
    def state(self) -> Shape:
        return signed(self.state_bits)

    @property
    def sum(self) -> Shape:
        return signed(self.sum_bits)

    @property
    def neuron(self) -> data.StructLayout:
        """A word of the neuron memory: the profile and the own parameters of a neuron."""
        return data.StructLayout(
            {
                "profile": exact_log2(self.profiles),
                "threshold": self.state,
                "reset": self.state,
                "current_bias": self.state,
                "potential_bias": self.state,
            }
        )

    @property
    def profile(self) -> data.StructLayout:
        """A word of the profile memory: dynamics that neurons share."""
        return data.StructLayout(
            {
                "current_decay": unsigned(self.decay_bits + 1),
                "potential_decay": unsigned(self.decay_bits + 1),
                "shift": unsigned(self.shift_bits),
                "refractory": unsigned(self.refractory_bits),
                "subtract": unsigned(1),
                "silent": unsigned(1),
            }
        )

    @property
    def neuron_state(self) -> data.StructLayout:
        """A word of the state memory."""
        return data.StructLayout(
            {"current": self.state, "potential": self.state, "waits": self.refractory_bits}
        )

    @property
    def fanout(self) -> data.StructLayout:
        """A word of the fan-out memory: start and number of a neuron's routes."""
        return data.StructLayout(_list_fields(self.routes))

    @property
    def axon(self) -> data.StructLayout:
        """A word of the axon memory: the list of an axon, and the base added to its neurons."""
        return data.StructLayout({**_list_fields(self.synapses), "base": self.neuron_bits})

    @property
    def synapse(self) -> data.StructLayout:
        """A word of the synapse memory: target less the base of the axon, weight, and delay."""
        return data.StructLayout(
            {
                "neuron": self.neuron_bits,
                "weight": signed(self.weight_bits),
                "delay": self.slot_bits,
            }
        )

    def sum_addresses(self, used: int) -> list[int]:
        """Return the addresses of all sums of a core's first `used` neurons."""
        return [s * self.neurons + n for s in range(self.delay_slots) for n in range(used)]

    @property
    def memories(self) -> dict[DestinationTable, tuple[data.StructLayout | Shape, int]]:
        """Word shape and number of words of every memory that can be loaded."""
        return {
            DestinationTable.NEURONS: (self.neuron, self.neurons),
            DestinationTable.STATES: (self.neuron_state, self.neurons),
            DestinationTable.FANOUTS: (self.fanout, self.neurons),
            DestinationTable.ROUTES: (self.packet, self.routes),
            DestinationTable.AXONS: (self.axon, self.axons),
            DestinationTable.SYNAPSES: (self.synapse, self.synapses),
            DestinationTable.PROFILES: (self.profile, self.profiles),
            DestinationTable.SUMS: (self.sum, self.delay_slots * self.neurons),
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


DEEPEST = CoreShape(
    **{name: _LIMITS[name][1] for name in ("neurons", "axons", "routes", "synapses")}
)
"""The largest memories: for runs without hardware, where every network must fit."""


def _list_fields(entries: int) -> dict[str, int]:
    """Return the fields of a list: first entry and count in a memory of `entries`."""
    return {"first": exact_log2(entries), "count": exact_log2(entries) + 1}
