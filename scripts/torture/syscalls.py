"""Faults at one random system call, or allocation, of a command."""

from __future__ import annotations

from scripts.torture.bench import Job
from scripts.torture.family import Family, Random, one_of, some_job
from scripts.torture.outcomes import CRASHED, KILLED, Outcome
from scripts.torture.recovery import recovered, start
from scripts.torture.running import run
from scripts.torture.shim import DIES, FAULTS, FULL, Fault


class SystemCalls(Family):
    """Kill, torn, short, lost or failing calls, and power cuts after the end."""

    name = "system calls"
    share = 6.0

    def skipped(self) -> str:
        return "" if self.bench.shim else "no C compiler (cc)"

    def case(self, seed: int, random: Random) -> Outcome:
        shim = self.bench.shim
        assert shim is not None
        job = some_job(random)
        begun = start(self.bench, job, random)
        fault = self._fault(job, random)
        ran = run(begun.words, self.bench.work, lambda: shim.arm(fault), shim.power_cut)
        signals: tuple[int, ...] = ()
        if shim.counts()[1]:
            signals = KILLED if fault.action in DIES else CRASHED * (fault.call == "allocate")
        return recovered(self.bench, begun, ran, seed, self.name, str(fault), signals, random)

    def _fault(self, job: Job, random: Random) -> Fault:
        """Return a fault at a random call of the undisturbed command."""
        seed = int(random.integers(1 << 30))
        if random.integers(12) == 0:
            return Fault(action=one_of(random, ("lost", "reordered")), seed=seed)
        counts = self.bench.right(job).calls
        call = one_of(random, [name for name in FAULTS if counts[name]])
        action, error = one_of(random, FAULTS[call])
        sticky = error == FULL and random.integers(2) == 0
        return Fault(call, int(random.integers(counts[call])) + 1, action, error, sticky, seed)
