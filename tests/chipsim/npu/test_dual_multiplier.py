"""One multiplier that computes two byte products, as in the reference implementation of the
core."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.npu import parted, two_products

BYTES = np.arange(-128, 128, dtype=np.int64)


def test_a28_all_triples_of_bytes() -> None:
    """A28: both products of all 2^24 triples; half of the high ones are wrong uncorrected."""
    wrong = 0
    b, c = BYTES[:, None], BYTES[None, :]
    for a in BYTES:
        high, low = two_products(a, b, c)
        assert (high == a * c).all()
        assert (low == b * c).all()
        wrong += int(((((a << 16) + b) * c) >> 16 != a * c).sum())
    assert wrong / 2**24 == pytest.approx(0.496, abs=5e-4)


@pytest.mark.parametrize(("shift", "port"), [(16, 25), (17, 26), (18, 27)])
def test_a29_the_port_holds_all_operands(shift: int, port: int) -> None:
    """A29: signed, shift + 9 bits; a port of 27 bits allows shifts up to 18."""
    ends = [(int(a) << shift) + int(b) for a in BYTES[[0, -1]] for b in BYTES[[0, -1]]]
    assert min(ends) >= -(1 << port - 1)
    assert max(ends) < 1 << port - 1
    assert min(ends) < -(1 << port - 2)  # one bit less is too few


@pytest.mark.parametrize(("shift", "most"), [(16, 1), (17, 3), (18, 7)])
def test_a29_products_that_may_be_added_before_they_are_parted(shift: int, most: int) -> None:
    """A29: 1, 3 and 7 of the largest products; with one more the low part overflows."""
    for a in (-128, 0, 127):
        for count in range(1, most + 1):
            total = count * ((a << shift) - 128) * -128
            assert parted(total, shift) == (count * a * -128, count * 128 * 128)
        one_more = (most + 1) * ((a << shift) - 128) * -128
        assert parted(one_more, shift) != ((most + 1) * a * -128, (most + 1) * 128 * 128)
