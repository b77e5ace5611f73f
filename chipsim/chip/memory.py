"""Bits of the memory of a core: of synapses, of the lists of their sources, and of neurons."""

from __future__ import annotations

from typing import Protocol

from chipsim.errors import ChipError
from chipsim.protocols import Int64Array

PARTS = ("weight_bits", "index_bits", "axon_bits", "neuron_bits")
"""Keys that require `memory_bits`."""
NO_MEMORY = {"memory_bits": None, "weight_bits": None} | dict.fromkeys(PARTS[1:], 0)
"""Values of the keys for a chip that does not count bits."""


class CountedMemory(Protocol):
    """The fields of `chipsim.chip.model.Chip` that describe the memory."""

    @property
    def name(self) -> str: ...
    @property
    def synapses(self) -> int | None: ...
    @property
    def sharing(self) -> str: ...
    @property
    def axons_in(self) -> int | None: ...
    @property
    def memory_bits(self) -> int | None: ...
    @property
    def weight_bits(self) -> int | None: ...
    @property
    def axon_bits(self) -> int: ...
    @property
    def neuron_bits(self) -> int: ...
    @property
    def synapse_bits(self) -> int: ...


def check_memory(chip: CountedMemory) -> None:
    """Raise `ChipError` if the bits of the memory and of its parts do not belong together."""
    where = f"chip {chip.name}"
    if chip.sharing == "offset" and chip.synapses is None and chip.memory_bits is None:
        raise ChipError(
            f"{where}: sharing is offset, but cores hold any number of synapses; add synapses, the "
            "words of synapse lists per core, or memory_bits"
        )
    if chip.memory_bits is None:
        for name in PARTS:
            if getattr(chip, name):
                raise ChipError(
                    f"{where}: {name} is {getattr(chip, name)}, but memory_bits is missing; "
                    "add the bits of memory per core"
                )
        return
    if not chip.weight_bits:
        raise ChipError(
            f"{where}: memory_bits requires weight_bits, the precision of weights; "
            "add it, such as weight_bits = 8"
        )
    if chip.axon_bits and chip.axons_in is None:
        raise ChipError(
            f"{where}: axon_bits requires axons_in, the number of lists per core; add it"
        )
    if free_bits(chip) < chip.synapse_bits + chip.neuron_bits:
        neurons = f", one neuron ({chip.neuron_bits})" if chip.neuron_bits else ""
        raise ChipError(
            f"{where}: memory_bits is {chip.memory_bits}, less than one synapse "
            f"({chip.synapse_bits}){neurons} and the lists of all axons_in "
            f"({chip.axon_bits * (chip.axons_in or 0)}); give more"
        )


def free_bits(chip: CountedMemory) -> int:
    """Return the bits of the memory that the lists of all `axons_in` leave; may be negative."""
    assert chip.memory_bits is not None, "the chip counts bits"
    return chip.memory_bits - chip.axon_bits * (chip.axons_in or 0)


def memory_use(
    chip: CountedMemory, neurons: Int64Array, synapses: Int64Array, axons_in: Int64Array
) -> Int64Array:
    """Return the bits that these numbers of neurons, synapses and lists use."""
    return synapses * chip.synapse_bits + axons_in * chip.axon_bits + neurons * chip.neuron_bits
