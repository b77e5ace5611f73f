"""`place` places a graph of groups, one group per core."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mapper.api.arguments import (
    GivenLimits,
    Reading,
    check_arguments,
    core_limits,
    settings_of,
    source_of,
)
from mapper.errors import UsageError, as_argument_errors, shown
from mapper.inputs.listener import NotesListener
from mapper.monitoring.bars import GivenProgress, progress_of

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.api.types import ChipLike, MethodSettings, NetworkLike, Preset, Rates


@dataclass(frozen=True, eq=False)
class Placement:
    """A placement of groups, returned by `mapper.place`.

    core : ndarray[int32], shape (groups,), core id (y * width + x) of every group
    metrics : numbers by name as in report.json: hops, link loads, energy, ...
    interrupted : Ctrl-C ended the search; the placement is the best found so far
    notes : a line for each kind of value that was dropped, merged, changed or assumed
    """

    core: NDArray[np.int32]
    chip: Chip
    metrics: dict[str, Any]
    interrupted: bool
    notes: tuple[str, ...]

    @property
    def x(self) -> NDArray[np.int32]:
        """Column of every group's core, shape (groups,)."""
        return self.core % np.int32(self.chip.width)

    @property
    def y(self) -> NDArray[np.int32]:
        """Row of every group's core, shape (groups,)."""
        return self.core // np.int32(self.chip.width)

    def __repr__(self) -> str:
        hops = self.metrics["hops_mean"]
        return f"<Placement: {self.core.size:,} groups on {self.chip.name}, {hops:.4g} hops>"


def place(
    groups: NetworkLike,
    chip: ChipLike,
    *,
    preset: Preset = "default",
    effort: Literal["fast", "default", "strong"] | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    memory: int | str | None = None,
    neurons_per_core: int | None = None,
    synapses_per_core: int | None = None,
    axons_per_core: int | None = None,
    axons_out_per_core: int | None = None,
    neurons: int | None = None,
    sizes: ArrayLike | None = None,
    rates: Rates | None = None,
    columns: Mapping[str, str] | None = None,
    progress: GivenProgress = None,
    **method: Unpack[MethodSettings],
) -> Placement:
    """Place a graph of groups on a chip, one group per core, as `mapper place` does.

    Parameters
    ----------
    groups : the graph, in any form that `mapper.map_network` takes for a network
    effort : "fast", "default" or "strong"; default: from the preset
    time_limit : stop after so many seconds, with the best placement found
    chip, preset, seed, ... : as for `mapper.map_network`

    Raises
    ------
    DoesNotFitError
        If a group is larger than a core, or there are more groups than cores.
    UsageError
        If an argument is invalid.
    MapperError
        If the graph cannot be read.
    """
    from mapper.concurrency.interrupts import GRACE, Stop
    from mapper.inputs.opening import open_source
    from mapper.inputs.source import Effort
    from mapper.jobs.place import PlaceRequest
    from mapper.jobs.place import place as place_groups
    from mapper.monitoring.monitor import Monitor
    from mapper.settings import EFFORTS, PLACEMENT

    check_arguments(
        preset=preset, seed=seed, threads=threads, memory=memory, neurons=neurons,
        columns=columns, progress=progress, time_limit=time_limit,
    )  # fmt: skip
    known = [name for names in PLACEMENT.values() for name in names]
    for name in method:
        if name not in known:
            raise UsageError(f"{name} is not a setting of place; there are {', '.join(known)}")
    changes: dict[str, Any] = {**method}
    if effort is not None:
        if effort not in EFFORTS:
            raise UsageError(f"effort is {shown(effort)}; give one of {', '.join(EFFORTS)}")
        changes["placement"] = effort
    if time_limit is not None and preset == "classic":
        raise UsageError("time_limit: not with preset classic; give force_iterations")
    stop = Stop(GRACE)
    with as_argument_errors(), ExitStack() as stack:
        on_progress = stack.enter_context(progress_of(progress))
        listener = NotesListener(on_progress)
        limits = GivenLimits(
            neurons_per_core, synapses_per_core, axons_per_core, axons_out_per_core
        )
        cores = core_limits(chip, limits)
        settings = settings_of(preset, seed, threads, memory, changes)
        source = source_of(groups, Reading(neurons, sizes, rates, None, columns, None))
        monitor = stack.enter_context(Monitor(stop=stop, on_progress=on_progress))
        held = stack.enter_context(stop.holding())
        network = held.enter_context(
            open_source(source, Effort(settings.threads, settings.memory_bytes), listener)
        )
        core, metrics = place_groups(
            PlaceRequest(network, cores, settings, time_limit), listener, monitor
        )
    return Placement(core, cores, metrics, stop.asked, tuple(listener.notes))
