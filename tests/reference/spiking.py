"""Reference implementations of spiking models, neuron by neuron: as in frameworks, and on chips."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from mapper.spiking.model import SpikingModel

Spikes = set[tuple[int, int]]  # (tick, neuron) of a population
Inputs = dict[int, dict[tuple[int, int], float]]  # population -> (tick, neuron) -> value


class Outcome(NamedTuple):
    """Spikes, and potentials at the end of each tick, per population."""

    spikes: list[Spikes]
    potentials: list[dict[tuple[int, int], float]]


class Neuron:
    """A neuron of a population, as `mapper.spiking.model` describes it."""

    def __init__(self, model: SpikingModel, population: int, number: int) -> None:
        dynamics = model.populations[population].dynamics
        assert dynamics is not None
        for name, values in dynamics._asdict().items():
            setattr(self, name, values[number].item())
        self.current = self.potential = 0.0
        self.waits = 0

    def advance(self, arrived: float) -> bool:
        own = self.__dict__
        self.current = own["current_decay"] * self.current + arrived + own["current_bias"]
        if self.waits:
            self.waits -= 1
            self.potential = own["reset"]
            return False
        self.potential = own["potential_decay"] * self.potential + self.current
        self.potential += own["potential_bias"]
        if own["silent"] or not self.potential > own["threshold"]:
            return False
        self.potential = self.potential - own["threshold"] if own["subtract"] else own["reset"]
        return True

    def wait(self, ticks: int) -> None:
        """Stay at rest for some ticks, with the current that will be 0 after them."""
        self.waits = ticks
        decay = self.__dict__["current_decay"]
        for _ in range(ticks if decay else 0):
            self.current = (self.current - self.__dict__["current_bias"]) / decay


def synapses(model: SpikingModel) -> list[list[tuple[int, int, int, float]]]:
    """Return (source neuron, target neuron, delay, weight) of each connection."""
    found = []
    for each in model.connections:
        dense = each.weights.toarray()
        rows = range(dense.shape[0])
        found.append(
            [(s, t, each.delay, dense[t, s].item()) for t in rows for s in range(dense.shape[1])]
        )
    return found


def visited(model: SpikingModel) -> list[int]:
    """Return populations in reverse order of the ends of their visits, depth first."""
    finished: list[int] = []
    begun: set[int] = set()

    def visit(number: int) -> None:
        if number in begun:
            return
        begun.add(number)
        for target in sorted(each.target for each in model.connections if each.source == number):
            visit(target)
        finished.append(number)

    for number in (*model.inputs, *range(len(model.populations))):
        visit(number)
    return finished[::-1]


def as_in_frameworks(model: SpikingModel, inputs: Inputs, ticks: int) -> Outcome:
    """Compute the populations of each tick in order, from the latest spikes of their sources."""
    size = [each.size for each in model.populations]
    neurons = {
        (p, n): Neuron(model, p, n)
        for p in range(len(size))
        if p not in model.inputs
        for n in range(size[p])
    }
    lists, order = synapses(model), visited(model)
    latest: list[list[dict[int, float]]] = [[] for _ in size]  # spikes by neuron, tick after tick
    outcome = Outcome([set() for _ in size], [{} for _ in size])
    for tick in range(ticks):
        for p in order:
            if p in model.inputs:
                given = inputs.get(p, {})
                latest[p].append({n: value for (at, n), value in given.items() if at == tick})
                continue
            arrived: dict[int, float] = defaultdict(float)
            for each, synapse in zip(model.connections, lists, strict=True):
                for source, target, delay, weight in synapse if each.target == p else ():
                    spikes = latest[each.source]
                    if len(spikes) > delay:
                        arrived[target] += weight * spikes[-1 - delay].get(source, 0)
            fired = {n: 1.0 for n in range(size[p]) if neurons[p, n].advance(arrived[n])}
            latest[p].append(fired)
            outcome.spikes[p].update((tick, n) for n in fired)
            outcome.potentials[p].update(
                {(tick, n): neurons[p, n].potential for n in range(size[p])}
            )
    return outcome


def as_on_chips(
    model: SpikingModel,
    delays: tuple[int, ...],
    latency: tuple[int, ...],
    inputs: Inputs,
    ticks: int,
) -> list[Spikes]:
    """Compute all neurons at once in each tick: a spike counts one tick and its delay later.

    An input counts in the tick that it is sent for, and its delay later. Neurons of a population
    stay at rest until the ticks of its latency are over.
    """
    neurons = {}
    for p, each in enumerate(model.populations):
        for n in range(each.size if p not in model.inputs else 0):
            neurons[p, n] = Neuron(model, p, n)
            neurons[p, n].wait(latency[p])
    arrivals: dict[tuple[int, int, int], float] = defaultdict(float)
    lists = synapses(model)

    def send(p: int, neuron: int, value: float, tick: int) -> None:
        for each, delay, synapse in zip(model.connections, delays, lists, strict=True):
            for source, target, _, weight in synapse if each.source == p else ():
                if source == neuron:
                    arrivals[tick + delay, each.target, target] += weight * value

    found: list[Spikes] = [set() for _ in model.populations]
    for tick in range(ticks):
        for p, given in inputs.items():
            for (at, n), value in given.items():
                if at == tick:
                    send(p, n, value, tick)
        fired = [key for key, neuron in neurons.items() if neuron.advance(arrivals[tick, *key])]
        for p, n in fired:
            found[p].add((tick, n))
            send(p, n, 1, tick + 1)
    return found
