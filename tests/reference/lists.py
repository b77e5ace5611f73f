"""Reference count of the synapse lists that cores share: sets of lists of pairs."""

from __future__ import annotations

from collections.abc import Mapping


def stored_words(synapses: Mapping[tuple[int, int], float], core: list[int]) -> dict[int, int]:
    """Return the list words of each core with synapses.

    synapses : (source, target) -> weight
    core : core of every neuron
    """
    number = [core[:v].count(core[v]) for v in range(len(core))]
    lists: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for (source, target), weight in synapses.items():
        lists.setdefault((core[target], source), []).append((number[target], weight))
    different: dict[int, set[tuple[tuple[int, float], ...]]] = {}
    for (k, _), targets in lists.items():
        first = min(targets)[0]
        moved = tuple(sorted((at - first, weight) for at, weight in targets))
        different.setdefault(k, set()).add(moved)
    return {k: sum(map(len, found)) for k, found in different.items()}
