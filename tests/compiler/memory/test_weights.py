"""Static and dynamic weights: the selection is optimal."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mapper.compiler.codegen.placement import (
    Need,
    WeightChoice,
    choice_of,
    choose,
    fits,
    greedy,
    optimal,
)


def brute_force(needs: list[Need], capacity: int) -> int | None:
    """Return the least delay over all selections."""
    found = [
        choice.delay
        for dynamic in product((False, True), repeat=len(needs))
        if fits(needs, choice := choice_of(needs, dynamic), capacity)
    ]
    return min(found, default=None)


def random_needs(rng: np.random.Generator, count: int) -> list[Need]:
    words, delays = rng.integers(1, 200, count), rng.integers(0, 50, count)
    return [Need(int(a), int(b)) for a, b in zip(words, delays, strict=True)]


def test_c08_the_choice_equals_brute_force() -> None:
    """C08: 300 random cases up to 10 layers; layers larger than the memory are always dynamic."""
    rng, worse, refused = np.random.default_rng(0), 0, 0
    for _ in range(300):
        needs = random_needs(rng, int(rng.integers(1, 11)))
        capacity = int(rng.integers(1, sum(one.words for one in needs) + 50))
        wanted = brute_force(needs, capacity)
        found = choose(needs, capacity)
        if wanted is None:
            assert found is None
            refused += 1
            continue
        assert found is not None
        assert found.delay == wanted
        assert fits(needs, found, capacity)
        assert found == choice_of(needs, found.dynamic)
        other = choose(needs, capacity, "greedy")
        if other is not None:
            assert fits(needs, other, capacity)
            worse += other.delay > wanted
    assert worse > 60
    assert 10 < refused < 200


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(4))
def test_c08_fifteen_layers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    needs = random_needs(rng, 15)
    capacity = sum(one.words for one in needs) // 2
    found = optimal(needs, capacity)
    assert found is not None
    assert found.delay == brute_force(needs, capacity)


def test_all_static_if_they_fit() -> None:
    needs = [Need(10, 5), Need(20, 7)]
    assert choose(needs, 30) == WeightChoice((False, False), 0, 0) == choose(needs, 30, "greedy")


def test_greedy_selects_the_largest_first() -> None:
    needs = [Need(10, 5), Need(40, 1000), Need(30, 7)]
    assert greedy(needs, 60) == WeightChoice((False, True, True), 1007, 40)
    found = greedy(needs, 70)
    assert found == WeightChoice((False, True, True), 1007, 40)
    assert optimal(needs, 79) == WeightChoice((True, False, True), 12, 30)


def test_a_hundred_layers_are_chosen_better_than_greedily() -> None:
    """110 layers and 8,192 words."""
    rng = np.random.default_rng(1)
    needs = [Need(int(w), int(d)) for w, d in rng.integers(1, 600, (110, 2))]
    found = optimal(needs, 8192)
    assert found is not None
    assert fits(needs, found, 8192)
    assert found.delay < greedy(needs, 8192).delay
