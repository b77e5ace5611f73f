"""`mapper simulate` for compiled spiking models: run the cores on samples of spikes."""

from __future__ import annotations

import argparse

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.spiking_tables import simulated_summary, simulated_tables
from mapper.errors import BAD_INPUT, UsageError
from mapper.results.output_folder import read_folder, writing_into
from mapper.spiking.artifacts.compile import write_page
from mapper.spiking.artifacts.folder import read_folder as read_spiking
from mapper.spiking.artifacts.rasters import first_sample
from mapper.spiking.artifacts.report import read_report, with_simulation
from mapper.spiking.artifacts.run import SpikesRequest, run_folder


def run_spiking(options: argparse.Namespace) -> int:
    """Run the cores of a compiled spiking model on samples."""
    if options.input is None:
        raise UsageError(f"{options.path}: is a spiking model; add spikes with --input")
    folder = read_folder(options.path, lambda: read_spiking(options.path))
    report = read_folder(options.path, lambda: read_report(options.path))  # before the long run
    request = SpikesRequest(
        options.input, options.limit, options.check, options.cycles is not None, options.hardware,
        threads=common.threads_of(options),
    )  # fmt: skip
    found = run_folder(folder, request, common.listener(options))
    result, check = found.to_json(), found.check
    with writing_into(options.path):
        rasters = []
        if check is not None:
            ticks, spikes = found.samples.ticks, found.cores.spikes
            rasters = first_sample(folder.model, ticks, spikes, check.model)
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
