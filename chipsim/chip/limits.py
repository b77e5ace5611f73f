"""Core limits: use of each core, and where it exceeds the limits of the chip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chipsim.chip.memory import memory_use
from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores
from chipsim.errors import ChipError
from chipsim.protocols import Int64Array

LIMITS = ("neurons", "synapses", "axons_in", "axons_out")
"""Core limits in the order in which violations are listed; `MEMORY` comes last."""
MEMORY = "memory_bits"
"""The limit of the memory of a core, for chips that count its bits."""
BITS_OF_MEMORY = "bits of memory"
"""The name of that limit in messages."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Use of every core, each array int64 of shape (cores,), indexed by core id.

    Attributes
    ----------
    count : neurons in the core
    neurons : their total size
    synapses : incoming synapses stored in the core; on chips that share synapse lists, list words
    axons_in : distinct source neurons with a synapse in the core, including neurons of the core
    axons_out : distinct (source neuron, other core) pairs that leave the core; on chips with a
        single target per neuron: neurons, plus one copy per additional target
    """

    count: Int64Array
    neurons: Int64Array
    synapses: Int64Array
    axons_in: Int64Array
    axons_out: Int64Array

    @classmethod
    def zeros(cls, cores: int) -> Usage:
        """Return the use of empty cores."""
        return cls(*(np.zeros(cores, dtype=np.int64) for _ in range(5)))

    def of(self, limit: str) -> Int64Array:
        """Return the array that ``limit`` (one of LIMITS) bounds."""
        if limit not in LIMITS:
            raise ChipError(f"limit {limit!r} is unknown; known limits are {', '.join(LIMITS)}")
        array: Int64Array = getattr(self, limit)
        return array


@dataclass(frozen=True, slots=True)
class Violation:
    """One core that exceeds one limit.

    ``limit`` is one of LIMITS, MEMORY, or "unavailable" for a core that must stay empty; in that
    case ``used`` is its number of neurons and ``allowed`` is 0.
    """

    core: int
    limit: str
    used: int
    allowed: int

    def __str__(self) -> str:
        if self.limit == "unavailable":
            return f"core {self.core} is unavailable but holds {self.used} neurons"
        name = BITS_OF_MEMORY if self.limit == MEMORY else self.limit
        return f"core {self.core} uses {self.used} {name} (limit {self.allowed})"


def uses(chip: Chip, usage: Usage) -> dict[str, Int64Array]:
    """Return the use of each core by limit name, with the memory if the chip counts its bits."""
    found = {limit: usage.of(limit) for limit in LIMITS}
    if chip.memory_bits is not None:
        found[MEMORY] = memory_use(chip, usage.neurons, usage.synapses, usage.axons_in)
    return found


def violations(chip: Chip, usage: Usage) -> list[Violation]:
    """Return all violations: unavailable cores in use first, then limit by limit, by core id."""
    if len(usage.count) != chip.cores:
        raise ChipError(
            f"usage of {len(usage.count)} cores does not belong to chip {chip.name} "
            f"with {chip.cores}; measure it with this chip"
        )
    faulty = [core for core in chip.unavailable if usage.count[core]]
    found = [Violation(core, "unavailable", int(usage.count[core]), 0) for core in faulty]
    for limit, used in uses(chip, usage).items():
        allowed = limit_of_cores(chip, "out_limit" if limit == "axons_out" else limit)
        if allowed is None:
            continue
        over = np.flatnonzero(used > allowed)
        found += [Violation(int(core), limit, int(used[core]), int(allowed[core])) for core in over]
    return found
