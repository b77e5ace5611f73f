"""`mapper simulate` for chips with known cycle counts: run ticks cycle by cycle."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from chipsim.chip.model import Chip
from chipsim.chip.presets import from_fields
from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.report import rewrite_page
from mapper.errors import MapperError
from mapper.evaluation.ticks import TICKS, TickRequest, simulate_ticks
from mapper.exports.base import NEURON_OPTIONS, WIDTHS
from mapper.results.output import network_of, write_report
from mapper.results.tables import facts, tick_rows
from storage.files import require_file_name
from storage.formats.trains import read_trains, save_trains
from storage.store.network import NetworkFile


def run_ticks(options: argparse.Namespace, report: dict[str, Any]) -> int:
    """Run ticks of a mapping, add `ticks` to its report, and rewrite its page."""
    chip = from_fields(report["chip"], f"{options.path}: chip of the report")
    with NetworkFile(network_of(options.path, options.network, report)) as network:
        found = (_at_random if options.spikes is None else _in_spikes)(options, network, chip)
    report["ticks"] = found
    write_report(options.path, report)
    title = f"ticks of {options.path} on {chip.width}x{chip.height} cores"
    rows = tick_rows(found, report["metrics"].get("tick_cycles"))
    terminal.emit(options, found, [facts(title, rows)])
    _tell(options, found)
    rewrite_page(options)
    return 0


def _at_random(options: argparse.Namespace, network: NetworkFile, chip: Chip) -> dict[str, Any]:
    """Run ticks in which neurons spike at random."""
    request = TickRequest(options.ticks or TICKS, options.depth, options.seed)
    common.compile_kernels(options, "simulate/ticks")
    with terminal.fraction_bar(options, "simulating") as progress:
        memory = common.memory_of(options)
        return simulate_ticks(options.path, network, chip, request, memory, progress)


def _in_spikes(options: argparse.Namespace, network: NetworkFile, chip: Chip) -> dict[str, Any]:
    """Run the network itself with input spikes, and save its spikes."""
    from hw.chip import chip_shape
    from hw.core.shape import DEEPEST
    from hw.errors import HwError
    from mapper.evaluation.spiking import play
    from mapper.exports.hardware_network import core_network, tables_of

    if options.save is not None:
        require_file_name(options.save)
    neuron = {name: getattr(options, name) for name in NEURON_OPTIONS}
    neuron = {name: value for name, value in neuron.items() if value is not None}
    widths = {name: getattr(options, name) for name in WIDTHS}
    tick_ms = options.tick_length or 1.0
    given = read_trains(options.spikes, network, tick_ms)
    if network.meta.synaptic is None or "threshold" in neuron:
        neuron.pop("tick_length", None)  # only for spike times
    try:
        shape = replace(DEEPEST, **{n: value for n, value in widths.items() if value is not None})
        shape = chip_shape(chip.width, chip.height, shape)
        numbers = core_network(network, shape, neuron)
        tables = tables_of(options.path, numbers.network, shape)
    except HwError as error:
        raise MapperError(f"{options.path}: {error}") from error
    for loss in numbers.losses:
        terminal.say(options, f"note: a core has {loss.text}")
    ticks = options.ticks or TICKS
    common.compile_kernels(options, "simulate/spikes")
    with terminal.fraction_bar(options, "simulating") as progress:
        played = play(tables, chip, given, ticks, options.depth, progress)
    saved = options.save or options.path / "spikes.npz"
    save_trains(saved, network, played.trains, played.rate, ticks, tick_ms)
    if later := played.facts["given_later"]:
        terminal.say(
            options,
            f"note: {later:,} spikes of {options.spikes} ignored: in tick {ticks} or later",
        )
    return {**played.facts, "from": str(options.spikes), "saved": str(saved)}


def _tell(options: argparse.Namespace, found: dict[str, Any]) -> None:
    if found.get("clamped"):
        terminal.say(
            options,
            f"note: {found['clamped']:,} neurons have rates above one spike per tick, and spike in "
            "every tick; `tick` in [time] of the chip file sets the tick length",
        )
    if not found["spikes"]:
        terminal.say(options, "note: no neuron spiked")
