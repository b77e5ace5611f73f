"""D04: where the host packs and unpacks maps."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mapper.compiler.partition.packing import ExecutionPart, packing_lists

CORES, EACH, OTHER = "c", "e", "o"
USER, PACKED = False, True


def chain(kinds: str) -> list[ExecutionPart]:
    return [
        ExecutionPart(f"{kind}{at}", kind == CORES, kind == EACH) for at, kind in enumerate(kinds)
    ]


def flags(kinds: str) -> list[tuple[bool, bool]]:
    return [(one.pack, one.unpack) for one in packing_lists(chain(kinds)).packing]


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        ("oc", [(True, True)]),  # the first, work before
        ("co", [(True, True)]),  # the last, work after it
        ("c", [(True, True)]),  # the user's values are not packed
        ("coc", [(True, True), (True, True)]),  # work between
        ("cec", [(True, False), (False, True)]),  # element by element between
        ("ceoec", [(True, True), (True, True)]),
        ("eceece", [(True, False), (False, True)]),
        ("cecoc", [(True, False), (False, True), (True, True)]),
    ],
)
def test_rules(kinds: str, wanted: list[tuple[bool, bool]]) -> None:
    """D04, the four rules."""
    assert flags(kinds) == wanted


def test_lists() -> None:
    """All parts, parts on cores with their index, and layout changes."""
    found = packing_lists(chain("oceco"))
    assert found.parts == [("o0", 0), ("c1", 1), ("e2", 2), ("c3", 3), ("o4", 4)]
    assert found.functions == [("c1", 1), ("c3", 3)]
    assert [one.name for one in found.packing] == ["c1", "c3"]


def legal(kinds: str, chosen: tuple[bool, ...]) -> bool:
    """Return whether each part of a chain gets a supported layout.

    chosen : for each function whether it packs and whether it unpacks
    """
    layout = USER
    pairs = iter(zip(chosen[::2], chosen[1::2], strict=True))
    for kind in kinds:
        if kind == CORES:
            pack, unpack = next(pairs)
            if pack == (layout is PACKED):
                return False  # packed twice, or not at all
            layout = USER if unpack else PACKED
        elif kind == OTHER and layout is PACKED:
            return False
    return layout is USER


def fewest(kinds: str) -> int:
    """Return the least number of changes over all legal flags."""
    return min(
        sum(chosen)
        for chosen in product((False, True), repeat=2 * kinds.count(CORES))
        if legal(kinds, chosen)
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_number_of_packs_is_minimal(seed: int) -> None:
    """D04: compared with brute force over all flags on random chains."""
    random = np.random.default_rng(seed)
    for _ in range(12):
        kinds = "".join(random.choice(list("cceo"), random.integers(1, 10)))
        functions = kinds.count(CORES)
        if functions > 5:
            continue
        mine = tuple(flag for pair in flags(kinds) for flag in pair)
        assert legal(kinds, mine)
        assert sum(mine) == fewest(kinds), kinds
