"""The rectangle of step 6: compact, with as many usable cores as groups."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.errors import DOES_NOT_FIT, DoesNotFitError
from mapper.placement.region import Region, choose_region


def rectangles(usable: NDArray[np.bool_], groups: int) -> list[tuple[int, int, int, int]]:
    """Return all (x, y, width, height) with enough usable cores, counted one by one."""
    rows, columns = usable.shape
    return [
        (x, y, width, height)
        for height in range(1, rows + 1)
        for width in range(1, columns + 1)
        for y in range(rows - height + 1)
        for x in range(columns - width + 1)
        if sum(usable[j, i] for j in range(y, y + height) for i in range(x, x + width)) >= groups
    ]


def check(usable: NDArray[np.bool_], groups: int, region: Region) -> None:
    inside = usable[region.y : region.y + region.height, region.x : region.x + region.width]
    assert region.usable.shape == inside.shape == (region.height, region.width)
    assert region.usable.sum() == groups
    assert not (region.usable & ~inside).any()


@pytest.mark.parametrize("seed", range(25))
def test_least_half_perimeter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    usable = rng.random(rng.integers(1, 6, 2)) > rng.choice([0.0, 0.2, 0.6])
    for groups in range(1, int(usable.sum()) + 1):
        region = choose_region(usable, groups)
        check(usable, groups, region)
        found = rectangles(usable, groups)
        assert (region.x, region.y, region.width, region.height) in found
        assert region.width + region.height == min(w + h for _, _, w, h in found)


@pytest.mark.parametrize(
    ("groups", "sides"),
    [(1, (1, 1)), (4, (2, 2)), (6, (2, 3)), (9, (3, 3)), (16, (4, 4)), (64, (8, 8)), (56, (7, 8))],
)
def test_squarest_on_a_whole_chip(groups: int, sides: tuple[int, int]) -> None:
    region = choose_region(np.ones((8, 8), np.bool_), groups)
    assert tuple(sorted((region.width, region.height))) == sides
    assert region.usable.all()


def test_counts_that_do_not_fill_a_rectangle() -> None:
    usable = np.ones((6, 6), np.bool_)
    for groups in (5, 7, 11, 13, 17, 23, 29, 31):
        region = choose_region(usable, groups)
        check(usable, groups, region)
        sides = [w + h for _, _, w, h in rectangles(usable, groups)]
        assert region.width + region.height == min(sides)
        centre = (np.array([region.height, region.width]) - 1) / 2
        far = np.abs(np.argwhere(~region.usable) - centre).sum(axis=1)
        near = np.abs(np.argwhere(region.usable) - centre).sum(axis=1)
        assert far.min() >= near.max()  # cores at the rim are dropped


def test_the_region_is_in_the_middle() -> None:
    region = choose_region(np.ones((9, 11), np.bool_), 9)
    assert (region.x, region.y, region.width, region.height) == (4, 3, 3, 3)


def test_faulty_cores_are_avoided() -> None:
    usable = np.ones((4, 8), np.bool_)
    usable[:, 3] = False
    region = choose_region(usable, 16)
    assert (region.x, region.width, region.height) == (4, 4, 4)
    assert region.usable.all()


@pytest.mark.parametrize("shape", [(1, 12), (12, 1)])
def test_chips_of_one_row(shape: tuple[int, int]) -> None:
    usable = np.ones(shape, np.bool_)
    for groups in range(1, 13):
        region = choose_region(usable, groups)
        assert region.usable.size == groups


def test_too_many_groups() -> None:
    usable = np.ones((3, 4), np.bool_)
    usable[0, 0] = False
    with pytest.raises(
        DoesNotFitError, match=r"needs 14 cores; the chip has 11 usable cores \(3 short\)"
    ) as error:
        choose_region(usable, 14)
    assert error.value.exit_code == DOES_NOT_FIT
