"""Fixtures: local workers of the engine, and the networks and mappings of the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.monitoring.monitor import Monitor
from mapper.pipeline import map_network
from mapper.planning.strategy import make_plan
from mapper.planning.worker_plan import looked_at_here
from mapper.results.mapping import Mapping
from mapper.results.output import scratch_in
from mapper.settings import preset
from storage.store.network import NetworkFile
from tests.mapper.helpers import write_network

SMALL_BLOCKS = {"block_vertices": 64, "bisection_repeats": 2, "smoothing": 4}
CHIP = Chip("small", 6, 6, neurons=32)

Mapped: TypeAlias = Callable[..., np.ndarray]
Made: TypeAlias = Callable[..., Mapping]
Command: TypeAlias = Callable[[str, str], None]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start two processes of one thread each, see `DaskWorkers`."""
    pytest.importorskip("distributed")
    from mapper.distributed.start import start_workers
    from mapper.executors.worker_interface import Asked

    with start_workers(Asked(2), tmp_path_factory.mktemp("workers")) as workers:
        yield workers


LEVELS = {
    1: {"sampled": 100, "sampled_above": 1 << 20, "contracted": 1 << 16},
    2: {"sampled": 100, "sampled_above": 1500, "contracted": 1 << 16},
}
"""Memory shares that give the network this many more coarsening levels."""


@pytest.fixture
def network(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A sheet of 25 by 24 neurons with synapses to neighbours and a few distant neurons.

    Ids are in natural order, or shuffled if the parameter requests it.
    """
    rng = np.random.default_rng(3)
    v = np.arange(600)
    steps = rng.integers(-3, 4, (9, 600, 2))
    near = [
        ((v % 25 + dx) % 25) + 25 * ((v // 25 + dy) % 24) for dx, dy in steps.transpose(0, 2, 1)
    ]
    far = rng.integers(0, 600, 600)
    source, target = np.tile(v, 10), np.concatenate([*near, far])
    kept = source != target
    if getattr(request, "param", False):
        source, target = rng.permutation(600)[np.array([source, target])]
    return write_network(
        tmp_path / "net.bin",
        np.c_[source, target][kept],
        600,
        rng.integers(1, 9, int(kept.sum())),
        sizes=rng.integers(1, 3, 600).tolist(),
        block_size=32,
    )


@pytest.fixture
def mapped(made: Made) -> Mapped:
    """Return a function that maps the network with `made` and returns the core of every neuron."""

    def run(*given: Any, **named: Any) -> np.ndarray:
        return made(*given, **named).core

    return run


@pytest.fixture
def made(network: Path, tmp_path: Path) -> Made:
    """Return a function that maps the network as a streamed one, with the given workers."""
    folders = iter(range(100))

    def run(
        workers: Any = None,
        monitor: Monitor | None = None,
        shares: dict[str, int] | None = None,
        **changes: Any,
    ) -> Mapping:
        """shares : memory shares that replace the planned ones"""
        settings = preset("default", memory_bytes=1 << 30, **{**SMALL_BLOCKS, **changes})
        with (
            monitor or Monitor() as heard,
            NetworkFile(network) as opened,
            scratch_in(tmp_path / f"scratch-{next(folders)}") as scratch,
        ):
            plan = replace(make_plan(opened, CHIP, settings), held=False, levels=False)
            plan = replace(plan, **(shares or {}))
            assert not looked_at_here(settings, plan, CHIP, False)
            return map_network(opened, CHIP, settings, scratch, heard, plan=plan, workers=workers)

    return run


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return a function that puts programs on PATH before the installed ones."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, text: str = "#!/bin/sh\nexit 1\n") -> None:
        path = folder / name
        path.write_text(text.replace("{python}", sys.executable))
        path.chmod(0o755)

    return put


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Return a function that sets values of the user's jobqueue files."""
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask_jobqueue")

    def set_all(system: str, **values: object) -> None:
        for name, value in values.items():
            dask.config.set({f"jobqueue.{system}.{name.replace('_', '-')}": value})

    before = deepcopy(dask.config.config)
    dask.config.set({"temporary-directory": str(tmp_path)})
    yield set_all
    dask.config.config.clear()
    dask.config.config.update(before)
