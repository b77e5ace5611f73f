"""Shape of the spiking core on the cores of a chip."""

from __future__ import annotations

from dataclasses import fields

from chipsim.chip.model import Chip
from hw.core.shape import DEEPEST, CoreShape
from hw.noc.packet import coordinate_bits
from mapper.errors import DoesNotFitError
from mapper.spiking.schedule import LONGEST_DELAY
from mapper.spiking.search import SUM_BITS_ABOVE_WEIGHTS, WEIGHT_BITS

_DEFAULT = CoreShape()
_OPEN_NEURONS = next(each.default for each in fields(Chip) if each.name == "neurons")


def core_within(
    chip: Chip, weight_bits: int = WEIGHT_BITS[0], longest_delay: int = LONGEST_DELAY
) -> CoreShape:
    """Return the core whose memories are within the limits of a chip.

    Depths are the largest powers of two within `neurons`, `axons_in`, and `synapses` or the bits of
    synaptic memory. A memory without a limit has the depth of `CoreShape`, or as many words per
    neuron if the cores have more neurons. A chip without any limit, such as 2x2, has `CoreShape`.

    weight_bits : of the synapses; sums have as many additional bits as in the search of widths
    longest_delay : of the synapses, in ticks

    Raises `DoesNotFitError` for a limit that is too small for any core.
    """
    limits = {"axons": chip.axons_in, "synapses": chip.synapse_limit, "routes": None}
    neurons = chip.neurons
    if neurons == _OPEN_NEURONS and not any(limits.values()):
        neurons = _DEFAULT.neurons
    found = {"neurons": _depth(chip, "neurons", neurons)}
    for name, limit in limits.items():
        if limit is None:
            usual = getattr(_DEFAULT, name)
            limit = max(usual, usual // _DEFAULT.neurons * found["neurons"])
        found[name] = _depth(chip, name, limit)
    return CoreShape(
        **found,
        weight_bits=weight_bits,
        sum_bits=weight_bits + SUM_BITS_ABOVE_WEIGHTS,
        delay_slots=1 << (longest_delay + 1).bit_length(),
        x_bits=coordinate_bits(chip.width),
        y_bits=coordinate_bits(chip.height + 1),  # the host is below the last row
    )


def _depth(chip: Chip, name: str, limit: int) -> int:
    """Return the largest depth of a memory within a limit."""
    if limit < 2:
        raise DoesNotFitError(
            f"chip {chip.name}: a core with {limit} {name} is too small for spiking cores; use "
            "a chip with 2 or more"
        )
    return int(1 << (min(limit, getattr(DEEPEST, name)).bit_length() - 1))


def core_weight_bits(chip: Chip) -> tuple[int, ...]:
    """Return the widths of weights that the cores of a chip hold, from narrow to wide.

    A chip with narrower weights than all of `WEIGHT_BITS` has its own width.
    """
    if not chip.weight_bits:
        return WEIGHT_BITS
    found = tuple(each for each in WEIGHT_BITS if each <= chip.weight_bits)
    return found or (max(2, chip.weight_bits),)
