# amaranth: UnusedElaboratable=no
"""The arbiter grants round-robin, and holds a grant until the receiver accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hw.errors import HwError
from hw.noc.arbiter import Arbiter
from tests.hw.bench import simulate


def scenario(requests: str, ready: str, grants: str, path: Path, count: int = 5) -> None:
    """Run a scenario with one word per cycle.

    requests : the requesting inputs, as digits or `-`
    ready : 1 if the receiver is ready
    grants : the granted input or `-`
    """
    arbiter = Arbiter(count)

    async def bench(ctx: Any) -> None:
        cycles = zip(requests.split(), ready.split(), grants.split(), strict=True)
        for cycle, (wants, takes, expected) in enumerate(cycles):
            ctx.set(arbiter.requests, sum(1 << int(i) for i in wants if i != "-"))
            ctx.set(arbiter.ready, int(takes))
            *_, found = await ctx.tick().sample(arbiter.grants)
            granted = "".join(str(i) for i in range(count) if found >> i & 1) or "-"
            assert granted == expected, f"cycle {cycle}: granted {granted}, not {expected}"

    simulate(arbiter, bench, path)


def test_all_in_turn(tmp_path: Path) -> None:
    scenario("01234 " * 7, "1 " * 7, "0 1 2 3 4 0 1", tmp_path)


def test_the_turn_moves_after_the_granted_input(tmp_path: Path) -> None:
    scenario("3 013 013 01 0", "1 1 1 1 1", "3 0 1 0 0", tmp_path)


def test_no_requests(tmp_path: Path) -> None:
    scenario("- - 2", "1 0 1", "- - 2", tmp_path)


def test_a_grant_is_held_until_it_is_taken(tmp_path: Path) -> None:
    scenario("3 03 01234 01234 0124", "0 0 0 1 1", "3 3 3 3 4", tmp_path)


def test_the_turn_does_not_move_without_a_transfer(tmp_path: Path) -> None:
    scenario("2 2 - 0123", "0 1 1 1", "2 2 - 3", tmp_path)


def test_one_input(tmp_path: Path) -> None:
    scenario("0 - 0 0", "1 1 0 1", "0 - 0 0", tmp_path, count=1)


def test_a_withdrawn_request_breaks_an_assertion(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="arbiter: "):
        scenario("3 - -", "0 0 0", "3 3 3", tmp_path)


@pytest.mark.parametrize("count", [0, 65, None])
def test_a_bad_count_is_named(count: Any) -> None:
    with pytest.raises(HwError, match=r"arbiter: count is .*; give a whole number from 1 to 64"):
        Arbiter(count)
