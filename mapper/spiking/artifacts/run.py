"""Run a compiled spiking model on samples: spikes, comparisons, cycles, energy and hardware.

`mapper simulate` and Python call `run_folder`; the figures of a run are a JSON object.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chipsim.traffic.energies import CountedWork, energy_of_run
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import UsageError
from mapper.inputs.listener import Listener
from mapper.spiking.artifacts.cycles import CycleCounter, TickCycles
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.artifacts.simulate import (
    CoresCheck,
    OutputCounts,
    check_run,
    count_outputs,
    run_digest,
    wrap_warning,
)
from mapper.spiking.pipeline import SampleSource, samples_of
from mapper.spiking.simulate import CoresMachine, CoresRun
from storage.samples.spikes import SpikeSamples


class SpikesRequest(NamedTuple):
    """A run of a compiled spiking model.

    limit : number of samples, from the first; None for all
    check : compare all spikes with the integer reference, and with the model in floating point
    cycles : count the cycles of each tick
    hardware : also run the samples in Amaranth
    record : whether spikes of all populations are kept, not only of the outputs
    """

    samples: SampleSource
    limit: int | None = None
    check: bool = False
    cycles: bool = False
    hardware: bool = False
    record: bool = False
    threads: int = 1

    @property
    def where(self) -> str:
        """The samples, for messages."""
        return str(self.samples) if isinstance(self.samples, Path) else "samples"


class SpikesRun(NamedTuple):
    """Results of a run; check, cycles, hardware : None if not requested"""

    folder: SpikingFolder
    samples: SpikeSamples
    cores: CoresRun
    outputs: list[OutputCounts]
    check: CoresCheck | None = None
    cycles: TickCycles | None = None
    hardware: dict[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the figures of the run, as in the report."""
        names = [each.name for each in self.folder.model.populations]
        found: dict[str, Any] = {
            "samples": self.samples.samples,
            "ticks": self.samples.ticks,
            "outputs": [_output(each, self.samples) for each in self.outputs],
            "spikes": self.cores.fired,
            "events": self.cores.events,
            "saturated": dict(zip(names, self.cores.saturated, strict=True)),
            "sha256": run_digest(self.folder, self.cores),
        }
        if self.check is not None:
            found |= {
                "elements": self.check.spikes,
                "differences": self.check.differences,
                "model": {
                    "populations": [
                        each._asdict() | {"cosines": [one._asdict() for one in each.cosines]}
                        for each in self.check.populations
                    ],
                    "outputs": [each._asdict() for each in self.check.outputs],
                },
            }
        if self.cycles is not None:
            found["cycles"] = _cycles(self.cycles)
        if energy := energy_of_run(self.folder.chip, self._work()):
            found["energy"] = energy
        if self.hardware is not None:
            found["hardware"] = self.hardware
        return found

    def _work(self) -> CountedWork:
        """Return the counted work, for the energy of the run."""
        ticks = self.samples.ticks + self.folder.last
        work = CountedWork(
            self.cores.events, self.folder.manifest.neurons * self.samples.samples * ticks
        )
        if self.cycles is None:
            return work
        cycles = self.cycles
        return work._replace(
            sent=cycles.sent, taken=cycles.packets, heard=cycles.heard, links=cycles.links
        )


def run_folder(folder: SpikingFolder, request: SpikesRequest, listener: Listener) -> SpikesRun:
    """Run the cores of a compiled model on samples; raise `UsageError` if there are none."""
    model = folder.model
    samples = samples_of(model, request.samples, folder.encoding)
    if request.limit is not None:
        samples = samples.first(request.limit)
    if not samples.samples or not samples.ticks:
        raise UsageError(f"{request.where}: has no samples, or samples without ticks; give some")
    if note := wrap_warning(folder, samples):
        listener.note(f"note: {note}")
    timed = request.cycles or request.hardware
    listener.compile(["spiking/cycles" if timed else "spiking/run"], request.threads)
    machine = CoresMachine(model, folder.integers, folder.tables())
    counter = CycleCounter(folder, machine.slots, samples) if request.cycles else None
    neural = [n for n, each in enumerate(model.populations) if each.dynamics is not None]
    outputs = {each.population for each in model.outputs}
    with ThreadTeam(request.threads) as team, listener.task("simulating") as progress:
        recorded = neural if request.check or request.record else outputs
        run = machine.run(samples, recorded, team, counter.take if counter else None, progress)
    check = check_run(folder, samples, run) if request.check else None
    cycles = counter.finish() if counter else None
    hardware = None
    if request.hardware:
        from mapper.spiking.artifacts.hardware import check_hardware

        with listener.task("running in Amaranth") as progress:
            hardware = check_hardware(folder, samples, progress)._asdict()
    counts = count_outputs(folder, samples, run)
    return SpikesRun(folder, samples, run, counts, check, cycles, hardware)


def _output(found: OutputCounts, samples: SpikeSamples) -> dict[str, Any]:
    """Return spikes, and samples by class and by label, of an output."""
    size = found.counts.size
    rows: dict[str, Any] = {
        "name": found.name,
        "spikes": found.counts.tolist(),
        "samples": np.bincount(found.classes, minlength=size).tolist(),
        "classes": found.classes.tolist(),
    }
    if found.accuracy is not None and samples.labels is not None:
        known = samples.labels[(samples.labels >= 0) & (samples.labels < size)]
        rows |= {
            "accuracy": found.accuracy,
            "labels": np.bincount(known, minlength=size).tolist(),
        }
    return rows


def _cycles(found: TickCycles) -> dict[str, Any]:
    """Return the cycles of ticks as an object for JSON."""
    cycles = found.cycles
    return {
        "mean": float(cycles.mean()),
        "p50": float(np.percentile(cycles, 50)),
        "p99": float(np.percentile(cycles, 99)),
        "max": int(cycles.max()),
        "ended_by_neurons": found.ended_by_neurons,
        "ended_by_spikes": cycles.size - found.ended_by_neurons,
        "packets_per_tick": found.packets / cycles.size,
        "host_packets_per_tick": found.heard / cycles.size,
        "link_flits_per_tick_max": found.busiest_link / cycles.size,
    }
