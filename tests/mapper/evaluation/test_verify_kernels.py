"""The decoder of `verify` against its reference implementation, on valid and invalid numbers."""

from __future__ import annotations

import numpy as np
import pytest

from mapper.errors import CheckFailedError
from mapper.evaluation.verify import _split
from mapper.evaluation.verify_numbers import decode_varints
from tests.reference import partitioning as naive

LARGEST = 2**63 - 1


def varint(value: int) -> bytes:
    out = []
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def records(rng: np.random.Generator, vertices: int) -> list[int]:
    numbers: list[int] = []
    for _ in range(vertices):
        count = int(rng.integers(0, 4))
        numbers.append(count)
        for place in range(count):
            flag = int(rng.integers(0, 16)) & (15 if place else 13)
            numbers += [flag, int(rng.integers(0, 50))]
            numbers += rng.integers(0, 9, 2 - bool(flag & 4) - bool(flag & 8)).tolist()
    return numbers


def split(numbers: list[int], first: int, vertices: int) -> list[tuple[int, ...]] | None:
    table = np.empty((len(numbers) // 2, 5), np.int64)
    rows = _split(np.array(numbers, np.int64), first, vertices, 3, 7, table)
    return None if rows < 0 else [tuple(row) for row in table[:rows].tolist()]


@pytest.mark.parametrize("seed", range(60))
def test_split(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vertices = int(rng.integers(1, 6))
    numbers = records(rng, vertices)
    expected = naive.split(numbers, 4, vertices, 3, 7)
    assert expected is not None
    assert split(numbers, 4, vertices) == expected
    for _ in range(20):
        broken = list(numbers)
        kind = rng.integers(3)
        if kind == 0:
            broken[rng.integers(len(broken))] = int(rng.integers(0, 40))
        elif kind == 1:
            del broken[rng.integers(len(broken)) :]
        else:
            broken.append(int(rng.integers(0, 5)))
        assert split(broken, 4, vertices) == naive.split(broken, 4, vertices, 3, 7)


def test_numbers_that_would_overflow() -> None:
    assert split([2, 12, LARGEST, 14, 1], 0, 1) is None
    assert split([2, 12, 5, 14, LARGEST], 0, 1) is None
    assert split([LARGEST, 12, 5], 0, 1) is None


@pytest.mark.parametrize("seed", range(10))
def test_varints(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [0, 127, 128, LARGEST, *(int(v) >> int(rng.integers(63)) for v in
              rng.integers(0, LARGEST, 50))]  # fmt: skip
    raw = b"".join(map(varint, values))
    assert decode_varints(raw, "here").tolist() == values
    assert decode_varints(b"", "here").tolist() == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x01\x80", "ends inside a number"),
        (b"\x80" * 10 + b"\x01", "longer than 10 bytes"),
        (b"\x80" * 9 + b"\x01", "beyond"),
        (b"\xff" * 9 + b"\x7f", "beyond"),
    ],
)
def test_invalid_varints(raw: bytes, reason: str) -> None:
    with pytest.raises(CheckFailedError, match=f"^here: .*{reason}"):
        decode_varints(raw, "here")
