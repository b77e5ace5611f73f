"""`mapper place`: place a graph of groups, one group per core."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.cli import terminal, tuning
from mapper.cli.locking import lock_output
from mapper.cli.stores import add_timeout
from mapper.errors import INTERRUPTED
from mapper.settings import EFFORTS, Settings
from storage.address import path_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from chipsim.chip.model import Chip
    from mapper.monitoring.monitor import Monitor
    from storage.store.network import NetworkFile

FREQUENT = (
    "chip", "neurons_per_core", "synapses_per_core", "output", "preset", "placement", "time_limit",
    "rates", "threads", "seed",
)  # fmt: skip
EPILOG = """\
examples:
  mapper place nug30.dat --chip 6x5
  mapper place groups.graph --chip 16x16 -o placement.npz --seed 3
  mapper place groups.npz --chip 64x64 -o placement.csv --json
  mapper place groups.graph --chip 16x16 --effort strong --time-limit 30

GROUPS is a METIS file, an npz, a QAPLIB instance on a grid, or any other
network. The cost of a QAPLIB instance is twice the spike hops: it counts both
directions.
"""

READ = {
    "streamed": ("placement",),
    "classic": ("bisection_repeats", "force_share", "force_iterations"),
}
"""Settings read by placement, by method of the preset."""
SETTABLE = tuple(name for names in READ.values() for name in names)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s GROUPS --chip C [options]"
    parser.add_argument("groups", type=path_of, metavar="GROUPS", help="graph of groups")
    common.add_chip(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="npz or csv to write")
    tuning.add_preset(parser)
    parser.add_argument(
        "--effort",
        dest="placement",
        choices=EFFORTS,
        metavar="E",
        help="fast, default or strong (default: from the preset)",
    )
    parser.add_argument(
        "--time-limit",
        type=common.seconds,
        metavar="SECONDS",
        help="stop after this time (not with preset classic)",
    )
    tuning.add_settings(parser, SETTABLE)
    common.add_columns(parser)
    common.add_rates(parser)
    add_timeout(parser)
    common.add_effort(parser)


def run(options: argparse.Namespace) -> int:
    from mapper.concurrency.interrupts import GRACE, Stop
    from mapper.errors import UsageError
    from mapper.monitoring.monitor import Monitor
    from mapper.results.output import network_facts
    from mapper.results.summary import Row, mapping_rows, summary
    from mapper.results.tables import quality

    if options.output is not None and options.output.suffix not in (".npz", ".csv"):
        raise UsageError(f"{options.output}: the name must end in .npz or .csv")
    chip = common.chip_of(options)
    if options.time_limit is not None and options.preset == "classic":
        raise UsageError("--time-limit: not with preset classic; use --set force-iterations=N")
    settings = tuning.settings_of(options, SETTABLE)
    tuning.tell_unread(options, settings, READ[settings.method])
    stop = Stop(GRACE)
    with (
        lock_output(options.output),
        Monitor(terminal.stderr_console(options), options.verbose, stop=stop) as monitor,
        stop.holding() as held,
    ):
        network = held.enter_context(common.open_network(options, options.groups))
        core, metrics = _place(options, network, chip, settings, monitor)
        about = network_facts(network, options.groups)
        if options.output is not None:
            _save(options.output, core, chip)
    result = {
        "network": about,
        "chip": chip.to_json(),
        "settings": settings.to_json(),
        "metrics": metrics,
        "core": core.tolist(),
        "stages": monitor.stages,
    }
    rows = mapping_rows(result, about["traffic"])
    rows += [Row("placement", "", str(options.output))] if options.output else []
    terminal.emit(
        options, result, quality(metrics, about["traffic"], chip.delivery),
        summary(f"{options.groups.name} on {chip.name}", rows),
    )  # fmt: skip
    if stop.asked:
        terminal.complain("interrupted: this is the best placement found so far")
        return INTERRUPTED
    return 0


def _place(
    options: argparse.Namespace, network: NetworkFile, chip: Chip, settings: Settings,
    monitor: Monitor,
) -> tuple[NDArray[np.int32], dict[str, Any]]:  # fmt: skip
    """Return the core of every group, and the metrics; the best so far after Ctrl-C.

    Raises `DoesNotFitError` for a group larger than a core.
    """
    import numpy as np

    from chipsim.traffic.metrics import summarise
    from mapper.concurrency.stop_flag import StoppedError
    from mapper.concurrency.threads import ThreadTeam
    from mapper.errors import DoesNotFitError
    from mapper.partitioning.bisection import whole
    from mapper.pipeline import place_groups
    from mapper.scoring.measure import measure_network

    groups, stop, threads = whole(network, settings.threads), monitor.stop, settings.threads
    largest = int(groups.sizes.argmax())
    if groups.sizes[largest] > chip.neurons:
        raise DoesNotFitError(
            f"group {largest} has size {groups.sizes[largest]}, but a core holds "
            f"{chip.neurons}; set --neurons-per-core"
        )
    common.compile_kernels(options, f"place/{options.preset}")

    def on_better(x: NDArray[np.int32], y: NDArray[np.int32]) -> None:
        core = (y * chip.width + x).astype(np.int32)
        stop.keep(lambda _: core)

    def placed() -> None:
        on_better(
            *place_groups(groups, chip, settings, monitor, options.time_limit, on_better=on_better)
        )

    with suppress(KeyboardInterrupt):
        stop.run(placed)
    monitor.finishing = True
    if stop.kept is None:
        raise StoppedError
    core = stop.kept(ThreadTeam(1))
    traffic = stop.run(lambda: measure_network(network, chip, core, threads), patient=True)
    return core, summarise(chip, traffic)


def _save(output: Path, core: NDArray[np.int32], chip: Chip) -> None:
    """Write the placement, as npz or csv."""
    from mapper.results.mapping_file import save_csv, save_mapping

    if output.suffix == ".npz":
        save_mapping(output, core, chip)
    else:
        save_csv(output, core)
