"""`mapper simulate` for chips whose cores are known: ticks, cycle by cycle."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from mapper.cli import options as common


def run_ticks(options: argparse.Namespace, report: dict[str, Any]) -> int:
    """Run ticks of a mapping, add `ticks` to its report, and make its page again."""
    from chipsim.chip.presets import from_fields
    from mapper.cli.report import measure_folder
    from mapper.evaluation.ticks import TICKS, TickRequest, simulate_ticks, tick_tables
    from mapper.report.make import PAGE, view_folder, write_page
    from mapper.results.output import REPORT, network_of
    from storage.files import write_file
    from storage.store.network import NetworkFile

    chip = from_fields(report["chip"], f"{options.path}: chip of the report")
    request = TickRequest(options.ticks or TICKS, options.depth, options.seed)
    with NetworkFile(network_of(options.path, options.network, report)) as network:
        common.compile_kernels(options, "simulate")
        with common.fraction_bar(options, "simulating") as progress:
            found = simulate_ticks(
                options.path, network, chip, request, common.memory_of(options), progress
            )
    report["ticks"] = found
    write_file(options.path / REPORT, (json.dumps(report, indent=1) + "\n").encode())
    title = f"ticks of {options.path} on {chip.width}x{chip.height} cores"
    common.emit(options, found, tick_tables(found, report["metrics"].get("tick_cycles"), title))
    _tell(options, found)
    measure = partial(measure_folder, options, options.path)
    write_page(options.path / PAGE, [view_folder(options.path, measure)])
    return 0


def _tell(options: argparse.Namespace, found: dict[str, Any]) -> None:
    if found["clamped"]:
        common.say(
            options,
            f"note: {found['clamped']:,} neurons have rates above one spike per tick, and spike in "
            "every tick; `tick` in [time] of the chip file says how long a tick lasts",
        )
    if not found["spikes"]:
        common.say(options, "note: no neuron spiked: the rates of the network are 0, or very low")
