"""What the cores of a chip do: spikes that they send and receive, synapses that these reach."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from chipsim.protocols import Int64Array


@dataclass(frozen=True, slots=True)
class Activity:
    """Activity of every core, each array int64 of shape (cores,), in rate units per unit of time.

    Attributes
    ----------
    spikes : of the neurons of the core that have a synapse in another core: packets of a chip that
        sends multicast trees
    sent : pairs of such a spike and another core that it reaches: packets of a chip that sends one
        to each core
    received : pairs of a spike of another core and this core, where it has a synapse
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
        """Nothing yet."""
        return cls(*(np.zeros(cores, np.int64) for _ in fields(cls)))

    def add(self, columns: Int64Array) -> None:
        """Add an array of shape (cores, fields), columns in the order of the fields."""
        for index, field in enumerate(fields(self)):
            getattr(self, field.name)[:] += columns[:, index]
