"""Ten spiking networks of some hundred neurons, for `bench_time.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hw.core.network import SpikingNetwork
from storage.generate.microcircuit import NEURONS, PROBABILITIES

Ids = NDArray[np.int64]


def _network(
    rng: np.random.Generator, n: int, source: Ids, target: Ids, weight: Ids | None = None,
    **parameters: Any,
) -> SpikingNetwork:  # fmt: skip
    """Build a network; by default 4 of 5 neurons excite, and bias currents drive activity."""
    if weight is None:
        strength = rng.integers(10, 30, source.size)
        weight = np.where(source % 5 > 0, strength, -2 * strength)
    own = {
        "threshold": rng.integers(180, 300, n),
        "potential_decay": 4096 - (4096 >> rng.integers(2, 6, n)),
        "potential_bias": rng.integers(-4, 40, n), "subtract": rng.integers(0, 2, n),
        "potential": rng.integers(-50, 180, n),
    }  # fmt: skip
    return SpikingNetwork(n, source, target, weight, **(own | parameters))


def balanced(n: int, degree: int, seed: int) -> SpikingNetwork:
    """Uniformly random synapses."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(n), degree)
    return _network(rng, n, source, rng.integers(0, n, source.size))


def sheet(side: int, degree: int, sigma: float, seed: int) -> SpikingNetwork:
    """A torus with synapses to nearby neurons."""
    rng = np.random.default_rng(seed)
    n = side * side
    source = np.repeat(np.arange(n), degree)
    dx, dy = np.rint(rng.normal(0, sigma, (2, source.size))).astype(np.int64)
    target = (source // side + dy) % side * side + (source % side + dx) % side
    return _network(rng, n, source, target)


def clusters(n: int, count: int, degree: int, seed: int) -> SpikingNetwork:
    """Groups with six of seven synapses within the group."""
    rng = np.random.default_rng(seed)
    size = n // count
    source = np.repeat(np.arange(n), degree)
    within = source // size * size + rng.integers(0, size, source.size)
    anywhere = rng.integers(0, n, source.size)
    target = np.where(rng.random(source.size) < 6 / 7, within, anywhere) % n
    return _network(rng, n, source, target)


def hubs(n: int, seed: int) -> SpikingNetwork:
    """A few neurons with synapses to a large part of the others."""
    rng = np.random.default_rng(seed)
    degree = np.minimum(n // 2, (3 * rng.pareto(1.2, n) + 1).astype(np.int64))
    source = np.repeat(np.arange(n), degree)
    return _network(rng, n, source, rng.integers(0, n, source.size))


def forward(sizes: tuple[int, ...], degree: int, seed: int) -> SpikingNetwork:
    """Feed-forward layers; the first is driven."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0, *sizes])
    source = np.repeat(np.arange(ends[-2]), degree)
    layer = np.searchsorted(ends, source, side="right")
    low, high = ends[layer], ends[layer + 1]
    target = low + rng.integers(0, 1 << 40, source.size) % (high - low)
    bias = np.zeros(ends[-1], np.int64)
    bias[: sizes[0]] = rng.integers(20, 90, sizes[0])
    return _network(
        rng, int(ends[-1]), source, target, rng.integers(10, 60, source.size), potential_bias=bias
    )


def chain(layers: int, width: int, degree: int, seed: int) -> SpikingNetwork:
    """A ring of groups through which waves of spikes travel (a synfire chain)."""
    rng = np.random.default_rng(seed)
    n = layers * width
    source = np.repeat(np.arange(n), degree)
    target = (source // width + 1) % layers * width + rng.integers(0, width, source.size)
    potential = np.zeros(n, np.int64)
    potential[:width] = potential[n // 2 : n // 2 + width // 2] = 480
    weight = np.full(source.size, 52)
    return _network(
        rng, n, source, target, weight, potential_bias=0, potential=potential, threshold=220,
        potential_decay=2048,
        subtract=0,
    )  # fmt: skip


def convolutional(side: int, channels: int, seed: int) -> SpikingNetwork:
    """Three layers with 4x4 kernels and stride 2; the first is driven."""
    rng = np.random.default_rng(seed)
    depths, sides = (1, channels, 2 * channels), (side, side // 2, side // 4)
    ends = np.cumsum([0, *(s * s * c for s, c in zip(sides, depths, strict=True))])
    sources, targets = [], []
    for layer in range(2):
        s, c, t, d = sides[layer], depths[layer], sides[layer + 1], depths[layer + 1]
        y, x, out, dy, dx, into = np.indices((t, t, d, 4, 4, c)).reshape(6, -1)
        row, column = 2 * y + dy - 1, 2 * x + dx - 1
        inside = (row >= 0) & (row < s) & (column >= 0) & (column < s)
        sources.append((ends[layer] + (row * s + column) * c + into)[inside])
        targets.append((ends[layer + 1] + (y * t + x) * d + out)[inside])
    source, target = np.concatenate(sources), np.concatenate(targets)
    bias = np.zeros(ends[-1], np.int64)
    bias[: ends[1]] = rng.integers(0, 120, ends[1])
    weight = rng.integers(-20, 60, source.size)
    return _network(rng, int(ends[-1]), source, target, weight, potential_bias=bias)


def microcircuit(n: int, seed: int) -> SpikingNetwork:
    """The cortical microcircuit with fewer neurons and the same connection probabilities."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(4, n * np.array(NEURONS) // sum(NEURONS))
    ends = np.cumsum([0, *sizes])
    sources, targets = [], []
    for t, s in np.ndindex(8, 8):
        count = rng.binomial(sizes[s] * sizes[t], PROBABILITIES[t][s])
        sources.append(rng.integers(ends[s], ends[s + 1], count))
        targets.append(rng.integers(ends[t], ends[t + 1], count))
    source, target = np.concatenate(sources), np.concatenate(targets)
    excites = np.searchsorted(ends, source, side="right") % 2 == 1
    weight = np.where(excites, rng.integers(8, 16, source.size), -rng.integers(24, 48, source.size))
    drive = np.repeat([8, 20, 22, 26, 34, 36, 12, 34], sizes)
    bias = (drive * rng.random(ends[-1]) * 1.6).astype(np.int64)
    return _network(rng, int(ends[-1]), source, target, weight, potential_bias=bias)


NETWORKS: dict[str, Callable[[], SpikingNetwork]] = {
    "balanced 400": lambda: balanced(400, 10, 1),
    "balanced 640": lambda: balanced(640, 4, 2),
    "sheet": lambda: sheet(22, 8, 1.5, 3),
    "wide sheet": lambda: sheet(18, 14, 3.0, 4),
    "clusters": lambda: clusters(480, 16, 10, 5),
    "hubs": lambda: hubs(400, 6),
    "forward": lambda: forward((200, 160, 120, 80), 6, 7),
    "chain": lambda: chain(12, 30, 8, 8),
    "convolutional": lambda: convolutional(12, 4, 9),
    "microcircuit": lambda: microcircuit(400, 10),
}
