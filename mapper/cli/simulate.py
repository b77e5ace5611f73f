"""`mapper simulate`: the traffic of a mapping on the mesh, or the programs of a compiled model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.hw import CORE_OPTIONS
from mapper.cli.neurons import add_neurons
from mapper.cli.numbers import above_zero
from mapper.errors import UsageError
from mapper.exports.base import NEURON_OPTIONS, WIDTHS
from storage.address import path_of

MEASURED = 10_000  # cycles of the mesh, if nothing else is said
EPILOG = """\
examples:
  mapper simulate result
  mapper simulate result --load-scale 1.5 --depth 8 --no-saturation
  mapper simulate result --ticks 1000
  mapper simulate result --spikes in.npz --ticks 500 --save out.h5
  mapper simulate result --tick-cycles 20000 --packets core --json
  mapper simulate out --input samples.npz
  mapper simulate out --cycles --frames 100 --clock 400

DIR is the output folder of `run` or of `compile`.

For a compiled model, the programs of the cores run bit for bit on the samples
of --input, with the host's steps around them. If the samples have labels,
accuracy is printed. --check compares every layer with the integer reference,
--dump FOLDER writes every stored map as well (N.npy, and tensors.json).
--cycles, without a number, runs cycle by cycle: when each unit of a core works,
and what it waits for; without --input only the times. On one core that is the
first sample. On several cores --frames follow each other, with the mesh flit by
flit and the host: latency, period, what bounds it, and load of the links; the
bytes of the first three are compared.

For a mapping, its traffic is simulated. The result is added to report.json, and
report.html is made again.

On a chip that sends packets to cores, or trees (`delivery` in its file), and
whose cycles are known (`[time]`), time steps are run cycle by cycle with all
cores, from the update of the neurons to the barrier: the cycles are those of
the chip. Neurons spike at random at their rates. --ticks says how many; `ticks`
in report.json.

With --spikes the network itself runs, on the tables that its cores are loaded
with, bit for bit as on the chip: the network needs synaptic weights and the
parameters of its neurons, or these from the options. IN names the neurons that
get spikes from outside, and when: in npz the arrays neuron and tick, in a
SONATA report times in ms, of which --tick-length are a tick (default: 1). A
spike in tick t charges the neuron's targets in tick t. The spikes of the
network go to --save; as npz that is a file for --rates, too (spikes per tick).

Otherwise, and with the options of loads, the mesh alone is simulated, router by
router and flit by flit: packets of one flit between different cores, sent at
random at constant mean rates. Packets within a core are left out, and counted.
The cores are not simulated, neither the cycles that they need for a time step
nor the barrier between steps, so that the cycles given are fewer than a chip
needs for a step (`simulation` in report.json).

