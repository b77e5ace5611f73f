"""Selection of cuts to try, end of the tries, and the final selection."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mapper.compiler.multicore.cuts import tries
from mapper.compiler.multicore.cuts.period import Grouped, Line
from mapper.compiler.multicore.cuts.tries import Tried, best_of, tried
from mapper.compiler.multicore.job import MacroPiece
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Crowded, StreamsError
from mapper.errors import DoesNotFitError


def cut(number: int) -> Grouped:
    return Grouped([MacroPiece(0, Span(0, number + 1), Span(0, 1))], [], [0])


class Fake(Line):
    """Yields prepared cuts in order; least : requested limits, learnt : reported cycles."""

    def __init__(self, cuts: Sequence[int]) -> None:
        self.cuts, self.least, self.learnt = list(cuts), list[float](), list[float]()

    def shortest(self, least: float) -> tuple[int, Grouped]:
        self.least.append(least)
        return 100, cut(self.cuts.pop(0))

    def relieve(self, made: Grouped, crowded: Sequence[Crowded]) -> bool:
        return len(crowded) > len(self.least)  # cuts that can be joined

    def learn(self, made: Grouped, cycles: Sequence[float]) -> None:
        self.learnt += cycles


def ran(period: float, latency: int) -> Tried[str]:
    return Tried(cut(0), f"{period} {latency}", [period], period, latency)


def test_each_try_learns_from_the_last_one() -> None:
    periods = iter([120.0, 110.0, 105.0])
    line = Fake(range(9))
    found = tried(line, lambda one: Tried(one, "", [next(periods)], 100, 200))
    assert len(found) == tries.TRIES
    assert line.learnt == [120, 110, 105]
    assert line.least == [0, 0, 0]


def test_the_same_cut_again_ends_the_tries() -> None:
    assert len(tried(Fake([1, 2, 1, 3]), lambda one: Tried(one, "", [1], 1, 1))) == 2


def test_a_cut_that_is_enough_ends_the_tries() -> None:
    found = tried(Fake(range(9)), lambda one: Tried(one, "", [1], 1, 1), is_enough=lambda _: True)
    assert len(found) == 1


def test_a_much_worse_option_ends_after_one_try() -> None:
    found = tried(Fake(range(9)), lambda one: Tried(one, "", [1], 121, 1), [ran(100, 1)])
    assert len(found) == 1
    found = tried(Fake(range(9)), lambda one: Tried(one, "", [1], 119, 1), [ran(100, 1)])
    assert len(found) == tries.TRIES


def refuses(_: Grouped) -> Tried[str]:
    raise DoesNotFitError("streams")


def test_cuts_that_do_not_fit_are_tried_with_longer_periods() -> None:
    calls = iter([True, False, True, True, False, False])

    def run(one: Grouped) -> Tried[str]:
        return refuses(one) if next(calls) else Tried(one, "", [1], 1, 1)

    line = Fake(range(9))
    assert len(tried(line, run)) == tries.TRIES
    assert line.least[:2] == [0, pytest.approx(100 * tries.LONGER)]
    line = Fake(range(9))
    with pytest.raises(DoesNotFitError, match="streams"):
        tried(line, refuses)
    assert len(line.least) == tries.REFUSED + 1


def test_too_many_parts_are_tried_with_much_longer_periods() -> None:
    def run(_: Grouped) -> Tried[str]:
        raise StreamsError("streams")

    line = Fake(range(9))
    with pytest.raises(DoesNotFitError, match="streams"):
        tried(line, run)
    assert line.least[:2] == [0, pytest.approx(100 * tries.MUCH_LONGER)]


def test_parts_are_joined_before_a_longer_period_is_tried() -> None:
    def run(_: Grouped) -> Tried[str]:
        raise StreamsError("streams", [Crowded((0, 0), 17, [], {})] * 3)

    line = Fake(range(9))
    with pytest.raises(StreamsError):
        tried(line, run)
    assert line.least[:3] == [0, 0, 0]
    assert line.least[3] == pytest.approx(100 * tries.MUCH_LONGER)


def test_larger_parts_that_do_not_fit_are_given_up() -> None:
    """The period is then much longer, with parts of any size."""
    forgotten: list[bool] = []

    class Full(Fake):
        def shortest(self, least: float) -> tuple[int, Grouped]:
            if len(self.least) == 1:  # after parts were joined
                self.least.append(least)
                raise DoesNotFitError("no room")
            return super().shortest(least)

        def forget_limits(self) -> None:
            forgotten.append(True)

    def run(one: Grouped) -> Tried[str]:
        if len(line.least) == 1:
            raise StreamsError("streams", [Crowded((0, 0), 17, [], {})] * 2)
        return Tried(one, "", [1], 1, 1)

    line = Full(range(9))
    assert len(tried(line, run)) == tries.TRIES
    assert forgotten == [True]
    assert line.least[:3] == [0, 0, pytest.approx(100 * tries.MUCH_LONGER)]


def test_a_line_that_fits_no_longer_keeps_its_cuts() -> None:
    class Once(Fake):
        def shortest(self, least: float) -> tuple[int, Grouped]:
            if self.learnt:
                raise DoesNotFitError("no room")
            return super().shortest(least)

    assert len(tried(Once(range(9)), lambda one: Tried(one, "", [1], 1, 1))) == 1
    with pytest.raises(DoesNotFitError, match="no room"):
        line = Once(range(9))
        line.learnt.append(1)
        tried(line, lambda one: Tried(one, "", [1], 1, 1))


def test_the_shortest_period_wins_unless_a_close_one_has_lower_latency() -> None:
    assert best_of([ran(100, 50), ran(120, 10)]).made == "100 50"
    assert best_of([ran(100, 50), ran(108, 10), ran(107, 30)]).made == "108 10"
    assert best_of([ran(108, 50), ran(100, 50)]).made == "100 50"
    assert best_of([ran(108, 95), ran(100, 100)]).made == "100 100"
