"""Progress of a run: stages on the terminal, lines in the log, and data for the report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from mapper.concurrency.interrupts import Stop
from mapper.monitoring.callbacks import OnProgress
from mapper.monitoring.resources import PeakSampler, bytes_moved, peak_rss_bytes
from mapper.planning.sampling import Sample
from storage.closing import Closing
from storage.printable import plain

if TYPE_CHECKING:
    from chipsim.traffic.arrays import Traffic

TICK = 0.5  # seconds between updates of the progress bar
LINE = 60.0  # least seconds between lines of the log while a stage writes none itself


class Observer:
    """Receives intermediate results for the report; this base class ignores them."""

    def on_partition(self, part: NDArray[np.int32]) -> None:
        """Receive the partition at the end of a stage; part : shape (vertices,)."""

    def on_level(self, level: dict[str, Any], cut: int, hops: int, placed: bool) -> None:
        """Receive the data of a level; placed : whether its hops are between placed parts."""

    def on_nets(self, **costs: int) -> None:
        """Receive the cost by nets: `connectivity`, or `hops_total` after placement."""

    def settle(self, traffic: Traffic) -> None:
        """Receive the traffic of the finished mapping."""


@dataclass
class Monitor(Closing):
    """Collects stages, levels and resources; shows progress if its console is a terminal.

    on_progress : called with the running stage and the completed fraction of its pass, 0 .. 1
    connections : number in all blocks of the network, visited by one pass
    visited : connections visited by all passes so far
    observer : receives the results of stages
    sample : sample used by the initial partition, if there was one
    stop : checked with each progress report: a run may be asked to end
    finishing : only scoring and writing are left, so the run no longer stops early
    estimates : seconds of stages, by name, to show progress of stages without a count

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
    connections: int = 0
    on_progress: OnProgress | None = None
    observer: Observer = field(default_factory=Observer)
    sample: Sample | None = None
    stop: Stop = field(default_factory=Stop)
    finishing: bool = False
    estimates: dict[str, float] = field(default_factory=dict)
    _log: TextIO | None = None
    _progress: Progress | None = None
    _expected: int = 0
    _done: int = 0
    _since: float = 0.0
    _watched: float = 0.0
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._start = time.perf_counter()
        self._moved = bytes_moved()
        self._sampler = PeakSampler()
        self._stage = ""
        self.at_work: dict[str, Any] = {}  # the running stage, or the last one
        self._lock = Lock()
        self._said = self._start  # time of the last line
        self._ended = Event()
        self._ticker = Thread(target=self._tick, daemon=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage of the method and record its peak of anonymous memory."""
        self.look()
        self._stage = name
        stage = self.at_work = {
            "name": name,
            "seconds": 0.0,
            "cpu_seconds": 0.0,
            "peak_anon_bytes": 0,
        }
        self.stop.phase = ""
        self._began = self._said = time.perf_counter()
        self.expect(0)
        start, cpu = time.perf_counter(), time.process_time()
        self._sampler.take()
        self._show(name)
        self._notify(name, 0.0)
        try:
            yield
            self._notify(name, 1.0)
        finally:
            seconds = time.perf_counter() - start
            self._stage = ""
            stage["seconds"] = round(seconds, 4)
            stage["cpu_seconds"] = round(time.process_time() - cpu, 4)
            stage["peak_anon_bytes"] = self._sampler.take()
            self.stages.append(stage)
            self.write(f"{name}: {seconds:.2f} s wall, {stage['cpu_seconds']:.2f} s CPU")

    @contextmanager
    def untimed(self) -> Iterator[None]:
        """Exclude time from the run: compilation of kernels on first use."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._start += time.perf_counter() - start

    def expect(self, work: int) -> None:
        """Announce the number of connections that the stage will visit from now on."""
        self._expected, self._done, self._since = work, 0, time.perf_counter()
        self._watched = 0.0
        if self._progress is not None:
            self._progress.reset(self._task, total=work or None, rate="")

    def advance(self, done: int) -> None:
        """Count visited connections; may be called by several threads."""
        self.look()
        with self._lock:
            self._done += done
            self.visited += done
            if self.on_progress is not None and self._expected:
                fraction = min(self._done / self._expected, 1.0)
                if fraction >= self._watched + 0.01:  # at most a hundred times per pass
                    self._watched = fraction
                    self._notify(self._stage, fraction)
            if self._progress is not None:
                rate = self._done / max(time.perf_counter() - self._since, 1e-6) / 1e6
                self._progress.update(
                    self._task, completed=self._done, rate=f"{rate:.0f} M connections/s"
                )

    def note(self, text: str) -> None:
        """Write a detail of the running stage."""
        self.look()
        self.write(f"  {text}")
        self._show(f"{self._stage}: {text}")

    def level(self, vertices: int, connections: int) -> None:
        """Record a level of the hierarchy, finest first; its cut may be set later."""
        entry = {"vertices": vertices, "connections": connections, "cut_weight": None}
        self.levels.append(entry)
        self.note(f"{vertices:,} vertices, {connections:,} connections")

    def restore_levels(self, levels: list[list[int]]) -> None:
        """Restore the levels of an earlier run: vertices, connections and cut of each."""
        names = ("vertices", "connections", "cut_weight")
        self.levels[:] = [dict(zip(names, level, strict=True)) for level in levels]

    def resources(self) -> dict[str, Any]:
        """Return the entry `resources` of report.json, up to now."""
        read, written = bytes_moved()
        self._sampler.take()
        return {
            "seconds": round(time.perf_counter() - self._start, 4),
            "peak_rss_bytes": peak_rss_bytes(),
            "peak_anon_bytes": self._sampler.overall,
            "bytes_read": read - self._moved[0],
            "bytes_written": written - self._moved[1],
            "connections_visited": self.visited,
            "passes": round(self.visited / self.connections, 2) if self.connections else 0.0,
        }

    def _notify(self, stage: str, fraction: float) -> None:
        """Report progress to the caller, which may raise `KeyboardInterrupt`."""
        if self.on_progress is not None:
            try:
                self.on_progress(stage, fraction)
            except KeyboardInterrupt:
                self.stop.ask()

    def look(self) -> None:
        """Raise `StoppedError` if the run should end early, unless it is finishing anyway."""
        if not self.finishing:
            self.stop.check()

    def _show(self, text: str) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description=text)

    def _tick(self) -> None:
        """Update progress bar and log while a stage runs."""
        while not self._ended.wait(TICK):
            stage, now = self._stage, time.perf_counter()
            if not stage:
                continue
            phase = self.stop.phase
            text = f"{stage}: {phase}" if phase else stage
            estimate = self.estimates.get(stage, 0.0)
            share = estimated_share(now - self._began, estimate)
            if self._expected:
                share = min(1.0, self._done / self._expected)
            elif self._progress is not None and estimate:
                self._progress.update(self._task, completed=share, total=1.0)
            if phase:
                self._show(text)
            if now - self._said >= LINE:
                done = f", about {share:.0%}" if self._expected or estimate else ""
                self.write(f"  {text}{done} after {now - self._began:.0f} s")

    def write(self, line: str) -> None:
        """Write a line to the log, and to the terminal if verbose."""
        self._said = time.perf_counter()
        line = plain(line)
        if self._log is not None:
            self._log.write(f"{time.perf_counter() - self._start:9.2f} {line}\n")
        if self.console is not None and self.verbose:
            self.console.print(line, highlight=False, markup=False)

    def __enter__(self) -> Monitor:
        if self.log is not None:
            self._log = self.log.open("w", encoding="utf-8", buffering=1)
        self._sampler.__enter__()
        self._ticker.start()
        if self.console is not None and self.console.is_terminal and not self.console.quiet:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self.console,
                transient=True,
            )
            self._task = self._progress.add_task("starting", total=None, rate="")
            self._progress.start()
        return self

    def close(self) -> None:
        self._ended.set()
        self._ticker.join()
        self._sampler.close()
        if self._progress is not None:
            self._progress.stop()
        if self._log is not None:
            self._log.close()
            self._log = None


def estimated_share(seconds: float, estimate: float) -> float:
    """Return the estimated completed share of a stage; always below 1.

    The last tenth of the bar is for stages that take longer than estimated.
    """
    if estimate <= 0:
        return 0.0
    ratio = seconds / estimate
    return ratio * 0.9 if ratio < 1 else 1 - 0.1 / ratio
