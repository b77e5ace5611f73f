"""Loops over the blocks of a network: in this process at once, or in ranges on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Ranges = Callable[..., Iterator[Any]]
"""Called with a function, the number of blocks, and arguments; yields `work(range, *arguments)` of
consecutive ranges that cover all blocks, in order."""


def all_at_once(work: Callable[..., Any], blocks: int, *arguments: Any) -> Iterator[Any]:
    """Run all blocks as one range in this process."""
    yield work(range(blocks), *arguments)
