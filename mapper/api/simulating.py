"""`simulate` runs the traffic of a mapping on its chip."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mapper.api.arguments import check_arguments, effort_of, path_of_network, path_of_source
from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import NotesListener
from mapper.jobs.hardware import DEPTH
from mapper.monitoring.bars import GivenProgress, progress_of

if TYPE_CHECKING:
    from mapper.api.network import Network
    from mapper.result import NetworkMapping

CYCLES = 10_000
WHOLE = {"cycles": 1, "warmup": 0, "ticks": 1, "depth": 1}
"""Least values of arguments that are whole numbers."""


class SimulatedTraffic(NamedTuple):
    """The simulated traffic of a mapping, returned by `mapper.simulate`.

    kind : "mesh": a load on the mesh; "cores": ticks with all cores
    facts : by name, as `simulation` or `ticks` in report.json: latency, saturation, link loads, ...
    notes : a line for each kind of traffic that was not simulated, changed or assumed
    """

    kind: str
    facts: dict[str, Any]
    notes: tuple[str, ...]


def simulate(
    mapping: NetworkMapping | str | os.PathLike[str],
    *,
    cycles: int | None = None,
    warmup: int | None = None,
    load_scale: float = 1.0,
    tick_cycles: float | None = None,
    packets: str | None = None,
    saturation: bool = True,
    ticks: int | None = None,
    depth: int = DEPTH,
    spikes: str | os.PathLike[str] | None = None,
    save: str | os.PathLike[str] | None = None,
    tick_length: float | None = None,
    neuron: dict[str, Any] | None = None,
    widths: dict[str, int] | None = None,
    network: str | os.PathLike[str] | Network | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: GivenProgress = None,
) -> SimulatedTraffic:
    """Simulate the traffic of a mapping, as `mapper simulate` does.

    A chip that sends packets to cores or along trees and defines cycle counts runs ticks with all
    cores; otherwise, and with arguments of the mesh, only the mesh is simulated.

    Parameters
    ----------
    mapping : a mapping, or the output folder of one, whose report.json and page get the result
    cycles, warmup : measured cycles of the mesh (10,000) and cycles before them (half as many)
    load_scale : factor on the load
    tick_cycles : cycles of the mesh per unit of time; default: half a flit per cycle on the busiest
        link
    packets : "synapse" or "core": one flit per spike and synapse or core; default: by the chip
    saturation : also search for the load at which the mesh saturates
    ticks : ticks to run with the cores; default: 100
    depth : flits per input buffer of a router
    spikes : file of input spikes: the network itself runs on the tables of its cores
    save : file for its output spikes; default: in the folder
    tick_length : of spike times in `spikes`, in ms; default: 1
    neuron, widths : parameters of neurons (`threshold`, `leak`, ...) and widths of the fields of a
        core, by the names of the options of `mapper simulate`
    network : network of a folder, if it was moved
    seed, threads, memory, progress : as for `mapper.map_network`

    Raises
    ------
    UsageError
        If an argument is invalid.
    MapperError
        If the folder is not the output of a run, or its network is missing.
    """
    from mapper.exports.base import NEURON_OPTIONS, WIDTHS
    from mapper.jobs.simulate import (
        MeshLoad,
        Simulated,
        Spikes,
        runs_cores,
        simulate_cores,
        simulate_mesh,
    )
    from mapper.results.output import read_report
    from mapper.results.output_folder import writing_into

    check_arguments(seed=seed, threads=threads, memory=memory, progress=progress)
    _require_numbers(
        cycles=cycles, warmup=warmup, tick_cycles=tick_cycles, load_scale=load_scale, ticks=ticks,
        depth=depth, tick_length=tick_length,
    )  # fmt: skip
    if packets not in (None, "synapse", "core"):
        raise UsageError(f'packets is {shown(packets)}; give "synapse" or "core"')
    of_mesh: dict[str, Any] = {
        "cycles": cycles, "warmup": warmup, "tick_cycles": tick_cycles, "packets": packets,
        "saturation": None if saturation else False,
        "load_scale": None if load_scale == 1.0 else load_scale,
    }  # fmt: skip
    given = [name for name, value in of_mesh.items() if value is not None]
    _require_names("neuron", neuron or {}, NEURON_OPTIONS)
    _require_names("widths", widths or {}, WIDTHS)
    if spikes is None:
        for name, needing in (("save", save), ("neuron", neuron), ("widths", widths)):
            if needing is not None:
                raise UsageError(f"{name}: needs input spikes; give spikes")
    elif save is None and not isinstance(mapping, str | os.PathLike):
        raise UsageError("save: give a file for the output spikes, as the mapping has no folder")
    effort = effort_of(threads, memory)
    moved = None if network is None else path_of_network(network, "network")
    with (
        as_argument_errors(),
        progress_of(progress) as on_progress,
        path_of_source(mapping) as folder,
    ):
        listener = NotesListener(on_progress)
        report = read_report(folder)  # fail for other folders before locking
        named = "ticks" if ticks is not None else None
        with writing_into(folder):
            what = Simulated(folder, moved, depth, seed, effort)
            if runs_cores(report, given, named if spikes is None else "spikes"):
                asked = None
                if spikes is not None:
                    saved = None if save is None else Path(save)
                    asked = Spikes(
                        Path(spikes), saved, tick_length or 1.0, neuron or {}, widths or {}
                    )
                found = simulate_cores(what, ticks, asked, listener)
                return SimulatedTraffic("cores", found, tuple(listener.notes))
            mesh = MeshLoad(cycles or CYCLES, warmup, load_scale, saturation, packets, tick_cycles)
            facts = simulate_mesh(what, mesh, listener).facts
            return SimulatedTraffic("mesh", facts, tuple(listener.notes))


def _require_names(name: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise `UsageError` for unknown keys of an argument."""
    for key in table:
        if key not in known:
            raise UsageError(f"{name}: {key!r} is not one of {', '.join(known)}")


def _require_numbers(**given: float | None) -> None:
    """Raise `UsageError` for numbers out of range; None stands for an omitted argument."""
    for name, value in given.items():
        if value is None:
            continue
        least = WHOLE.get(name)
        if isinstance(value, bool) or not isinstance(value, Real if least is None else Integral):
            good = False
        else:
            good = 0 < value < math.inf if least is None else value >= least
        if not good:
            words = "number above 0" if least is None else f"whole number of {least} or more"
            raise UsageError(f"{name} is {shown(value)}; give a {words}")
