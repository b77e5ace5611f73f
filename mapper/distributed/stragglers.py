"""Which workers are much slower than the others, by how long their calls took.

A pass is so much work that the rows have been looked at once, by all workers together, so that all
of them did the same kind of work in it. Nothing here decides what a run finds: workers that are
slow get fewer shards, and results are the same whoever has which.
"""

from __future__ import annotations

from statistics import median_low

FACTOR = 4.0  # times the median that a straggler takes for an entry, at least
PASSES = 3  # in a row until a worker is called one
WORTH = 1.0  # seconds of a worker in a pass, below which it holds up nobody
PART = 3  # one shard in so many goes to others after each pass


class Stragglers:
    """Seconds and entries of each worker in a pass, and who was slow in how many in a row.

    slow : workers that are stragglers, those that have no shard left among them
    """

    def __init__(self, entries: int) -> None:
        """entries : of the rows"""
        self._pass = max(1, entries)
        self._work: dict[int, tuple[float, int]] = {}
        self._in_a_row: dict[int, int] = {}
        self.slow: set[int] = set()

    def add(self, worker: int, seconds: float, entries: int) -> None:
        """A worker has looked at so many entries in so many seconds."""
        before, looked_at = self._work.get(worker, (0.0, 0))
        self._work[worker] = before + seconds, looked_at + entries

    def forget(self, worker: int) -> None:
        """It is lost; what comes in its place is measured from here on."""
        self._work.pop(worker, None)
        self._in_a_row.pop(worker, None)
        self.slow.discard(worker)

    def found(self) -> dict[int, float]:
        """The stragglers of a pass, where one ends here, with their seconds an entry over the
        median.

        The lower one of two medians: of two workers that of the other, and a worker of the median
        is no straggler. Who did nothing in the pass stays what it is.
        """
        if sum(entries for _, entries in self._work.values()) < self._pass:
            return {}
        pace = {one: seconds / count for one, (seconds, count) in self._work.items() if count}
        median = median_low(pace.values())
        found: dict[int, float] = {}
        for worker, own in pace.items():
            late = own >= FACTOR * median and self._work[worker][0] >= WORTH
            self._in_a_row[worker] = self._in_a_row.get(worker, 0) + 1 if late else 0
            if self._in_a_row[worker] >= PASSES:
                found[worker] = own / median
        self.slow = (self.slow - pace.keys()) | found.keys()
        self._work = {}
        return found
