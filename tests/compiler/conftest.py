"""Fixtures of the tests of the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.verifier import faults
from mapper.compiler.transforms import registry
from mapper.compiler.transforms.base import Context, Pass


@pytest.fixture(autouse=True)
def verified_passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Verify the graph after every pass."""
    plain = registry.sweep

    def sweep(one: Pass, graph: Graph, context: Context) -> bool:
        before = faults(graph)
        changed = plain(one, graph, context)
        found = faults(graph)
        assert not found, f"after {one.name}: {found}; before it: {before}"
        return changed

    monkeypatch.setattr(registry, "sweep", sweep)
    yield