The traffic of the network (weights or firing rates) is taken as packets per
unit of time. --tick-cycles says how many cycles of the mesh such a unit lasts
at load scale 1. Without it, it is so many that the busiest link or core then
has half a flit per cycle. --load-scale 2 sends twice as much in the same time.
The saturation is given as a load scale, and as the fewest cycles of the mesh
per unit of time at which the mesh still keeps up.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="DIR", help="output folder of run or compile")
    parser.add_argument(
        "--network", type=path_of, metavar="NET", help="the network of DIR, if it was moved"
    )
    samples = parser.add_argument_group("compiled models")
    samples.add_argument("--input", type=Path, metavar="DATA",
                         help="samples: .npz, .npy, .csv or a folder of images")  # fmt: skip
    samples.add_argument("--limit", type=common.positive, metavar="N",
                         help="the first N samples (default: all)")  # fmt: skip
    samples.add_argument("--check", action="store_true",
                         help="compare every layer with the integer reference")  # fmt: skip
    samples.add_argument("--dump", type=Path, metavar="FOLDER",
                         help="write every stored map, compared likewise")  # fmt: skip
    samples.add_argument("--frames", type=common.positive, metavar="N",
                         help="with --cycles, of a model on several cores: frames that follow "
                         "each other (default: 20)")  # fmt: skip
    samples.add_argument("--hardware", action="store_true",
                         help="run the first samples in Amaranth as well: bytes and cycles have to "
                         "be equal (one core, or a chip up to 2x2)")  # fmt: skip
    samples.add_argument("--clock", type=above_zero, metavar="MHZ",
                         help="clock, for frames per second (default: 500)")  # fmt: skip
    group = parser.add_argument_group("mappings")
    group.add_argument(
        "--cycles",
        type=common.positive,
        nargs="?",
        const=MEASURED,
        metavar="N",
        help="cycles to measure (default: 10000); for compiled models, without N: run the first "
        "sample cycle by cycle",
    )
    group.add_argument(
        "--warmup",
        type=common.natural,
        metavar="N",
        help="cycles before them (default: half as many)",
    )
    group.add_argument(
        "--load-scale",
        type=above_zero,
        default=1.0,
        metavar="F",
        help="factor on the load (default: 1)",
    )
    add_units(group)
    group.add_argument(
        "--ticks",
        type=common.positive,
        metavar="N",
        help="time steps to run, with the cores (default: 100, on chips that send packets to cores "
        "or trees and whose cycles are known)",
    )
    group.add_argument(
        "--depth",
        type=common.positive,
        default=4,
        metavar="D",
        help="flits in the buffer of an input (default: 4)",
    )
    group.add_argument(
        "--no-saturation", action="store_true", help="do not look for the saturation"
    )
    group = parser.add_argument_group("spikes of a mapping")
    group.add_argument(
        "--spikes",
        type=Path,
        metavar="IN",
        help="run the network itself: spikes that it gets, npz (arrays neuron and tick) or SONATA "
        "report (.h5)",
    )
    group.add_argument(
        "--save",
        type=Path,
        metavar="OUT",
        help="file for the spikes of the network, npz or .h5 (default: spikes.npz in DIR)",
    )
    add_neurons(group, lambda name: "")
    for name in WIDTHS:
        option, text = f"--{name.replace('_', '-')}", CORE_OPTIONS[name]
        group.add_argument(option, type=common.positive, metavar="N", help=f"bits {text}")
    common.add_effort(parser)


def add_units(group: argparse._ArgumentGroup) -> None:
    """Options that say what the traffic of a mapping is in flits."""
    group.add_argument(
        "--tick-cycles",
        type=above_zero,
        metavar="C",
        help="mesh cycles per unit of time",
    )
    group.add_argument(
        "--packets",
        choices=("synapse", "core"),
        help="a flit for each spike and synapse, as the unicast metrics count, or for each spike "
        "and other core that it reaches (default: what the chip sends)",
    )


def run(options: argparse.Namespace) -> int:
    from mapper.compiler.manifest import is_compiled
    from mapper.results.output import read_report
    from mapper.results.output_folder import writing_into

    if is_compiled(options.path):
        from mapper.cli.compiled_runs import run_compiled

        return run_compiled(options)
    _refuse_without_spikes(options)
    of_models = ("input", "limit", "check", "dump", "frames", "clock", "hardware")
    if any(getattr(options, name) for name in of_models):
        raise UsageError(
            f"{options.path}: is no compiled model; --input, --limit, --check, --dump, --frames, "
            "--clock and --hardware are for those"
        )
    read_report(options.path)  # what is no such folder is named before anything is locked
    with writing_into(options.path):
        return _simulate(options)


