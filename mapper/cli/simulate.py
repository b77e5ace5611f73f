"""`mapper simulate`: the traffic of a mapping on the mesh, or the programs of a compiled model."""

from __future__ import annotations

import argparse
import math
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common
from mapper.errors import BAD_INPUT, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mapper.compiler.manifest import CompiledFolder
    from mapper.compiler.simulate import Clipped

MEASURED = 10_000  # cycles of the mesh, if nothing else is said
CLOCK = 500.0  # MHz, likewise
EPILOG = """\
examples:
  mapper simulate result
  mapper simulate result --load-scale 1.5 --depth 8 --no-saturation
  mapper simulate result --ticks 1000
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

On a chip that sends packets to cores, or trees (`delivery` in its file), and whose
cycles are known (`[time]`), time steps are run cycle by cycle with all cores, from
the update of the neurons to the barrier: the cycles are those of the chip. Neurons
spike at random at their rates. --ticks says how many; `ticks` in report.json.

Otherwise, and with the options of loads, the mesh alone is simulated, router by
router and flit by flit: packets of one flit between different cores, sent at
random at constant mean rates. Packets within a core are left out, and counted.
The cores are not simulated, neither the cycles that they need for a time step nor
the barrier between steps, so that the cycles given are fewer than a chip needs for
a step (`simulation` in report.json).

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
        "--network", type=Path, metavar="NET", help="the network of DIR, if it was moved"
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
        help="a flit for each spike and synapse, as the unicast metrics count (the default), or "
        "for each spike and other core that it reaches",
    )


def above_zero(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def run(options: argparse.Namespace) -> int:
    from mapper.compiler.manifest import is_compiled
    from mapper.results.output import read_report
    from mapper.results.output_folder import writing_into

    if is_compiled(options.path):
        return _run_compiled(options)
    of_models = ("input", "limit", "check", "dump", "frames", "clock", "hardware")
    if any(getattr(options, name) for name in of_models):
        raise UsageError(
            f"{options.path}: is no compiled model; --input, --limit, --check, --dump, --frames, "
            "--clock and --hardware are for those"
        )
    read_report(options.path)  # what is no such folder is named before anything is locked
    with writing_into(options.path):
        return _simulate(options)


def _run_compiled(options: argparse.Namespace) -> int:
    """Run the programs of a compiled model on samples."""
    import numpy as np

    from mapper.cli.cycling import cycle_tables
    from mapper.compiler.chip_cycles import CHECKED
    from mapper.compiler.dump import Dump
    from mapper.compiler.manifest import read_folder
    from mapper.compiler.quantise.score import require_classes
    from mapper.compiler.report import add_simulation
    from mapper.compiler.simulate import (
        FRAMES_AT_ONCE,
        Compared,
        Digest,
        Machine,
        clipped_inputs,
        simulate,
    )
    from mapper.results.output_folder import output_folder, writing_into
    from mapper.results.tables import columns, facts
    from storage.samples import SampleForm, open_samples

    if options.input is None and options.cycles is None:
        raise UsageError(f"{options.path}: is a compiled model; name samples with --input")
    folder = read_folder(options.path)
    if (options.frames or options.clock) and not options.cycles:
        raise UsageError("--frames, --clock: are of runs cycle by cycle; give --cycles, too")
    if (options.frames or options.clock) and not folder.is_spread:
        raise UsageError(
            f"--frames, --clock: {options.path} runs on one core, one frame after the other"
        )
    if options.hardware and options.input is None:
        raise UsageError("--hardware: runs samples; name some with --input")
    if options.input is None and options.dump:
        raise UsageError("--dump: writes the maps of samples; name some with --input")
    if options.input is None:
        _compile_kernels(options, folder)
        only = _cycles(options, folder, None)
        with writing_into(options.path):
            add_simulation(options.path, {"cycle_run": only})
        common.emit(options, {"cycle_run": only}, cycle_tables(only, str(options.path)))
        return 0
    form = SampleForm.from_json(folder.manifest["samples"])
    shape = tuple(folder.manifest["input"]["shape"][1:])
    last = bool(folder.manifest["input"]["channels_last"])
    _compile_kernels(options, folder)
    parts: list[list[Compared]] = []
    classes: list[NDArray[np.int64]] = []
    clipped: list[Clipped | None] = []
    digest = Digest(folder)
    machine = Machine(folder)
    with (
        open_samples(options.input, shape, form, options.limit, channels_last=last) as samples,
        output_folder(options.dump, force=False) if options.dump else nullcontext() as work,
        common.fraction_bar(options, "simulating") as progress,
    ):
        for note in samples.notes:
            common.say(options, f"note: {note}")
        threads, labels, frames = common.threads_of(options), samples.labels, len(samples)
        dump = None if work is None else Dump(work.folder, machine, frames)
        for some in samples.batches(FRAMES_AT_ONCE):
            taken = dump.from_frame(sum(map(len, classes))) if dump else None
            found = simulate(machine, some, threads, options.check, taken)
            digest.add(found)
            clipped.append(clipped_inputs(folder, some))
            parts.append(found.compared)
            classes.append(classes_of(found.values))
            if labels is not None:
                require_classes(labels, next(iter(found.values.values()))[0].size)
            progress(sum(map(len, classes)) / frames)
        checks = options.cycles or options.hardware
        first = samples.read(0, min(CHECKED, frames)) if checks else None
        compared = [
            Compared(
                rows[0].name,
                sum(one.elements for one in rows),
                sum(one.differences for one in rows),
            )
            for rows in zip(*parts, strict=True)
        ]
        if dump is not None:
            dump.finish(compared)
    timed = None if first is None or not options.cycles else _cycles(options, folder, first)
    on_chip = None if first is None or not options.hardware else _hardware(options, folder, first)
    result: dict[str, Any] = {"frames": frames, "sha256": digest.text}
    if counted := [one for one in clipped if one is not None]:
        result["clipped"] = sum(one.values for one in counted)
        _say_clipped(options, result["clipped"], counted[0])
    if timed is not None:
        result["cycle_run"] = timed
    if on_chip is not None:
        result["hardware"] = on_chip
    if labels is not None:
        result["accuracy"] = float((np.concatenate(classes) == labels).mean())
    if options.check or options.dump:
        result["elements"] = sum(elements for _, elements, _ in compared)
        result["differences"] = sum(differences for _, _, differences in compared)
    with writing_into(options.path):
        add_simulation(options.path, result)
    rows: dict[str, Any] = {"samples": result["frames"]}
    if "accuracy" in result:
        rows["accuracy"] = f"{100 * result['accuracy']:.2f} %"
    rows["SHA-256 of results"] = digest.text
    shown = [facts(f"{folder.manifest['model']['name']} on {options.path}", rows)]
    if options.check or options.dump:
        heads = ("layer", "elements", "differences")
        shown.append(columns("beside the integer reference", heads, compared))
    if timed is not None:
        shown += cycle_tables(result["cycle_run"], str(options.path))
    if on_chip is not None:
        shown.append(facts("in Amaranth, equal to the simulators", on_chip))
    common.emit(options, result, shown)
    if result.get("differences"):
        common.complain(f"{result['differences']:,} elements differ from the integer reference")
        return BAD_INPUT
    return 0


def _hardware(
    options: argparse.Namespace, folder: CompiledFolder, samples: NDArray[np.float32]
) -> dict[str, int]:
    """What was equal in Amaranth's simulator, counted."""
    from mapper.compiler.chip_hardware import check_hardware
    from mapper.compiler.core_hardware import check_core

    if folder.is_spread:
        return check_hardware(folder, samples)._asdict()
    with common.fraction_bar(options, "running in Amaranth") as progress:
        return check_core(folder, samples, progress)._asdict()


