"""The budget of --memory, for commands that plan no stages."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.store.network import NetworkFile


def budget_of(options: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context with --memory as the budget of all that a command reads."""
    memory = getattr(options, "memory", None)  # not every command has it
    if memory is None:
        return nullcontext()
    from mapper.monitoring.resources import memory_budget

    return memory_budget(memory)


def require_neurons(network: NetworkFile, each: int) -> None:
    """Raise `MemoryShortError` if the neurons of a network exceed the budget.

    each : bytes per neuron that a command holds
    """
    from mapper.monitoring.resources import default_memory
    from storage.budget import require_room

    neurons = network.meta.neurons
    require_room(
        f"{network.path}: a network of {neurons:,} neurons", each * neurons, default_memory()
    )
