"""Types of callbacks; each purpose has its own signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Advance: TypeAlias = Callable[[int], None]
"""Called with the number of connections visited since the last call."""

OnProgress: TypeAlias = Callable[[str, float], None]
"""Called with the running stage and the completed fraction of its present pass, 0 .. 1."""

OnFraction: TypeAlias = Callable[[float], None]
"""Called with the completed fraction of a task, 0 .. 1."""

OnMapping: TypeAlias = "Callable[[NDArray[np.int32]], None]"
"""Called with the core of every vertex."""

OnPlacement: TypeAlias = "Callable[[NDArray[np.int32], NDArray[np.int32]], None]"
"""Called with the column and row of every group."""


def ignore(*arguments: object) -> None:
    """Do nothing: the default callback."""
