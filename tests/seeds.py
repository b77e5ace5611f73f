"""Number of random cases of a test: all compiled, the first few also with the JIT off."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, *, plain: int) -> list[Any]:
    """Return 0 .. count-1 for `parametrize`; seeds from `plain` on need the JIT.

    For tests that do not compare a kernel with its reference implementation: a few cases run
    the same
    code as plain Python, where an index out of bounds raises an error.
    """
    return [
        seed if seed < plain else pytest.param(seed, marks=pytest.mark.jit) for seed in range(count)
    ]
