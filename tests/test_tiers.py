"""The samples of consecutive commits together cover all cases of a test."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from tests.tiers import in_turn, some_of

pytest_plugins = ("pytester",)


@pytest.mark.parametrize("count", [1, 2, 5, 24, 97])
@pytest.mark.parametrize("size", [1, 2, 6, 100])
def test_every_case_runs_once_per_round_of_commits(count: int, size: int) -> None:
    rounds = -(-count // size)
    for first in (0, 7):
        runs = Counter(
            place
            for turn in range(first, first + rounds)
            for place in range(count)
            if in_turn(place, count, size, turn)
        )
        assert runs == Counter(range(count))


@pytest.mark.parametrize("count", [1, 2, 5, 24, 97])
@pytest.mark.parametrize("size", [1, 2, 6, 100])
@pytest.mark.parametrize("turn", range(9))
def test_a_commit_runs_some_cases_and_at_most_a_sample(count: int, size: int, turn: int) -> None:
    cases = sum(in_turn(place, count, size, turn) for place in range(count))
    assert 1 <= cases <= size


def test_a_test_with_one_case_runs_at_some_commits() -> None:
    assert [in_turn(0, 1, 0.25, turn) for turn in range(8)] == [True, False, False, False] * 2


def test_values_of_a_loop_rotate() -> None:
    values = list("abcdefgh")
    taken = [some_of("test_of_it", turn)(values, 3) for turn in range(5, 8)]
    assert max(map(len, taken)) == 3
    assert sorted(chain(*taken)) == values == some_of("test_of_it", None)(values, 3)


TESTS = """
import pytest

@pytest.mark.sample(3)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("seed", range(6))
def test_of_many(seed, side):
    pass

@pytest.mark.parametrize("seed", range(5))
def test_of_few(seed):
    pass
"""
CONFTEST = """
from tests.conftest import pytest_addoption, pytest_collection_modifyitems

def pytest_configure(config):
    config.addinivalue_line("markers", "sample(n): some cases")
"""


def names(pytester: pytest.Pytester, *options: str) -> set[str]:
    """Return the names of the cases that pytest runs with some options."""
    found = pytester.inline_run("-p", "no:xdist", *options).listoutcomes()[0]
    return {report.nodeid.partition("::")[2] for report in found}


def test_turns_rotate_through_the_cases_of_a_sample(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    few = {f"test_of_few[{seed}]" for seed in range(5)}
    many = {f"test_of_many[{seed}-{side}]" for seed in range(6) for side in ("left", "right")}
    samples = [names(pytester, "--turn", str(turn)) for turn in range(4)]
    assert [len(sample) for sample in samples] == [8] * 4
    assert all(few < sample for sample in samples)
    assert set.union(*samples) == names(pytester, "--thorough") == few | many
    fast = [names(pytester, "--most", "2", "--turn", str(turn)) for turn in range(6)]
    assert max(map(len, fast)) == 4
    assert set.union(*fast) == few | many