def _compile_kernels(options: argparse.Namespace, folder: CompiledFolder) -> None:
    """Those that runs of a compiled model call."""
    works = ["cores"] if options.input else []
    if options.cycles or options.hardware:
        works += ["cores/frames" if folder.is_spread else "cores/cycles"]
    common.compile_kernels(options, *works)


def _cycles(
    options: argparse.Namespace, folder: CompiledFolder, samples: NDArray[np.float32] | None
) -> dict[str, Any]:
    """A cycle-true run as an object for JSON: a frame on one core, or many on several."""
    from mapper.compiler.chip_cycles import FRAMES, frames_rows, run_frames
    from mapper.compiler.cycles import cycle_rows, run_cycles

    if not folder.is_spread:
        return cycle_rows(run_cycles(folder, None if samples is None else samples[:1]))
    frames = options.frames or FRAMES
    with common.fraction_bar(options, "running frames") as progress:
        run = run_frames(folder, samples, frames, lambda done: progress(done / frames))
    return frames_rows(run, options.clock or CLOCK)


def _say_clipped(options: argparse.Namespace, count: int, one: Clipped) -> None:
    """That samples hold what the scale of the model's input does not reach."""
    if count:
        common.say(
            options,
            f"note: {count:,} values of the samples lie outside of {one.low:.4g} to "
            f"{one.high:.4g}, the range of the model's input, and were clipped",
        )


