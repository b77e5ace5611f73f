"""Size of a core: depths of its memories and widths of its numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hw.errors import HwError, check_count

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
                power = 1 << depth.bit_length()
                raise HwError(f"core: {name} is {depth}; give a power of two, such as {power}")
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
