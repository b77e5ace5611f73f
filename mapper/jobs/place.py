"""Place a graph of groups, one group per core."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.unlike import limit_of_cores
from chipsim.traffic.metrics import summarise
from mapper.concurrency.stop_flag import StoppedError
from mapper.concurrency.threads import ThreadTeam
from mapper.errors import DoesNotFitError
from mapper.inputs.listener import Listener
from mapper.methods.placing import place_groups, require_placer
from mapper.monitoring.monitor import Monitor
from mapper.partitioning.bisection import whole
from mapper.scoring.measure import measure_network
from mapper.settings import Settings
from storage.store.network import NetworkFile


class PlaceRequest(NamedTuple):
    """A graph of groups to place. time_limit : in seconds, None for no limit"""

    groups: NetworkFile
    chip: Chip
    settings: Settings
    time_limit: float | None


def place(
    request: PlaceRequest, listener: Listener, monitor: Monitor
) -> tuple[NDArray[np.int32], dict[str, Any]]:
    """Return the core of every group, shape (groups,), and the metrics; the best so far after
    Ctrl-C.

    Raises `DoesNotFitError` for a group larger than a core.
    """
    network, chip, settings, time_limit = request
    require_placer(settings)
    groups, stop, threads = whole(network, settings.threads), monitor.stop, settings.threads
    largest = int(groups.sizes.argmax())
    roomy = _roomy(chip, int(groups.sizes[largest]), groups.sizes.size)
    if groups.sizes[largest] > chip.neurons:
        raise DoesNotFitError(
            f"group {largest} has size {groups.sizes[largest]}, but a core holds "
            f"{chip.neurons}; set --neurons-per-core"
        )
    listener.compile([f"place/{settings.preset}"], threads)

    def on_better(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
        core = (y * chip.width + x).astype(np.int32)
        stop.keep(lambda _: core)

    def placed() -> None:
        on_better(*place_groups(groups, roomy, settings, monitor, time_limit, on_better=on_better))

    with suppress(KeyboardInterrupt):
        stop.run(placed)
    monitor.finishing = True
    if stop.kept is None:
        raise StoppedError
    core = stop.kept(ThreadTeam(1))
    traffic = stop.run(lambda: measure_network(network, chip, core, threads), patient=True)
    return core, summarise(chip, traffic)


def _roomy(chip: Chip, size: int, groups: int) -> Chip:
    """Return a chip of only the cores that hold the largest group, if cores differ.

    Raises `DoesNotFitError` if there are fewer of them than groups.
    """
    neurons = limit_of_cores(chip, "neurons")
    assert neurons is not None, "every core has a limit on neurons"
    roomy = chip.usable & (neurons >= size)
    count = int(np.count_nonzero(roomy))
    if not chip.core_limits or not count:
        return chip
    if count < groups:
        raise DoesNotFitError(
            f"{groups:,} groups need as many cores that hold the largest group, of size {size:,}; "
            f"{count:,} do; use smaller groups, or map the network with `mapper run`"
        )
    return replace(chip, unavailable=tuple(np.flatnonzero(~roomy).tolist()), host=None)
