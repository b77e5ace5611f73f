"""Detection of stragglers: workers much slower than the others, by the time of their calls.

A pass ends when the workers together have read as many entries as the rows have, so that all of
them did the same kind of work. Stragglers get fewer shards. Results do not depend on the assignment
of shards.
"""

from __future__ import annotations

from statistics import median_low

FACTOR = 4.0  # least time per entry of a straggler, in units of the median
PASSES = 3  # consecutive slow passes that make a worker a straggler
WORTH = 1.0  # seconds per pass; faster workers delay nobody
PART = 3  # one in PART shards moves to others after each pass


class Stragglers:
    """Seconds and entries of each worker in a pass, and its consecutive slow passes.

    slow : stragglers, including those without shards
    """

    def __init__(self, entries: int) -> None:
        """entries : number of entries of the rows."""
        self._pass = max(1, entries)
        self._work: dict[int, tuple[float, int]] = {}
        self._in_a_row: dict[int, int] = {}
        self.slow: set[int] = set()

    def add(self, worker: int, seconds: float, entries: int) -> None:
        """Add the time and the entries of a call."""
        before, looked_at = self._work.get(worker, (0.0, 0))
        self._work[worker] = before + seconds, looked_at + entries

    def forget(self, worker: int) -> None:
        """Forget a lost worker; its replacement is measured afresh."""
        self._work.pop(worker, None)
        self._in_a_row.pop(worker, None)
        self.slow.discard(worker)

    def found(self) -> dict[int, float]:
        """Return the stragglers if a pass has ended, with their time per entry over the median.

        Uses the lower median: with two workers this is the faster one, and a worker at the median
        is never a straggler. Workers that were idle in the pass keep their status.
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
