"""The budget of --memory, for commands that plan no stages."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext


def budget_of(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context with --memory as the budget of all that a command reads."""
    memory = getattr(options, "memory", None)  # not every command has it
    if memory is None:
        return nullcontext()
    from mapper.monitoring.resources import memory_budget

    return memory_budget(memory)
