"""Spiking networks of some hundred neurons, for `bench_time.py`.

`NETWORKS` are ten networks whose dynamics make them spike; `KINDS` are ten graphs of other kinds,
whose neurons spike at given rates.
"""

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


def small_world(n: int, degree: int, seed: int) -> SpikingNetwork:
    """A ring of neighbours with a tenth of the synapses to random targets (Watts, Strogatz)."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(n), degree)
    step = np.tile(np.arange(degree) - degree // 2, n)
    near = (source + np.where(step >= 0, step + 1, step)) % n
    return _network(rng, n, source, _rewired(rng, near, n, 0.1))


def scale_free(n: int, degree: int, seed: int) -> SpikingNetwork:
    """Targets chosen in proportion to their degree, in both directions (Barabasi, Albert)."""
    rng = np.random.default_rng(seed)
    ends = list(range(degree))
    pairs = []
    for new in range(degree, n):
        for old in {ends[at] for at in rng.integers(0, len(ends), degree)}:
            pairs.append((new, old) if rng.random() < 0.5 else (old, new))
            ends += [new, old]
    source, target = np.array(pairs).T
    return _network(rng, n, source, target)


def communities(sizes: tuple[int, ...], degree: int, seed: int) -> SpikingNetwork:
    """Communities of unequal sizes with a fifth of the synapses to random targets."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum([0, *sizes])
    source = np.repeat(np.arange(ends[-1]), degree)
    group = np.searchsorted(ends, source, side="right") - 1
    low, high = ends[group], ends[group + 1]
    within = low + rng.integers(0, 1 << 40, source.size) % (high - low)
    return _network(rng, int(ends[-1]), source, _rewired(rng, within, int(ends[-1]), 0.2))


def geometric(n: int, radius: float, seed: int) -> SpikingNetwork:
    """Points in a square, connected both ways below a distance."""
    rng = np.random.default_rng(seed)
    place = rng.random((n, 2))
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)
    source, target = np.nonzero((apart < radius) & (apart > 0))
    return _network(rng, n, source, target)


def lattice(side: int, seed: int) -> SpikingNetwork:
    """A cube with synapses to the six neighbours of each neuron, in random order of the ids."""
    rng = np.random.default_rng(seed)
    place = np.indices((side, side, side)).reshape(3, -1).T
    source, target = np.nonzero(np.abs(place[:, None] - place[None]).sum(axis=2) == 1)
    ids = rng.permutation(side**3)
    return _network(rng, side**3, ids[source], ids[target])


def nested(levels: int, size: int, degree: int, seed: int) -> SpikingNetwork:
    """Modules within modules: half the synapses stay in the smallest, a quarter in the next."""
    rng = np.random.default_rng(seed)
    n = size << levels
    source = np.repeat(np.arange(n), degree)
    module = size << np.minimum(rng.geometric(0.5, source.size) - 1, levels)
    target = source // module * module + rng.integers(0, 1 << 40, source.size) % module
    return _network(rng, n, source, target)


def core_periphery(n: int, core: int, degree: int, seed: int) -> SpikingNetwork:
    """A dense core that exchanges spikes with a sparse periphery."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(n), np.where(np.arange(n) < core, 4 * degree, degree))
    inner, anywhere = rng.integers(0, core, source.size), rng.integers(0, n, source.size)
    return _network(rng, n, source, np.where(rng.random(source.size) < 0.5, inner, anywhere))


def _rewired(rng: np.random.Generator, target: Ids, n: int, share: float) -> Ids:
    """Replace a share of the targets by random ones."""
    found: Ids = np.where(rng.random(target.size) < share, rng.integers(0, n, target.size), target)
    return found


KINDS: dict[str, Callable[[], SpikingNetwork]] = {
    "small world": lambda: small_world(500, 10, 21),
    "scale free": lambda: scale_free(480, 6, 22),
    "communities": lambda: communities((20, 30, 40, 60, 90, 160), 12, 23),
    "feed-forward": lambda: forward((150, 100, 120, 60, 90), 8, 24),
    "geometric": lambda: geometric(520, 0.08, 25),
    "random": lambda: balanced(560, 7, 26),
    "lattice": lambda: lattice(8, 27),
    "nested modules": lambda: nested(5, 16, 9, 28),
    "core and periphery": lambda: core_periphery(450, 60, 5, 29),
    "hourglass": lambda: forward((180, 90, 30, 90, 180), 7, 30),
}
