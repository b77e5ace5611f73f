"""`mapper compile`: from a trained model to programs for the cores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapper.cli import options as common

if TYPE_CHECKING:
    from rich.table import Table

    from mapper.compiler.pipeline import Compiled

EPILOG = """\
examples:
  mapper compile model.onnx --chip 4x4 --calibrate samples.npz -o out
  mapper simulate out --input samples.npz
  mapper compile model.onnx --chip 4x4 --calibrate digits.csv -o out \\
      --normalise scale=1/255,mean=.1307,std=.3081

MODEL is a network in floating point. Its layers become integer programs for
the matrix processors (NPUs) of the cores; what no core computes, as Softmax,
runs on the host. --calibrate gives samples to measure the ranges of its maps
with: .npz (x, optional y), .npy, .csv (label, pixels) or a folder of images.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model (.onnx)")
    parser.add_argument("-o", "--output", type=Path, default=Path("out"), metavar="DIR",
                        help="output folder (default: out)")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace DIR if it is there")
    chip = parser.add_argument_group("chip")
    chip.add_argument(
        "--chip", required=True, metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml"
    )
    chip.add_argument("--npu", default="npu", metavar="SHAPE",
                      help="shape of the cores' NPU (default: npu)")  # fmt: skip
    numbers = parser.add_argument_group("numbers")
    numbers.add_argument(
        "--calibrate", type=Path, metavar="DATA", help="samples to measure ranges with"
    )
    numbers.add_argument("--samples", type=common.positive, default=100, metavar="N",
                         help="take the first N of them (default: 100)")  # fmt: skip
    add_form(numbers)
    numbers.add_argument("--scheme", choices=("asym", "sym"), default="asym",
                         help="zero points of activations, or none (default: asym)")  # fmt: skip
    numbers.add_argument("--per", choices=("tensor", "channel"), default="channel",
                         help="scales of weights (default: channel)")  # fmt: skip
    add_switches(numbers)


def add_switches(group: argparse._ActionsContainer) -> None:
    group.add_argument("--no-bias-correction", dest="bias_correction", action="store_false",
                       help="keep the mean errors of channels")  # fmt: skip
    group.add_argument("--no-reuse", dest="reuse", action="store_false",
                       help="a memory region of its own for each map")  # fmt: skip
    group.add_argument("--headroom", type=float, default=1.0, metavar="F",
                       help="factor on the headroom of ranges (default: 1)")  # fmt: skip


def add_form(group: argparse._ActionsContainer) -> None:
    """How samples become the input of a model."""
    group.add_argument("--normalise", metavar="TERMS",
                       help="of samples, as scale=1/255,mean=0.5,std=0.25")  # fmt: skip
    group.add_argument("--layout", choices=("nchw", "nhwc"),
                       help="axes of samples (default: those of the model)")  # fmt: skip


def run(options: argparse.Namespace) -> int:
    from chipsim.chip.npu_shape import NPU_SHAPES
    from mapper.compiler.manifest import Target, write_folder
    from mapper.compiler.pipeline import compile_model, read_model
    from mapper.compiler.report import report_of, write_report
    from mapper.compiler.settings import CompileSettings
    from mapper.errors import MapperError, UsageError
    from mapper.results.output_folder import output_folder
    from storage.samples import parse_form, read_samples

    chip = common.named_chip(options.chip)
    shape = NPU_SHAPES.get(options.npu)
    if shape is None:
        raise UsageError(f"--npu {options.npu!r} is not known; give one of {', '.join(NPU_SHAPES)}")
    settings = CompileSettings(
        8, options.scheme, options.per, options.headroom, options.samples,
        options.bias_correction, options.reuse,
    )  # fmt: skip
    if options.calibrate is None:
        raise MapperError(
            f"{options.model}: is in floating point; give samples with --calibrate to measure the "
            "ranges of its maps"
        )
    target = Target(chip, shape, settings)
    form = parse_form(options.normalise, options.layout)
    model = read_model(options.model)
    with output_folder(options.output, options.force) as work:
        samples = read_samples(
            options.calibrate,
            model.view.shape[1:],
            form,
            options.samples,
            channels_last=model.view.order[-1] == 3,
        )
        for note in samples.notes:
            common.say(options, f"note: {note}")
        compiled = compile_model(model, shape, samples.x, settings)
        write_folder(work.folder, options.model, target, compiled, form.to_json())
        report = report_of(compiled, options.model.name, target)
        write_report(work.folder, report)
    common.emit(options, report, _tables(options, compiled))
    return 0


def _tables(options: argparse.Namespace, compiled: Compiled) -> list[Table]:
    from mapper.results.tables import facts

    signal = "no error" if compiled.signal is None else f"{compiled.signal:.1f} dB"
    rows: dict[str, Any] = {
        "macro nodes": len(compiled.macros),
        "nodes on the host": sum(step["do"] == "node" for step in compiled.host),
        "cycles per frame": compiled.timeline.cycles,
        "instructions": len(compiled.program),
        "micro-ops": len(compiled.tables.micro_ops),
        "weight words": len(compiled.tables.weights),
        "parameter words": len(compiled.tables.parameters),
        "signal over error": signal,
    }
    return [facts(f"{options.model} on {options.chip}", rows)]
