"""Many processes that add rows to the catalogue, are killed at random, and others that read it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mapper.cache.catalogue import FILE
from mapper.cache.catalogue import Catalogue as Rows
from mapper.cache.location import FOLDER
from scripts.torture.family import Family, Random
from scripts.torture.outcomes import KILLED, RIGHT, WRONG, Outcome, unclear
from scripts.torture.running import Command, Ran, run

WRITERS = 64
ROWS = 4  # that a writer adds, unless it is killed
READ = "runs --json --last 1000000"
READERS = 8  # commands that read, at most
KILLED_READERS = 0.3  # part of them
PAUSE = 0.01  # seconds before a kill, at most
LONGEST = 120.0  # wall seconds of a case
PLACE = "catalogue"
"""Folder of the catalogue in the work folder."""

Added = tuple[int, int]
"""Number of a writer, and of its row."""


class Reader(NamedTuple):
    """A command that reads the catalogue. before : rows that were reported when it began"""

    command: Command
    before: frozenset[Added]


class Catalogue(Family):
    """Writers that report each row they have added; half of them, on average, are killed.

    Readers must find every row that was reported before they began. In the end each row that was
    reported or read exists once and unchanged, and a killed writer has at most one more.
    """

    name = "catalogue"

    def case(self, seed: int, random: Random) -> Outcome:
        folder = self.bench.fresh() / PLACE
        victims = random.permutation(WRITERS)[: int(random.integers(WRITERS + 1))].tolist()
        what = f"{WRITERS} writers, {len(victims)} killed"
        with _Writers(folder) as writers:
            fault = self._disturb(writers, victims, random)
            if (failed := writers.wait()) and not fault:
                fault = WRONG, f"writers that were not killed fail: {failed}"
            fault = fault or self._lost(writers)
        how, said = fault or (RIGHT, "")
        return Outcome(self.name, seed, how, what, said)

    def _disturb(
        self, writers: _Writers, victims: list[int], random: Random
    ) -> tuple[str, str] | None:
        """Kill writers and readers at random moments; return the first fault that a reader sees."""
        reader: Reader | None = None
        gaps = max(1, ROWS * WRITERS // (len(victims) + READERS))
        fault = None
        while writers.reported_more(int(random.integers(1, gaps + 1))):
            time.sleep(random.uniform(0, PAUSE))
            if victims and random.integers(len(victims) + READERS) >= READERS:
                writers.kill(victims.pop())
                continue
            if reader:
                fault = fault or self._read(reader, writers, random.random() < KILLED_READERS)
            reader = Reader(Command(READ.split(), self.bench.work, writers.use), writers.reported())
        if reader:
            fault = fault or self._read(reader, writers, False)
        return fault

    def _read(self, reader: Reader, writers: _Writers, kill: bool) -> tuple[str, str] | None:
        """Wait for a reader, or kill it; return a fault."""
        if kill:
            reader.command.kill()
        ran = reader.command.wait()
        if fault := unclear(ran, KILLED if kill else ()):
            return fault
        if ran.code:
            return None if kill else (WRONG, f"a reader ends with {ran.code}: {ran.said}")
        found, fault_text = _rows(ran)
        writers.read |= found
        if lost := reader.before - found:
            return WRONG, f"rows that were reported are not read: {_some(lost)}"
        return (WRONG, fault_text) if fault_text else None

    def _lost(self, writers: _Writers) -> tuple[str, str] | None:
        """Return the fault of the catalogue when all processes have ended."""
        ran = run(READ.split(), self.bench.work, writers.use)
        if fault := unclear(ran):
            return fault
        if ran.code:
            return WRONG, ran.said
        found, fault_text = _rows(ran)
        reported = writers.reported()
        if lost := (reported | writers.read) - found:
            return WRONG, f"rows that were reported or read are lost: {_some(lost)}"
        more = found - reported
        if more - {(one, writers.next_row(one)) for one in writers.killed}:
            return WRONG, f"rows that no writer added: {_some(more)}"
        if fault_text:
            return WRONG, fault_text
        names = sorted(path.name for path in writers.folder.iterdir())
        return (WRONG, f"files are left: {names}") if names != [FILE] else None


class _Writers:
    """Forked processes that add rows.

    read : rows that readers have found; killed : numbers of the processes that were killed
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: set[Added] = set()
        self.killed: set[int] = set()
        self._reported: list[Added] = []
        self._text = b""
        self._end, given = os.pipe()
        os.set_blocking(self._end, False)
        self._pids: dict[int, int] = {}
        self._begun = time.monotonic()
        for number in range(WRITERS):
            pid = os.fork()
            if not pid:
                self._work(number, given)
            self._pids[number] = pid
        os.close(given)

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_all()
        os.close(self._end)

    def use(self) -> None:
        """Let the commands of this process use the catalogue of the writers."""
        os.environ[FOLDER] = str(self.folder)

    def reported(self) -> frozenset[Added]:
        """Return the rows that were reported so far."""
        self._poll()
        return frozenset(self._reported)

    def next_row(self, number: int) -> int:
        """Return the row that a writer would have reported next."""
        return sum(1 for one, _ in self._reported if one == number)

    def reported_more(self, count: int) -> bool:
        """Wait for so many reports; return False if all writers ended before."""
        wanted = len(self._reported) + count
        while len(self._reported) < wanted:
            if not self._poll():
                return False
            if time.monotonic() - self._begun > LONGEST:
                self._kill_all()
            time.sleep(0.001)
        return True

    def kill(self, number: int) -> None:
        self.killed.add(number)
        os.kill(self._pids[number], signal.SIGKILL)

    def wait(self) -> list[tuple[int, int]]:
        """Wait for all writers; return numbers and codes of the ones that failed."""
        failed = []
        for number, pid in self._pids.items():
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code and not (number in self.killed and code == -signal.SIGKILL):
                failed.append((number, code))
        self._pids.clear()
        return failed

    def _kill_all(self) -> None:
        for pid in self._pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _poll(self) -> bool:
        """Read the reports; return False at their end."""
        open_ = True
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._end, 1 << 16):
                self._text += piece
            open_ = False
        *lines, self._text = self._text.split(b"\n")
        self._reported += [_added(line.decode()) for line in lines]
        return open_

    def _work(self, number: int, given: int) -> None:
        """Add rows in this process, a fork, and report each one in one write."""
        code = 1
        try:
            warnings.simplefilter("error")  # a note says that a row was not added
            catalogue = Rows(self.folder)
            for row in range(ROWS):
                name = f"{number}-{row}"
                catalogue.add(
                    "run", Path("net.bin"), Path(name), "4x4", {"text": name * (row * 40)},
                    {"hops": number * ROWS + row}, 1.0,
                )  # fmt: skip
                os.write(given, f"{name}\n".encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def _some(rows: frozenset[Added]) -> str:
    """Return the number of some rows, and the first ones."""
    return f"{len(rows)}, first {sorted(rows)[:5]}"


def _added(name: str) -> Added:
    number, _, row = name.partition("-")
    return int(number), int(row)


def _rows(ran: Ran) -> tuple[frozenset[Added], str]:
    """Return the rows that a reader has printed, and the fault of a row, or ""."""
    found = list(_printed(ran))
    rows = frozenset(found)
    if len(rows) < len(found):
        return rows, "a row is listed twice"
    return rows, ""


def _printed(ran: Ran) -> Iterator[Added]:
    for row in json.loads(ran.out)["runs"]:
        name = Path(row["folder"]).name
        number, at = _added(name)
        right = {"hops": number * ROWS + at}, {"text": name * (at * 40)}
        if (row["figures"], row["settings"]) == right:
            yield number, at
