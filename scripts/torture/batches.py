"""Many cases in one forked process: a fork per case would take longer than the cases."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator

from scripts.torture.family import Family, Random
from scripts.torture.outcomes import FAULTS, WRONG, Outcome

LONGEST = 30  # processor seconds of a case
WAITS = 300  # wall seconds of a case
MEMORY = 4 << 30  # bytes of a process


class Batches(Family):
    """A family whose cases run in the process that calls `case`, and undo their changes."""

    batch = 200

    def prepare(self, random: Random) -> None:
        """Prepare a case in the parent process, before the fork."""

    def cases(self, seeds: Iterable[int]) -> Iterator[Outcome]:
        """Run many cases in one fork, and continue in another after a fault or if it dies."""
        left = list(seeds)
        for seed in left:
            self.prepare(self.random(seed))
        while left:
            self.bench.fresh()
            place, given = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(place)
                self._work(left, given)
            os.close(given)
            with os.fdopen(place) as pipe:
                for line in pipe:
                    yield Outcome(*json.loads(line))
                    left.pop(0)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if code:
                seed = left.pop(0)
                hangs = code in (-signal.SIGALRM, -signal.SIGPROF)
                said = "hangs" if hangs else f"ends with {code}"
                yield Outcome(self.name, seed, WRONG, f"seed {seed}", said)

    def _work(self, seeds: list[int], given: int) -> None:
        """Run cases in this process, a fork, up to the first fault, whose folder remains.

        given : pipe for their outcomes
        """
        code = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            with os.fdopen(given, "w") as pipe:
                for seed in seeds:
                    os.chdir(self.bench.work)
                    signal.alarm(WAITS)
                    signal.setitimer(signal.ITIMER_PROF, LONGEST)
                    outcome = self.case(seed, self.random(seed))
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    signal.alarm(0)
                    pipe.write(json.dumps(outcome) + "\n")
                    pipe.flush()
                    if outcome.how in FAULTS:
                        break
                    self.bench.fresh()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
