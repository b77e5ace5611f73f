"""Functions that a caller hands in, to hear of what happens; each meaning has its own signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Advance: TypeAlias = Callable[[int], None]
"""Gets how many connections were visited since the last call."""

OnProgress: TypeAlias = Callable[[str, float], None]
"""Gets the stage at work and the fraction of its present pass, 0 .. 1."""

OnMapping: TypeAlias = "Callable[[NDArray[np.int32]], None]"
"""Gets the core of every vertex."""

OnPlacement: TypeAlias = "Callable[[NDArray[np.int32], NDArray[np.int32]], None]"
"""Gets column and row of every group."""


def ignore(*arguments: object) -> None:
    """For callers who do not want to hear of it."""
