"""`mapper place`: place a graph of groups, one group per core."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.cli import options as common
from mapper.cli import terminal, tuning
from mapper.cli.stores import add_timeout
from mapper.errors import INTERRUPTED
from mapper.jobs.locking import lock_output
from mapper.settings import EFFORTS, PLACEMENT
from storage.address import path_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from chipsim.chip.model import Chip

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

SETTABLE = tuple(name for names in PLACEMENT.values() for name in names)


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
    from mapper.jobs.place import PlaceRequest, place
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
    read = [name for name in PLACEMENT[settings.method] if settings.reads(name)]
    tuning.tell_unread(options, settings, read)
    stop = Stop(GRACE)
    with (
        lock_output(options.output),
        Monitor(terminal.stderr_console(options), options.verbose, stop=stop) as monitor,
        stop.holding() as held,
    ):
        network = held.enter_context(common.open_network(options, options.groups))
        request = PlaceRequest(network, chip, settings, options.time_limit)
        core, metrics = place(request, common.listener(options), monitor)
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


def _save(output: Path, core: NDArray[np.int32], chip: Chip) -> None:
    """Write the placement, as npz or csv."""
    from mapper.results.mapping_file import save_csv, save_mapping

    if output.suffix == ".npz":
        save_mapping(output, core, chip)
    else:
        save_csv(output, core)
