"""`mapper simulate` for compiled spiking models: run the cores on samples of spikes."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from chipsim.traffic.energies import CountedWork, energy_of_run
from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.spiking_tables import simulated_summary, simulated_tables
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import BAD_INPUT, UsageError
from mapper.results.output_folder import read_folder, writing_into
from mapper.spiking.artifacts.compile import write_page
from mapper.spiking.artifacts.cycles import CycleCounter, TickCycles
from mapper.spiking.artifacts.folder import SpikingFolder
from mapper.spiking.artifacts.folder import read_folder as read_spiking
from mapper.spiking.artifacts.hardware import check_hardware
from mapper.spiking.artifacts.rasters import first_sample
from mapper.spiking.artifacts.report import read_report, with_simulation
from mapper.spiking.artifacts.simulate import (
    CoresCheck,
    OutputCounts,
    check_run,
    count_outputs,
    run_digest,
    wrap_warning,
)
from mapper.spiking.pipeline import samples_of
from mapper.spiking.simulate import CoresMachine, CoresRun
from storage.samples.spikes import SpikeSamples


def run_spiking(options: argparse.Namespace) -> int:
    """Run the cores of a compiled spiking model on samples."""
    if options.input is None:
        raise UsageError(f"{options.path}: is a spiking model; add spikes with --input")
    folder = read_folder(options.path, lambda: read_spiking(options.path))
    report = read_folder(options.path, lambda: read_report(options.path))  # before the long run
    samples = samples_of(folder.model, options.input, folder.encoding)
    if options.limit is not None:
        samples = samples.first(options.limit)
    if not samples.samples or not samples.ticks:
        raise UsageError(f"{options.input}: has no samples, or samples without ticks; give some")
    if note := wrap_warning(folder, samples):
        terminal.say(options, f"note: {note}")
    common.compile_kernels(
        options, "spiking/cycles" if options.cycles or options.hardware else "spiking/run"
    )
    machine = CoresMachine(folder.model, folder.integers, folder.tables())
    counter = CycleCounter(folder, machine.slots, samples) if options.cycles else None
    neural = [n for n, each in enumerate(folder.model.populations) if each.dynamics is not None]
    outputs = {each.population for each in folder.model.outputs}
    with (
        ThreadTeam(common.threads_of(options)) as team,
        terminal.fraction_bar(options, "simulating") as progress,
    ):
        recorded = neural if options.check else outputs
        run = machine.run(samples, recorded, team, counter.take if counter else None, progress)
    check = check_run(folder, samples, run) if options.check else None
    result = _result(folder, samples, run, check)
    updates = folder.manifest.neurons * samples.samples * (samples.ticks + folder.last)
    work = CountedWork(run.events, updates)
    if counter is not None:
        cycles = counter.finish()
        result["cycles"] = _cycles(cycles)
        work = work._replace(
            sent=cycles.sent, taken=cycles.packets, heard=cycles.heard, links=cycles.links
        )
    if energy := energy_of_run(folder.chip, work):
        result["energy"] = energy
    if options.hardware:
        with terminal.fraction_bar(options, "running in Amaranth") as progress:
            result["hardware"] = check_hardware(folder, samples, progress)._asdict()
    with writing_into(options.path):
        rasters = []
        if check is not None:
            rasters = first_sample(folder.model, samples.ticks, run.spikes, check.model)
        report = with_simulation(report, result, rasters)
        write_page(options.path, report)
    title = f"{folder.manifest.model.name} on {options.path}"
    terminal.emit(
        options, result, simulated_tables(result, check, title),
        simulated_summary(result, check, title, folder.manifest.limits.ticks),
    )  # fmt: skip
    if check is not None and check.differences:
        terminal.complain(f"{check.differences:,} spikes differ from the integer reference")
        return BAD_INPUT
    return 0


def _result(
    folder: SpikingFolder, samples: SpikeSamples, run: CoresRun, check: CoresCheck | None
) -> dict[str, Any]:
    """Return the simulation as an object for JSON."""
    names = [each.name for each in folder.model.populations]
    found = {
        "samples": samples.samples,
        "ticks": samples.ticks,
        "outputs": [_output(each, samples) for each in count_outputs(folder, samples, run)],
        "spikes": run.fired,
        "events": run.events,
        "saturated": dict(zip(names, run.saturated, strict=True)),
        "sha256": run_digest(folder, run),
    }
    if check is None:
        return found
    return found | {
        "elements": check.spikes,
        "differences": check.differences,
        "model": {
            "populations": [
                each._asdict() | {"cosines": [one._asdict() for one in each.cosines]}
                for each in check.populations
            ],
            "outputs": [each._asdict() for each in check.outputs],
        },
    }


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
