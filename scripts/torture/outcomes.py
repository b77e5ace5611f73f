"""How a case ends, and whether a message is one that users can understand."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from typing import NamedTuple

from scripts.torture.running import TRACEBACK, Ran

REFUSED, RIGHT, WRONG, RAISED, STUCK = "refused", "right", "wrong", "traceback", "not resumable"
FAULTS = (WRONG, RAISED, STUCK)
CODES = (1, 2, 3, 4)
"""Exit codes of commands that fail; see docs/reference/exit-codes.md."""
NO_FIT = 3
LONGEST_LINE = 1000  # characters, including paths
INTERNAL = re.compile(
    r"NoneType|bad_alloc|fault of mapper|internal error|not subscriptable|0x[0-9a-f]{6}|"
    r"Errno|(?<![-\w])\w+Error:|Exception ignored"
)
"""Words that users cannot understand, or that show an unforeseen fault."""

KILLED = (signal.SIGKILL,)
CRASHED = (signal.SIGABRT, signal.SIGSEGV)
"""Ends of commands in which an allocation fails: numpy writes to buffers that it did not get, and
libraries in C++ abort. Their output must be as after a kill."""
OF_SEVERAL = re.compile(r"(run|seed)-\d+: failed: |limit exceeded: ")
"""Begins of lines of which a command prints several: failed runs, and cores over a limit."""


class Outcome(NamedTuple):
    """Result of a case.

    what : the case in words: command and fault
    said : the message of the command, or the fault
    seconds : processor seconds of a refusal; 0 if it was not refused
    grown : bytes of memory above the ones at the start; 0 if they were not measured
    """

    family: str
    seed: int
    how: str
    what: str
    said: str = ""
    seconds: float = 0.0
    grown: int = 0


def unclear(ran: Ran, signals: Collection[int] = ()) -> tuple[str, str] | None:
    """Return kind and text of the fault in the way that a command ended, None if there is none.

    signals : signals that the fault may end the command with
    """
    if ran.hung:
        return WRONG, f"hangs: {ran.said[-300:]}"
    if ran.code == TRACEBACK:
        return RAISED, ran.said[-2000:]
    if ran.code < 0:
        if -ran.code in signals:
            return None
        return WRONG, f"ends with signal {-ran.code}: {ran.said[-300:]}"
    if "Traceback" in ran.said:
        return RAISED, ran.said[-2000:]
    if INTERNAL.search(ran.said):
        return WRONG, f"says words of Python: {ran.said[-500:]}"
    if ran.code == 0:
        return None
    if ran.code not in CODES:
        return WRONG, f"ends with {ran.code}: {ran.said[-300:]}"
    lines = [line for line in ran.said.splitlines() if line and not line.startswith("note: ")]
    several = [line for line in lines if OF_SEVERAL.match(line)]
    if not several and len(lines) != 1:
        return WRONG, f"ends with {ran.code} and {len(lines)} lines: {ran.said[-500:]!r}"
    # "mapper: " begins the line of an installation that cannot be used, and "does not fit: " the
    # answer of `check`
    begins = ("mapper ", "mapper: ", *(("does not fit: ",) if ran.code == NO_FIT else ()))
    if not all(line.startswith(begins) for line in set(lines) - set(several)):
        return WRONG, f"ends with {ran.code} without a line of its kind: {ran.said[-300:]!r}"
    if len(lines[-1]) > LONGEST_LINE:
        return WRONG, f"says {len(lines[-1])} characters: {lines[-1][:200]!r}"
    return None
