"""`mapper compile`: from a trained model to programs for the cores."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from chipsim.chip.model import Chip
    from chipsim.chip.npu_shape import NpuShape
    from mapper.compiler.pipeline import Compiled
    from mapper.compiler.quantise.verify import Compared
    from mapper.compiler.schedule.packing import Packing
    from mapper.compiler.settings import CompileSettings

EPILOG = """\
examples:
  mapper compile model.onnx --chip 4x4 --calibrate samples.npz -o out
  mapper simulate out --input samples.npz
  mapper compile model.onnx --chip 4x4 --calibrate digits.csv -o out \\
      --normalise scale=1/255,mean=.1307,std=.3081

MODEL is a network in floating point, or one that is quantised already. Its
layers become integer programs for the matrix processors (NPUs) of the cores;
what no core computes, as Softmax, runs on the host. --calibrate gives samples
to measure the ranges of maps with that have no scales: .npz (x, optional y),
.npy, .csv (label, pixels) or a folder of images.
"""
SAMPLES = 100  # to calibrate with, if nothing else is said


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model (.onnx)")
    parser.add_argument("-o", "--output", type=Path, default=Path("out"), metavar="DIR",
                        help="output folder (default: out)")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace DIR if it is there")
    chip = parser.add_argument_group("chip")
    chip.add_argument(
        "--chip", required=True, metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml"
    )
    chip.add_argument("--npu", metavar="PRESET",
                      help="NPU of each core (default: that of the chip)")  # fmt: skip
    add_schedule(parser.add_argument_group("schedule"))
    add_passes(parser.add_argument_group("passes"))
    numbers = parser.add_argument_group("numbers")
    numbers.add_argument(
        "--calibrate", type=Path, metavar="DATA", help="samples to measure ranges with"
    )
    numbers.add_argument("--samples", type=common.positive, metavar="N",
                         help="use the first N samples (default: 100)")  # fmt: skip
    add_form(numbers)
    numbers.add_argument("--scheme", choices=("asym", "sym"), default="asym",
                         help="with zero points or without (default: asym)")  # fmt: skip
    numbers.add_argument("--per", choices=("tensor", "channel"), default="channel",
                         help="scales of weights (default: channel)")  # fmt: skip
    add_switches(numbers)


def add_switches(group: argparse._ActionsContainer) -> None:
    group.add_argument("--no-bias-correction", dest="bias_correction", action="store_false",
                       help="do not correct biases by mean errors")  # fmt: skip
    group.add_argument("--no-reuse", dest="reuse", action="store_false",
                       help="give each map a memory region of its own")  # fmt: skip
    group.add_argument("--bits", type=int, default=8, choices=(8, 16),
                       help="of stored integers; 16 need a dual core (default: 8)")  # fmt: skip
    group.add_argument("--bias", default="init", choices=("init", "alu"),
                       help="sums begin with it, or the ALU adds it (default: init)")  # fmt: skip
    group.add_argument("--dual", default="auto", choices=("off", "pixels", "kernels", "auto"),
                       help="two products at once on dual cores (default: auto)")  # fmt: skip
    group.add_argument("--pack", default="core", choices=("core", "host"),
                       help="who packs bits, for the cycles told (default: core)")  # fmt: skip
    group.add_argument("--pack-chunk", type=common.positive, default=16, metavar="N",
                       help="bytes that a host packs at once (default: 16)")  # fmt: skip
    group.add_argument("--padding", default="load", choices=("load", "stored"),
                       help="loads write padding, or maps lie in it (default: load)")  # fmt: skip
    group.add_argument("--weights", default="optimal", choices=("optimal", "greedy"),
                       help="how layers are chosen whose weights come from the host")  # fmt: skip
    group.add_argument("--method", default="auto",
                       choices=("auto", "minmax", "percentile", "mse", "entropy"),
                       help="how ranges are chosen (default: auto, tries all)")  # fmt: skip
    group.add_argument("--compare", action="store_true",
                       help="compare precisions and methods in a table, then stop")  # fmt: skip
    group.add_argument("--max-loss", type=_decibels, default=1.0, metavar="POINTS",
                       help="largest loss of accuracy allowed (default: 1)")  # fmt: skip
    group.add_argument("--min-signal", type=_decibels, default=20.0, metavar="DB",
                       help="least signal over error allowed (default: 20)")  # fmt: skip
    group.add_argument("--rounding", default="away", choices=("away", "up", "even"),
                       help="how shifts round halves (default: away from zero)")  # fmt: skip
    group.add_argument("--zero-point", default="shift", choices=("shift", "bias"),
                       help="add it after the shift or in the bias (default: shift)")  # fmt: skip
    group.add_argument("--keep", default="", metavar="NODE,...",
                       help="ONNX nodes to keep on the host")  # fmt: skip
    group.add_argument("--keep-graphs", action="store_true",
                       help="keep the graphs of the stages in DIR/graphs")  # fmt: skip
    group.add_argument("--explain", action="store_true",
                       help="say where each node runs, and why")  # fmt: skip
    group.add_argument("--explain-only", action="store_true",
                       help="say so, then stop: needs no samples")  # fmt: skip
    group.add_argument("--emit", type=_emitted, default=(), metavar="LIST",
                       help="also write: c (a driver), loops (schedules)")  # fmt: skip
    group.add_argument("--headroom", type=_decibels, default=1.0, metavar="F",
                       help="factor on the headroom of ranges (default: 1)")  # fmt: skip


def add_passes(group: argparse._ActionsContainer) -> None:
    """A switch for each pass."""
    from mapper.compiler.passes.switches import CHANGES_NUMBERS, SWITCHES

    for name, about in SWITCHES.items():
        more = "; changes numbers" if name in CHANGES_NUMBERS else ""
        group.add_argument(f"--no-{name}", dest="off", action="append_const", const=name,
                           help=f"without: {about}{more}")  # fmt: skip
    group.add_argument("--ablate", action="store_true",
                       help="cycles without each pass in a table, then stop")  # fmt: skip


EMITTED = ("c", "loops")


def _emitted(text: str) -> tuple[str, ...]:
    """What else is written, without what is named twice."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in EMITTED:
            raise argparse.ArgumentTypeError(f"{name!r} is not known; give {', '.join(EMITTED)}")
    return names


