"""How many random cases a test takes: all of them compiled, the first few with the JIT off too."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, *, plain: int) -> list[Any]:
    """0 .. count-1, for `parametrize`; those from `plain` on need the JIT.

    For what does not compare a kernel with its twin: a few cases show that the same lines run as
    plain Python, where an index out of bounds is an error and not a wrong number.
    """
    return [
        seed if seed < plain else pytest.param(seed, marks=pytest.mark.jit) for seed in range(count)
    ]
