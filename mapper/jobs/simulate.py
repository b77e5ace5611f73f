"""Simulate the traffic of a mapping: the mesh alone, or ticks with all cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from mapper.errors import MapperError, UsageError
from mapper.evaluation.offered_load import offered_load
from mapper.evaluation.simulate import CLOCK, SimulationRequest, simulate
from mapper.evaluation.spiking import play
from mapper.evaluation.ticks import TICKS, TickRequest, simulate_ticks
from mapper.exports.hardware_network import core_network, tables_of
from mapper.inputs.listener import Listener
from mapper.inputs.source import Effort
from mapper.jobs.report import ReportRequest, rewrite_page
from mapper.results.activity import are_spikes, traffic_in
from mapper.results.output import network_of, read_report, write_report
from mapper.results.tables import number
from storage.files import require_file_name
from storage.formats.trains import read_trains, save_trains
from storage.store.network import NetworkFile
from storage.store.traffic import describe


class Simulated(NamedTuple):
    """A mapping to simulate. network : its network, if it was moved"""

    folder: Path
    network: Path | None
    depth: int
    seed: int
    effort: Effort


class MeshLoad(NamedTuple):
    """A load on the mesh; see `mapper simulate`."""

    cycles: int
    warmup: int | None = None
    load_scale: float = 1.0
    saturation: bool = True
    packets: str | None = None
    tick_cycles: float | None = None


class MeshRun(NamedTuple):
    """Facts of a run, as in report.json, and the size of the mesh."""

    facts: dict[str, Any]
    mesh: tuple[int, int]


class Spikes(NamedTuple):
    """Input spikes of the network itself.

    given : file of input spikes; saved : file of output spikes, None: in the folder
    neuron : parameters of neurons by name; widths : of the fields of a core
    """

    given: Path
    saved: Path | None
    tick_ms: float
    neuron: dict[str, Any]
    widths: dict[str, int]


def runs_cores(report: dict[str, Any], of_mesh: Sequence[str], of_cores: str | None) -> bool:
    """Return whether to run ticks with the cores instead of a load on the mesh only.

    of_mesh : options for the mesh that are given; of_cores : one for the cores, if any

    Raises `UsageError` if both are given.
    """
    if of_cores is None:
        chip = report["chip"]
        known = chip.get("time") is not None and chip.get("delivery", "synapse") != "synapse"
        return known and not of_mesh
    if of_mesh:
        raise UsageError(
            f"--{of_cores}: runs the chip with its cores, --{of_mesh[0].replace('_', '-')} only "
            "the mesh; omit one"
        )
    return True


def simulate_mesh(what: Simulated, mesh: MeshLoad, listener: Listener) -> MeshRun:
    """Simulate a load on the mesh; add `simulation` to report.json and write the page again."""
    folder, effort = what.folder, what.effort
    report = read_report(folder)
    warmup = mesh.cycles // 2 if mesh.warmup is None else mesh.warmup
    request = SimulationRequest(mesh.cycles, warmup, mesh.load_scale, what.seed, mesh.saturation)
    with NetworkFile(network_of(folder, what.network, report)) as network:
        listener.compile(["simulate"], effort.threads)
        offered = offered_load(
            folder, report, network, depth=what.depth, packets=mesh.packets,
            tick_cycles=mesh.tick_cycles, threads=effort.threads, memory=effort.memory,
        )  # fmt: skip
    with listener.task("simulating") as progress:
        found = {"packets_per": offered.packets, **simulate(offered, request, progress)}
    report["simulation"] = found
    write_report(folder, report)
    _note_mesh(report, found, mesh, listener)
    rewrite_page(ReportRequest([folder], None, what.network, effort), listener)
    return MeshRun(found, (offered.mesh.width, offered.mesh.height))


def _note_mesh(
    report: dict[str, Any], found: dict[str, Any], mesh: MeshLoad, listener: Listener
) -> None:
    """Report traffic that was not simulated, and limits of the model."""
    if found["flits_per_tick_own_core"]:
        left = number(found["flits_per_tick_own_core"])
        listener.note(f"note: {left} flits per unit of time stay in their core: not simulated")
    if found["packets"]:
        listener.note(f"note: {CLOCK}")
        if report["chip"].get("delivery") == "tree" and mesh.packets is None:
            listener.note("note: multicast trees are simulated as one flit per target core")
        if not are_spikes(traffic_in(report)):
            source = describe(traffic_in(report))
            listener.note(f"note: traffic is used as packets per unit of time ({source})")
    if found["saturated"]:
        listener.note(
            f"note: load scale {mesh.load_scale:g} is above saturation: source queues and "
            "latency grow with the simulated time"
        )
    if found["undelivered"]:
        listener.note(
            f"note: {found['undelivered']:,} of {found['packets']:,} packets had not arrived "
            f"{found['drained']:,} cycles after the window; latency excludes them"
        )


def simulate_cores(
    what: Simulated, ticks: int | None, spikes: Spikes | None, listener: Listener
) -> dict[str, Any]:
    """Run ticks with all cores; add `ticks` to report.json and write the page again.

    spikes : run the network with input spikes; None: neurons spike at random at their rates
    """
    folder = what.folder
    report = read_report(folder)
    chip = from_fields(report["chip"], f"{folder}: chip of the report")
    ticks = ticks or TICKS
    with NetworkFile(network_of(folder, what.network, report)) as network:
        if spikes is None:
            request = TickRequest(ticks, what.depth, what.seed)
            listener.compile(["simulate/ticks"], what.effort.threads)
            with listener.task("simulating") as progress:
                found = simulate_ticks(folder, network, chip, request, what.effort.memory, progress)
        else:
            found = _in_spikes(what, (network, chip), ticks, spikes, listener)
    report["ticks"] = found
    write_report(folder, report)
    if found.get("clamped"):
        listener.note(
            f"note: {found['clamped']:,} neurons have rates above one spike per tick, and spike in "
            "every tick; `tick` in [time] of the chip file sets the tick length"
        )
    if not found["spikes"]:
        listener.note("note: no neuron spiked")
    rewrite_page(ReportRequest([folder], None, what.network, what.effort), listener)
    return found


def _in_spikes(
    what: Simulated, on: tuple[NetworkFile, Chip], ticks: int, spikes: Spikes, listener: Listener
) -> dict[str, Any]:
    """Run the network itself with input spikes, and save its spikes."""
    from hw.chip import chip_shape
    from hw.core.shape import DEEPEST
    from hw.errors import HwError

    (network, chip), folder = on, what.folder
    if spikes.saved is not None:
        require_file_name(spikes.saved)
    neuron = dict(spikes.neuron)
    given = read_trains(spikes.given, network, spikes.tick_ms)
    if network.meta.synaptic is None or "threshold" in neuron:
        neuron.pop("tick_length", None)  # only for spike times
    try:
        shape = chip_shape(chip.width, chip.height, replace(DEEPEST, **spikes.widths))
        numbers = core_network(network, shape, neuron)
        tables = tables_of(folder, numbers.network, shape)
    except HwError as error:
        raise MapperError(f"{folder}: {error}") from error
    for loss in numbers.losses:
        listener.note(f"note: a core has {loss.text}")
    listener.compile(["simulate/spikes"], what.effort.threads)
    with listener.task("simulating") as progress:
        played = play(tables, chip, given, ticks, what.depth, progress)
    saved = spikes.saved or folder / "spikes.npz"
    save_trains(saved, network, played.trains, played.rate, ticks, spikes.tick_ms)
    if later := played.facts["given_later"]:
        listener.note(f"note: {later:,} spikes of {spikes.given} ignored: in tick {ticks} or later")
    return {**played.facts, "from": str(spikes.given), "saved": str(saved)}
