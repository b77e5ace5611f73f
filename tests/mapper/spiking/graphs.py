"""Small NIR graphs and samples in files, for tests of commands."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

INPUTS, HIDDEN, CLASSES = 12, 20, 4


def save_graph(path: Path, seed: int = 0, dt: float | None = None, **changes: Any) -> None:
    """Write a network of two layers, of which the first is recurrent.

    dt : time step in the metadata of the file
    changes : further nodes, or others in their place
    """
    nir = pytest.importorskip("nir", reason="needs nir")
    rng = np.random.default_rng(seed)

    def layer(size: int, tau: float) -> Any:
        ones = np.ones(size)
        return nir.CubaLIF(tau_syn=tau / 4 * ones, tau_mem=tau * ones, r=ones, v_leak=0 * ones,
                           v_threshold=ones)  # fmt: skip

    nodes = {
        "input": nir.Input({"input": np.array([INPUTS])}),
        "fc1": nir.Linear(rng.normal(1.0, 4.0, (HIDDEN, INPUTS))),
        "hidden": layer(HIDDEN, 20e-3),
        "recurrent": nir.Linear(rng.normal(0.0, 1.0, (HIDDEN, HIDDEN))),
        "fc2": nir.Linear(rng.normal(1.0, 4.0, (CLASSES, HIDDEN))),
        "classes": layer(CLASSES, 10e-3),
        "output": nir.Output({"output": np.array([CLASSES])}),
        **changes,
    }
    chain = ["input", "fc1", "hidden", "fc2", "classes", "output"]
    edges = [*pairwise(chain), ("hidden", "recurrent"), ("recurrent", "hidden")]
    metadata = {} if dt is None else {"dt": dt}
    nir.write(path, nir.NIRGraph(nodes, edges, metadata=metadata))


def save_spikes(path: Path, samples: int = 6, seed: int = 1) -> None:
    """Write random spikes of 40 ticks, with labels."""
    rng = np.random.default_rng(seed)
    x = rng.random((samples, 40, INPUTS)) < 0.2
    np.savez(path, x=x, y=rng.integers(0, CLASSES, samples))
