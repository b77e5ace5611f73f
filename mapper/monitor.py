"""What a run says while it works: stages on the terminal, lines in the log, numbers to report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.status import Status

from mapper.resources import PeakSampler, bytes_moved, peak_rss_bytes
from storage.closing import Closing


@dataclass
class Monitor(Closing):
    """Collects stages, levels and resources; shows progress if its console is a terminal.

    ::

        with Monitor(console) as monitor:
            with monitor.stage("coarsen"):
                monitor.note("level 1: 512 vertices")
    """

    console: Console | None = None
    verbose: bool = False
    log: Path | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    levels: list[dict[str, Any]] = field(default_factory=list)
    visited: int = 0
    _expected: int = 0
    _done: int = 0
    _log: TextIO | None = None
    _status: Status | None = None

    def __post_init__(self) -> None:
        self._start = time.perf_counter()
        self._moved = bytes_moved()
        self._sampler = PeakSampler()
        self._stage = ""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A step of the method: timed, its peak of anonymous memory noted."""
        self._stage = name
        start, cpu = time.perf_counter(), time.process_time()
        self._sampler.take()
        self._show(name)
        try:
            yield
        finally:
            seconds = time.perf_counter() - start
            stage = {
                "name": name,
                "seconds": round(seconds, 4),
                "cpu_seconds": round(time.process_time() - cpu, 4),
                "peak_anon_bytes": self._sampler.take(),
            }
            self.stages.append(stage)
            self._write(f"{name}: {seconds:.2f} s, {stage['cpu_seconds']:.2f} s of all cores")

    def expect(self, work: int) -> None:
        """Announce how many connections the stage at work will visit from now on."""
        self._expected = work
        self._done = 0

    def advance(self, done: int) -> None:
        """Take down connections that were visited; may be called by several threads."""
        self._done += done
        self.visited += done

    def note(self, text: str) -> None:
        """A detail of the stage at work."""
        self._write(f"  {text}")
        self._show(f"{self._stage}: {text}")

    def level(self, vertices: int, connections: int) -> None:
        """Take down a level of the hierarchy, finest first; its cut may come later."""
        entry = {"vertices": vertices, "connections": connections, "cut_weight": None}
        self.levels.append(entry)
        self.note(f"{vertices:,} vertices, {connections:,} connections")

    def resources(self) -> dict[str, Any]:
        """The `resources` of report.json, up to now."""
        read, written = bytes_moved()
        self._sampler.take()
        return {
            "seconds": round(time.perf_counter() - self._start, 4),
            "peak_rss_bytes": peak_rss_bytes(),
            "peak_anon_bytes": self._sampler.overall,
            "bytes_read": read - self._moved[0],
            "bytes_written": written - self._moved[1],
        }

    def _show(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)

    def _write(self, line: str) -> None:
        if self._log is not None:
            self._log.write(f"{time.perf_counter() - self._start:9.2f} {line}\n")
        if self.console is not None and self.verbose:
            self.console.print(line, highlight=False, markup=False)

    def __enter__(self) -> Monitor:
        if self.log is not None:
            self._log = self.log.open("w", encoding="utf-8", buffering=1)
        self._sampler.__enter__()
        if self.console is not None and self.console.is_terminal:
            self._status = self.console.status("starting")
            self._status.start()
        return self

    def close(self) -> None:
        self._sampler.close()
        if self._status is not None:
            self._status.stop()
        if self._log is not None:
            self._log.close()
            self._log = None
