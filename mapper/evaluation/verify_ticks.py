"""Independent computation of the cycles of a tick, from counts of single synapses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mapper.evaluation.verify_queues import RouterFlits, drained


class Activity:
    """Activity of the cores, ndarrays[int64] of shape (cores,).

    Spikes, pairs of a spike and a core that it reaches, and the weight of the synapses of their
    neurons.
    """

    def __init__(self, cores: int) -> None:
        self.spikes, self.local, self.sent = np.zeros((3, cores), np.int64)
        self.received, self.events, self.weight = np.zeros((3, cores), np.int64)

    def add(
        self, core: NDArray[np.int64], pairs: NDArray[np.int64], rates: NDArray[np.int64],
        targets: NDArray[np.int64], reaching: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Count neurons with all of their synapses.

        core : of every neuron; pairs : neuron * cores + core, distinct; rates : of the pairs
        targets : core of the target of each synapse; reaching : the rate of its source
        """
        neuron, there = np.divmod(pairs, self.spikes.size)
        here = core[neuron]
        own = here == there
        np.add.at(self.local, here[own], rates[own])
        np.add.at(self.sent, here[~own], rates[~own])
        np.add.at(self.received, there[~own], rates[~own])
        _, first = np.unique(neuron[~own], return_index=True)
        np.add.at(self.spikes, here[~own][first], rates[~own][first])
        np.add.at(self.events, targets, reaching)

    def join(self, other: Activity) -> None:
        """Add the activity of other neurons."""
        for mine, more in zip(vars(self).values(), vars(other).values(), strict=True):
            mine += more


def ticks(
    chip: dict[str, Any], did: Activity, neurons: NDArray[np.int64],
    loads: dict[str, NDArray[np.int64]], units: tuple[float, float],
    links: tuple[NDArray[np.float64] | float, NDArray[np.float64] | float],
    mesh: RouterFlits | None,
) -> dict[str, float | str]:  # fmt: skip
    """Return the metrics of a tick of a chip with times.

    neurons : total size of the neurons of every core; loads : of all links, by delivery
    units : of weights, and of rates; links : bandwidth, and cycles per hop, of all links
    mesh : flits of the delivery through the routers, if they are known
    """
    time, way = chip["time"], chip.get("delivery", "synapse")
    weight, rate = (unit * time["tick"] for unit in units)
    spikes = np.maximum(did.spikes, did.local) * rate
    events = did.events * rate
    taken = events if way == "synapse" else (did.received + did.local) * rate
    sent = {
        "synapse": did.weight * weight, "core": (did.sent + did.local) * rate, "tree": spikes,
    }[way]  # fmt: skip
    flits = loads[way] * (weight if way == "synapse" else rate)
    start = time["barrier"] + time["spike"]
    sweeps = neurons * time["neuron"]
    after = 0.0
    if spikes.any() and sent.any() and taken.any() and sweeps.any():
        more = (sent.sum() / spikes.sum() - 1) * time["packet_out"]
        more += (events.sum() / taken.sum() - 1) * time["event"]
        last = time["spike"] + (flits * links[1]).sum() / sent.sum() + max(0.0, more)
        after = _after(sweeps[sweeps > 0], spikes[sweeps > 0], float(last))
    work = taken * time["packet_in"] + events * time["event"]
    bounds = {
        "neurons": float((sweeps[neurons > 0] + time["barrier"]).max(initial=0.0)) + after,
        "packets_out": float((sent[sent > 0] * time["packet_out"] + start).max(initial=0.0)),
        "events": float((work[taken > 0] + start).max(initial=0.0)),
        "links": float(((flits / links[0])[flits > 0] * time["link"] + start).max(initial=0.0)),
    }
    most = max(bounds.values())
    which = next(name for name, cycles in bounds.items() if cycles == most)
    queues = 0.0
    if mesh is not None and sent.any():
        scaled = mesh.scaled(weight if way == "synapse" else rate, sent)
        queues = start + (flits * links[1]).sum() / sent.sum()
        queues += drained(scaled, taken, work, max(1.0, most - start))
    named: dict[str, float | str] = {f"tick_bounds.{name}": n for name, n in bounds.items()}
    named["tick_bounds.queues"] = float(queues)
    return {"tick_cycles": float(max(1.0, most, queues)), "tick_bound": which, **named}


def _after(sweeps: NDArray[np.float64], spikes: NDArray[np.float64], last: float) -> float:
    """Integrate the probability that a late spike of a neuron ends after the sweeps."""
    steps = 32
    if last <= 0:
        return 0.0
    total = 0.0
    for step in range(steps + 1):
        begin = max(0.0, float(sweeps.max()) - last + last * step / steps)
        later = sum(s * max(0.0, 1 - begin / n) for n, s in zip(sweeps, spikes, strict=True))
        total += (1 - float(np.exp(-later))) * (0.5 if step in (0, steps) else 1.0)
    return total * last / steps
