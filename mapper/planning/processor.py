"""Speed of this processor relative to the reference machine of the time estimates."""

from __future__ import annotations

import time

import numpy as np

TRIES = 3  # the fastest counts: others may have been interrupted
STEPS = 100_000  # iterations of a Python loop, which measures the core
LOOKS = 1_000_000  # look-ups in an array larger than most caches, which measure memory
USUAL = 0.0034, 0.0040  # seconds of both on the reference machine


def slowness() -> float:
    """Return the time of this processor relative to the reference, measured in about 0.1 s."""
    place = np.random.default_rng(0).integers(0, 4 * LOOKS, LOOKS)
    values = np.zeros(4 * LOOKS)

    def steps() -> None:
        total = 0
        for step in range(STEPS):
            total += step & 7

    def looks() -> None:
        values[place]

    times = []
    for work in (steps, looks):
        found = []
        for _ in range(TRIES):
            started = time.thread_time()
            work()
            found.append(time.thread_time() - started)
        times.append(min(found))
    ratios = [spent / usual for spent, usual in zip(times, USUAL, strict=True)]
    return float(np.sqrt(ratios[0] * ratios[1]))
