"""Order in which frameworks compute the populations of a model within a tick."""

from __future__ import annotations

from typing import NamedTuple

from mapper.spiking.model import SpikingModel


class ExecutionOrder(NamedTuple):
    """Order of the populations in a tick, and what follows from it for connections.

    populations : numbers of the populations, each after the sources of its feed-forward connections
    delays : ticks from a spike to its effect per connection; one within a population, or one that
        closes a cycle, takes a tick more than its own delay
    """

    populations: tuple[int, ...]
    delays: tuple[int, ...]


def execution_order(model: SpikingModel) -> ExecutionOrder:
    """Return the order of a depth-first visit from the inputs.

    A connection to a population whose visit is unfinished closes a cycle. All other connections
    lead forward, in whatever order the model lists its populations.
    """
    targets: list[list[int]] = [[] for _ in model.populations]
    for each in model.connections:
        targets[each.source].append(each.target)
    finished: list[int] = []
    seen = [False] * len(targets)
    for root in (*model.inputs, *range(len(targets))):
        if not seen[root]:
            _visit(root, targets, seen, finished)
    order = tuple(reversed(finished))
    place = {number: at for at, number in enumerate(order)}
    delays = tuple(
        each.delay + (place[each.target] <= place[each.source]) for each in model.connections
    )
    return ExecutionOrder(order, delays)


def _visit(root: int, targets: list[list[int]], seen: list[bool], finished: list[int]) -> None:
    """Append the unseen populations that `root` reaches, each after the ones that it reaches."""
    seen[root] = True
    stack = [(root, iter(sorted(targets[root])))]
    while stack:
        number, rest = stack[-1]
        for target in rest:
            if not seen[target]:
                seen[target] = True
                stack.append((target, iter(sorted(targets[target]))))
                break
        else:
            finished.append(number)
            stack.pop()