def _simulate(options: argparse.Namespace) -> int:
    import json
    from functools import partial

    from mapper.cli.report import measure_folder
    from mapper.cli.ticking import run_ticks
    from mapper.evaluation.offered_load import offered_load
    from mapper.evaluation.simulate import SimulationRequest, simulate, summary_rows, tables
    from mapper.report.make import PAGE, view_folder, write_page
    from mapper.results.output import REPORT, network_of, read_report
    from mapper.results.summary import next_steps, summary
    from storage.files import write_file
    from storage.store.network import NetworkFile

    report = read_report(options.path)
    if _with_cores(options, report):
        return run_ticks(options, report)
    cycles = options.cycles or MEASURED
    warmup = cycles // 2 if options.warmup is None else options.warmup
    request = SimulationRequest(
        cycles, warmup, options.load_scale, options.seed, not options.no_saturation
    )
    with NetworkFile(network_of(options.path, options.network, report)) as network:
        common.compile_kernels(options, "simulate")
        offered = offered_load(
            options.path,
            report,
            network,
            depth=options.depth,
            packets=options.packets,
            tick_cycles=options.tick_cycles,
            threads=common.threads_of(options),
            memory=common.memory_of(options),
        )
    with terminal.fraction_bar(options, "simulating") as progress:
        found = {"packets_per": offered.packets, **simulate(offered, request, progress)}
    report["simulation"] = found
    write_file(options.path / REPORT, (json.dumps(report, indent=1) + "\n").encode())
    mesh = f"{offered.mesh.width}x{offered.mesh.height}, {offered.mesh.depth} flits an input"
    title = f"{options.path} on {mesh}"
    rows = summary_rows(found)
    rows += next_steps(str(options.path / PAGE), f"mapper info {options.path}")
    terminal.emit(options, found, tables(found, title), summary(title, rows))
    _tell_model(options, report, found)
    if found["saturated"]:
        terminal.say(
            options,
            f"note: load scale {options.load_scale:g} is above saturation: source queues grow, "
            "and latency with them for as long as it runs",
        )
    if found["undelivered"]:
        terminal.say(
            options,
            f"note: {found['undelivered']:,} of {found['packets']:,} packets had not arrived "
            f"{found['drained']:,} cycles after the window; latency is that of the others",
        )
    measure = partial(measure_folder, options, options.path)
    write_page(options.path / PAGE, [view_folder(options.path, measure)])
    return 0


def _with_cores(options: argparse.Namespace, report: dict[str, Any]) -> bool:
    """Whether ticks are run, rather than a load on the mesh alone."""
    of_mesh = ("cycles", "warmup", "tick_cycles", "packets", "no_saturation")
    given = [name for name in of_mesh if getattr(options, name) not in (None, False)]
    given += ["load_scale"] * (options.load_scale != 1.0)
    if options.ticks is None and options.spikes is None:
        chip = report["chip"]
        known = chip.get("time") is not None and chip.get("delivery", "synapse") != "synapse"
        return known and not given
    if given:
        what = "ticks" if options.spikes is None else "spikes"
        raise UsageError(
            f"--{what}: runs the chip with its cores; --{given[0].replace('_', '-')} is of the "
            "mesh alone, leave one of the two out"
        )
    return True


def _refuse_without_spikes(options: argparse.Namespace) -> None:
    """Raise `UsageError` for options of runs in spikes, without spikes."""
    for name in ("save", *NEURON_OPTIONS, *WIDTHS):
        if options.spikes is None and getattr(options, name) is not None:
            raise UsageError(
                f"--{name.replace('_', '-')}: is of runs of the network itself; give the spikes "
                "that it gets with --spikes"
            )


def _tell_model(options: argparse.Namespace, report: dict[str, Any], found: dict[str, Any]) -> None:
    """Say what was left out, and what the numbers are not."""
    from mapper.evaluation.simulate import CLOCK
    from mapper.results.activity import are_spikes, traffic_in
    from mapper.results.tables import number
    from storage.store.traffic import describe

    if found["flits_per_tick_own_core"]:
        left = number(found["flits_per_tick_own_core"])
        terminal.say(options, f"note: {left} flits per unit of time stay in their core: left out")
    if not found["packets"]:
        return
    terminal.say(options, f"note: {CLOCK}")
    if report["chip"].get("delivery") == "tree" and options.packets is None:
        terminal.say(options, "note: trees do not branch in the mesh alone: a flit for each core")
    if not are_spikes(traffic_in(report)):
        source = describe(traffic_in(report))
        terminal.say(options, f"note: traffic is taken as packets per unit of time ({source})")
