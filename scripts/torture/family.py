"""A family of cases: the same seed gives the same case."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from scripts.torture.bench import JOBS, Bench, Job
from scripts.torture.outcomes import Outcome

Random = np.random.Generator


class Family:
    """Cases of one kind of fault.

    name : of the family; share : part of the time, relative to others
    batch : cases that one call runs
    """

    name = ""
    share = 1.0
    batch = 1

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def skipped(self) -> str:
        """Return why this machine cannot run the family, or ""."""
        return ""

    def cases(self, seeds: Iterable[int]) -> Iterator[Outcome]:
        """Run cases and yield their outcomes."""
        for seed in seeds:
            yield self.case(seed, self.random(seed))

    def case(self, seed: int, random: Random) -> Outcome:
        """Run the case of a seed."""
        raise NotImplementedError

    def random(self, seed: int) -> Random:
        return np.random.default_rng([seed, zlib.crc32(self.name.encode())])


def one_of(random: Random, some: Sequence[Any]) -> Any:
    """Return a random element."""
    return some[int(random.integers(len(some)))]


def some_job(random: Random, jobs: tuple[Job, ...] = JOBS) -> Job:
    """Return a random job by weight."""
    weights = np.array([job.weight for job in jobs])
    return jobs[int(random.choice(len(jobs), p=weights / weights.sum()))]
