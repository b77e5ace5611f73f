"""Workers of a cluster on this machine, for the tests that have the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two processes of one thread each, see `DaskWorkers`."""
    pytest.importorskip("distributed")
    from mapper.fleet.start import start_workers

    with start_workers(2, 2, tmp_path_factory.mktemp("workers")) as workers:
        yield workers
