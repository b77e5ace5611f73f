"""Graph search against plain Python on many small graphs."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.graph.search import _components, _search, components, search_from
from tests.mapper.helpers import adjacency, random_graph

Lists = list[list[tuple[int, int]]]


def naive_search(links: Lists, start: int) -> list[int]:
    found = [start]
    for u in found:
        for v, _ in links[u]:
            if v not in found:
                found.append(v)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    indptr, ids, weights = (
        random_graph(rng, n, mean_degree=float(rng.random() * 3)).read_all().undirected()
    )
    links = adjacency(indptr, ids, weights)
    start = int(rng.integers(n))
    expected = naive_search(links, start)
    assert search_from(indptr, ids, start).tolist() == expected

    label, order = np.full(n, -1, np.int32), np.empty(n, np.int64)
    assert _search(indptr, ids, start, 7, label, order) == len(expected)
    assert np.flatnonzero(label == 7).tolist() == sorted(expected)

    count, label = components(indptr, ids)
    numbers: dict[int, int] = {}
    for v in range(n):
        if v not in numbers:
            number = len(set(numbers.values()))
            numbers |= dict.fromkeys(naive_search(links, v), number)
    assert label.tolist() == [numbers[v] for v in range(n)]
    assert count == len(set(numbers.values()))
    again = np.full(n, -1, np.int32)
    assert _components(indptr, ids, again, order) == count
    assert again.tolist() == label.tolist()
