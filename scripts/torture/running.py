"""Commands in forked processes: start after all imports, and end with a code and its texts.

A fresh interpreter takes a second to import the commands; a fork takes milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.util import _run_finalizers
from pathlib import Path
from typing import NamedTuple

import psutil

from mapper.cli.main import main

TRACEBACK = 99
"""Exit code of a command that raised an error of another kind than commands report."""
LONGEST = 300.0  # wall seconds, on a busy machine; then a command counts as hanging
PATIENCE = 5.0  # seconds in which processes end that a command left
Prepare = Callable[[], None]


class Ran(NamedTuple):
    """How a command ended.

    code : exit code; negative: number of the signal that killed it
    seconds : of the processor, with all processes that it waited for
    hung : whether it was killed because it took too long
    grown : bytes of memory, at its peak, above the ones at its start
    """

    code: int
    out: str
    said: str
    seconds: float
    hung: bool = False
    grown: int = 0


class Command:
    """A command line in a process of its group, which runs in a folder.

    prepare : is called in the process before the command, for limits and faults
    finish : is called in the process after a command that ended with 0
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        prepare: Prepare | None = None,
        finish: Prepare | None = None,
    ) -> None:
        self.words = tuple(words)
        pipes = [os.pipe(), os.pipe()]  # files would fall under limits of the command
        self._ends, self._given = [end for end, _ in pipes], [given for _, given in pipes]
        self._texts = [bytearray(), bytearray()]
        sys.stdout.flush()
        self.begun = time.monotonic()
        self._first = _resident()
        self.pid = os.fork()
        if not self.pid:
            self._child(folder, prepare, finish)
        for end, given in pipes:
            os.close(given)
            os.set_blocking(end, False)

    def _child(self, folder: Path, prepare: Prepare | None, finish: Prepare | None) -> None:
        code = TRACEBACK
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.chdir(folder)
            for number, given in enumerate(self._given, 1):
                os.dup2(given, number)
                os.close(given)
            for end in self._ends:
                os.close(end)
            sys.argv = ["mapper", *self.words]
            if prepare:
                prepare()
            code = main(self.words)
            if finish and not code:
                finish()
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            with contextlib.suppress(BaseException):
                traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                _run_finalizers()  # of processes that it started; the end below skips them
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def kill_group(self) -> None:
        """End the processes that the command left.

        SIGTERM comes first: the process that removes their semaphores ignores it, and ends after
        all others.
        """
        end = time.monotonic() + PATIENCE
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
            while time.monotonic() < end and _is_alive(self.pid):
                time.sleep(0.05)
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self, longest: float = LONGEST) -> Ran:
        """Return how the command ended; kill it after `longest` seconds."""
        hung = False
        while not (found := os.wait4(self.pid, os.WNOHANG))[0]:
            if time.monotonic() - self.begun > longest and not hung:
                hung = True
                self.kill()
            self._read()
            time.sleep(0.002)
        _, status, used = found
        code = os.waitstatus_to_exitcode(status)
        self._read()
        for end in self._ends:
            os.close(end)
        out, said = (text.decode(errors="replace") for text in self._texts)
        grown = max(0, (used.ru_maxrss << 10) - self._first)
        return Ran(code, out, said, used.ru_utime + used.ru_stime, hung, grown)

    def _read(self) -> None:
        """Read all that the command has printed so far."""
        for end, text in zip(self._ends, self._texts, strict=True):
            with contextlib.suppress(BlockingIOError):
                while piece := os.read(end, 1 << 16):
                    text += piece


def _resident() -> int:
    """Return the bytes of memory of this process, with which a fork begins; 0 if unknown."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _is_alive(group: int) -> bool:
    """Return whether a process group has processes that have not ended."""
    for one in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(one.pid) == group and one.info["status"] != psutil.STATUS_ZOMBIE:
                return True
    return False


def run(
    words: Sequence[str],
    folder: Path,
    prepare: Prepare | None = None,
    finish: Prepare | None = None,
    longest: float = LONGEST,
) -> Ran:
    """Run a command to its end, and end the processes that it left."""
    command = Command(words, folder, prepare, finish)
    try:
        return command.wait(longest)
    finally:
        command.kill_group()