def _decibels(text: str) -> float:
    """A number, which may be negative."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def add_schedule(group: argparse._ActionsContainer) -> None:
    """What changes cycles, and no result."""
    group.add_argument("--schedule", default="search",
                       choices=("search", "rows", "plane8", "plane16"),
                       help="cut layers by search or a fixed rule (default: search)")  # fmt: skip
    group.add_argument("--first-tile", type=_plane, metavar="WxH",
                       help="columns and rows of the first layer's tiles")  # fmt: skip


def _plane(text: str) -> tuple[int, int]:
    """Columns and rows, such as 8x8."""
    columns, cross, rows = text.partition("x")
    if not (cross and columns.isdecimal() and rows.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMNSxROWS, such as 8x8")
    return int(columns), int(rows)


def add_form(group: argparse._ActionsContainer) -> None:
    """How samples become the input of a model."""
    group.add_argument("--normalise", metavar="TERMS",
                       help="such as scale=1/255,mean=0.5,std=0.25")  # fmt: skip
    group.add_argument("--layout", choices=("nchw", "nhwc"),
                       help="axes of samples (default: those of the model)")  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from mapper.cli.explaining import explain_tables
    from mapper.compiler.codegen.cdriver.hoststeps import driver_of
    from mapper.compiler.codegen.cdriver.writer import write_driver
    from mapper.compiler.explain import explain, explain_json, write_explain
    from mapper.compiler.frontend.model import open_model
    from mapper.compiler.manifest import (
        DRIVER,
        RANGES,
        Target,
        read_folder,
        write_folder,
        write_graphs,
        write_loops,
    )
    from mapper.compiler.pipeline import (
        compare_settings,
        compile_model,
        pixel_samples,
    )
    from mapper.compiler.quantise.ranges import write_ranges
    from mapper.compiler.report import report_of, write_report
    from mapper.compiler.settings import CompileSettings
    from mapper.results.output_folder import output_folder
    from storage.samples import SampleArrays, open_samples, parse_form

    chip, shape = _chip_and_shape(options)
    settings = CompileSettings(
        options.scheme, options.per, options.method, options.headroom,
        options.samples or SAMPLES,
        options.bias_correction, tuple(filter(None, options.keep.split(","))), options.max_loss,
        options.min_signal, options.rounding, options.zero_point, options.reuse, options.bits,
        options.bias, options.dual,
        schedule=options.schedule, first_tile=options.first_tile,
        pack=options.pack, pack_chunk=options.pack_chunk,
        weights=options.weights, padding=options.padding, off=tuple(options.off or ()),
    )  # fmt: skip
    target = Target(chip, shape, settings)
    form = parse_form(options.normalise, options.layout)
    model = open_model(options.model)
    if options.calibrate is not None:
        model = model.to_calibrate()
    elif model.build_in_part is not None:
        common.say(options, "note: what the model leaves in real numbers runs on the host; give "
                            "samples with --calibrate to run it on the cores")  # fmt: skip
    rows = explain(model, settings) if options.explain or options.explain_only else []
    if options.explain_only:
        common.emit(options, explain_json(rows), explain_tables(rows, str(options.model)))
        return 0
    if rows and not options.json:
        common.emit(options, {}, explain_tables(rows, str(options.model)))
    samples = None
    if model.quantised:
        _require_no_samples(options)
    elif options.calibrate is None:
        samples = pixel_samples(model, settings)
    else:
        with open_samples(
            options.calibrate, model.view.shape[1:], form, options.samples,
            channels_last=model.view.order[-1] == 3,
        ) as found:  # fmt: skip
            count = min(len(found), settings.samples)
            labels = None if found.labels is None else found.labels[:count]
            samples = SampleArrays(found.read(0, count), labels, found.notes)
    for note in samples.notes if samples is not None else ():
        common.say(options, f"note: {note}")
    if options.compare and samples is not None:
        return _compare(options, compare_settings(model, samples, settings))
    if options.ablate:
        return _ablate(options, partial(compile_model, model, shape, samples), settings)
    with output_folder(options.output, options.force) as work:
        compiled = compile_model(model, shape, samples, settings, partial(_say_stage, options))
        for note in compiled.notes:
            common.say(options, f"note: {note}")
        _require_limits(options, compiled)
        write_folder(work.folder, options.model, target, compiled, form.to_json())
        if compiled.verified is not None and samples is not None:
            write_ranges(work.folder / RANGES, compiled.verified.best.ranges, len(samples.x))
        if rows:
            write_explain(work.folder, rows)
        if options.keep_graphs:
            write_graphs(work.folder, compiled.graphs, compiled.partition)
        if "loops" in options.emit:
            write_loops(work.folder, target, compiled)
        if "c" in options.emit:
            write_driver(work.folder / DRIVER, driver_of(read_folder(work.folder)))
        report = report_of(compiled, options.model.name, target, ["mapper", *options.arguments])
        write_report(work.folder, report)
    common.emit(options, report, _tables(options, compiled))
    return 0


def _chip_and_shape(options: argparse.Namespace) -> tuple[Chip, NpuShape]:
    """The chip with the NPU that is compiled for, and that NPU."""
    from chipsim.chip.npu_shape import NPU_SHAPES
    from mapper.errors import MapperError, UsageError

    chip, presets = common.named_chip(options.chip), ", ".join(NPU_SHAPES)
    if options.npu is not None:
        if options.npu not in NPU_SHAPES:
            raise UsageError(f"--npu {options.npu!r} is not known; give one of {presets}")
        chip = replace(chip, npu=NPU_SHAPES[options.npu])
    if chip.npu is None:
        raise MapperError(
            f"chip {chip.name}: its cores have no NPU; give a size such as "
            f"{chip.width}x{chip.height}, whose cores have the NPU {next(iter(NPU_SHAPES))}, a "
            f"chip file with a table [npu], or --npu with one of {presets}"
        )
    return chip, chip.npu


def _require_no_samples(options: argparse.Namespace) -> None:
    """Raise `UsageError` if a model that is quantised already is to be calibrated."""
    from mapper.errors import UsageError

    for name in ("calibrate", "compare"):
        if getattr(options, name):
            raise UsageError(
                f"{options.model}: is quantised already, and keeps its scales; leave out --{name}"
            )


def _say_stage(options: argparse.Namespace, name: str, seconds: float) -> None:
    """A stage and its time, if asked to be verbose."""
    if options.verbose:
        common.say(options, f"{name}: {seconds:.2f} s")


def _compare(options: argparse.Namespace, rows: list[Compared]) -> int:
    """Print how near a model is in all precisions, schemes and methods."""
    from mapper.results.tables import columns

    heads = ("method", "bits", "scheme", "signal, dB", "points lost")
    table = [
        (one.method, one.bits, one.scheme, one.score.signal or "no error", one.score.loss)
        for one in rows
    ]
    result = [dict(zip(heads, row, strict=True)) for row in table]
    _keep_rows(options, "compared", result)
    common.emit(options, {"compared": result}, [columns(str(options.model), heads, table)])
    return 0


def _ablate(
    options: argparse.Namespace, compiling: Callable[[CompileSettings], Compiled],
    settings: CompileSettings,
) -> int:  # fmt: skip
    """Print the cycles of a frame with all passes, and without each of them."""
    from mapper.compiler.ablation import ablation
    from mapper.results.tables import columns

    rows = ablation(compiling, settings)
    heads = ("without", "cycles", "of all", "signal, dB")
    table = [
        (row.without or "nothing", row.cycles, f"{row.share:.3f}",
         "" if row.signal is None else f"{row.signal:.1f}")
        for row in rows
    ]  # fmt: skip
    result = {"ablation": [row._asdict() for row in rows]}
    _keep_rows(options, "ablation", result["ablation"])
    common.emit(options, result, [columns(f"{options.model.name} on {options.chip}", heads, table)])
    return 0


def _keep_rows(options: argparse.Namespace, name: str, rows: list[dict[str, Any]]) -> None:
    """Keep a table in the report of DIR, if that is this model compiled."""
    from mapper.compiler.manifest import is_compiled
    from mapper.compiler.report import read_report, write_report
    from mapper.results.output_folder import writing_into

    if not is_compiled(options.output):
        return
    with writing_into(options.output):
        report = read_report(options.output)
        if report["model"] == options.model.name:
            write_report(options.output, report | {name: rows})
            common.say(options, f"note: the table is on the page of {options.output}, too")


def _require_limits(options: argparse.Namespace, compiled: Compiled) -> None:
    """Raise `CheckFailedError` if no attempt was good enough; with --force the best one is kept."""
    from mapper.errors import CheckFailedError

    found = compiled.verified
    if found is None or found.reached:
        return
    score = found.attempts[found.number].score
    signal = "no error" if score.signal is None else f"{score.signal:.1f} dB"
    text = (
        f"{options.model}: {signal} and {score.loss:.1f} points lost is the best of "
        f"{len(found.attempts)} attempts"
    )
    if not options.force:
        raise CheckFailedError(
            f"{text}; allow more with --max-loss and --min-signal, or keep it with --force"
        )
    common.say(options, f"note: {text}; kept with --force")


def _packing(options: argparse.Namespace, cost: Packing) -> dict[str, Any]:
    """What packing bits costs, both ways, for a model that has some."""
    if not cost.transfers:
        return {}
    asked = {"cycles, bits packed by the host": cost.by_host} if options.pack == "host" else {}
    return asked | {
        "cycles of packing on the core": cost.core,
        "cycles of packing by the host": cost.host,
    }


def _tables(options: argparse.Namespace, compiled: Compiled) -> list[Table]:
    from mapper.results.tables import facts

    rows: dict[str, Any] = {
        "macro nodes": len(compiled.macros),
        "nodes on the host": sum(step["do"] == "node" for step in compiled.host),
        "cycles per frame": compiled.timeline.cycles,
        **_packing(options, compiled.packing),
        "instructions": len(compiled.program),
        "micro-ops": len(compiled.tables.micro_ops),
        "weight words": len(compiled.tables.weights),
        "parameter words": len(compiled.tables.parameters),
    }
    if compiled.verified is not None:
        score = compiled.verified.attempts[compiled.verified.number].score
        found = "no error" if score.signal is None else f"{score.signal:.1f} dB"
        rows["signal over error"] = found
    return [facts(f"{options.model.name} on {options.chip}", rows)]