def classes_of(values: dict[str, NDArray[Any]]) -> NDArray[np.int64]:
    """The number of the largest output of each sample, or the class that the model names itself."""
    import numpy as np

    rows = [one.reshape(len(one), -1) for one in values.values() if one.dtype.kind in "biuf"]
    for row in rows:
        if row.shape[1] > 1:
            return row.argmax(1)
    if rows and rows[0].dtype.kind in "iu":
        return rows[0][:, 0].astype(np.int64)
    return np.zeros(len(next(iter(values.values()))), np.int64)


def _simulate(options: argparse.Namespace) -> int:
    import json
    from functools import partial

    from mapper.cli.report import measure_folder
    from mapper.cli.ticking import run_ticks
    from mapper.evaluation.offered_load import offered_load
    from mapper.evaluation.simulate import SimulationRequest, simulate, tables
    from mapper.report.make import PAGE, view_folder, write_page
    from mapper.results.output import REPORT, network_of, read_report
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
    packets = options.packets or "synapse"
    with NetworkFile(network_of(options.path, options.network, report)) as network:
        common.compile_kernels(options, "simulate")
        offered = offered_load(
            options.path,
            report,
            network,
            depth=options.depth,
            packets=packets,
            tick_cycles=options.tick_cycles,
            threads=common.threads_of(options),
            memory=common.memory_of(options),
        )
    with common.fraction_bar(options, "simulating") as progress:
        found = {"packets_per": packets, **simulate(offered, request, progress)}
    report["simulation"] = found
    write_file(options.path / REPORT, (json.dumps(report, indent=1) + "\n").encode())
    mesh = f"{offered.mesh.width}x{offered.mesh.height}, {offered.mesh.depth} flits an input"
    common.emit(options, found, tables(found, f"{options.path} on {mesh}"))
    _tell_model(options, report, found)
    if found["saturated"]:
        common.say(
            options,
            f"note: load scale {options.load_scale:g} is above saturation: source queues grow, "
            "and latency with them for as long as it runs",
        )
    if found["undelivered"]:
        common.say(
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
    if options.ticks is None:
        chip = report["chip"]
        known = chip.get("time") is not None and chip.get("delivery", "synapse") != "synapse"
        return known and not given
    if given:
        raise UsageError(
            f"--ticks: runs the chip with its cores; --{given[0].replace('_', '-')} is of the mesh "
            "alone, leave one of the two out"
        )
    return True


def _tell_model(options: argparse.Namespace, report: dict[str, Any], found: dict[str, Any]) -> None:
    """Say what was left out, and what the numbers are not."""
    from mapper.evaluation.simulate import CLOCK
    from mapper.results.activity import are_spikes, traffic_in
    from mapper.results.tables import number
    from storage.store.traffic import describe

    if found["flits_per_tick_own_core"]:
        left = number(found["flits_per_tick_own_core"])
        common.say(options, f"note: {left} flits per unit of time stay in their core: left out")
    if not found["packets"]:
        return
    common.say(options, f"note: {CLOCK}")
    if not are_spikes(traffic_in(report)):
        source = describe(traffic_in(report))
        common.say(options, f"note: traffic is taken as packets per unit of time ({source})")
