"""Who looks at the blocks of a network: this process, all at once, or workers, by ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Ranges = Callable[..., Iterator[Any]]
"""Called with a work, the number of blocks, and arguments: yields `work(range, *arguments)` of
ranges that have every block once, in their order."""


def all_at_once(work: Callable[..., Any], blocks: int, *arguments: Any) -> Iterator[Any]:
    """One range of all blocks, in this process."""
    yield work(range(blocks), *arguments)
