"""Helpers that read the exported mapping: cores, attributes, synapses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from storage.store.network import NetworkFile
from tests.mapper.helpers import synapses_of

Array = np.ndarray[Any, Any]
N, WIDTH, HEIGHT = 40, 4, 3
CHIP = ("--chip", "mine.toml", "--preset", "fast", "--threads", "1", "-q")
TOML = """width = 4
height = 3
neurons = 8
unavailable = [11]
energy_router = 1.5
energy_link = 2.5
"""


def core_of(out: Path) -> Array:
    with np.load(out / "mapping.npz") as file:
        core: Array = file["core"]
    return core


def attribute(name: str, path: str = "net.bin") -> list[int]:
    with NetworkFile(Path(path)) as network:
        return network.attribute(name).stored.tolist()


def synapses(path: str = "net.bin") -> dict[tuple[int, int], float]:
    return synapses_of(Path(path))
