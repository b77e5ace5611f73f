"""Activity of the cores of a chip: spikes sent and received, synaptic events."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from chipsim.protocols import Int64Array


@dataclass(frozen=True, slots=True)
class Activity:
    """Activity of every core, each array int64 of shape (cores,), in rate units per unit of time.

    Attributes
    ----------
    spikes : spikes of the core's neurons that have a synapse in another core: packets of a chip
        with multicast trees
    sent : (such a spike, other core that it reaches) pairs: packets of a chip with one packet per
        destination core
    received : spikes of other cores with a synapse in this core
    local : spikes of the core's own neurons that have a synapse in it
    events : synaptic events: spikes times the synapses in this core that they reach
    """

    spikes: Int64Array
    sent: Int64Array
    received: Int64Array
    local: Int64Array
    events: Int64Array

    @classmethod
    def idle(cls, cores: int) -> Activity:
        """Return zero activity."""
        return cls(*(np.zeros(cores, np.int64) for _ in fields(cls)))

    def add(self, columns: Int64Array) -> None:
        """Add an array of shape (cores, fields), columns in the order of the fields."""
        for index, field in enumerate(fields(self)):
            getattr(self, field.name)[:] += columns[:, index]
