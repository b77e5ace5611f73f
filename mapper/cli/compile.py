"""`mapper compile`: compile a trained model to programs for the cores."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import TYPE_CHECKING

from mapper.cli import compile_options, spiking_compile, terminal
from mapper.cli import options as common
from mapper.cli.caching import cache_of
from mapper.cli.given_options import refuse_others
from mapper.cli.parser import Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mapper.compiler.request import CompileRequest
    from mapper.compiler.settings import CompileSettings
    from mapper.jobs.compile import Analysis

FREQUENT = (
    "output", "force", "input_shape", "chip", "npu", "calibrate", "verify", "normalise", "bits",
    "max_loss", "min_signal", "keep_going", "cores", "objective", "effort",
    "explain", "explain_only",
)  # fmt: skip
EPILOG = f"""\
examples:
  mapper compile model.onnx --chip 4x4 --calibrate samples.npz -o out
  mapper simulate out --input samples.npz
  mapper compile model.onnx --chip 4x4 --calibrate images -o out \\
      --layout nhwc --normalise mean=127.5,std=127.5
  mapper compile model.nir --chip 2x2 --calibrate spikes.npz -o out

MODEL is a floating-point or quantised network (.onnx), or a spiking one (.nir).
Layers of an ONNX model become integer programs for the matrix processors (NPUs)
of the cores; unsupported operators, such as Softmax, run on the host. --per is
tensor or channel (default).

{spiking_compile.MODELS}

--input-shape fixes the open axes of the model's input, e.g. rows and columns:
x=1,3,224,224, or 1,3,224,224. A fixed batch is compiled as one sample if no
node needs the whole batch.

--bits gives the bits of activations and weights, then exceptions by layer (ONNX
node, or a pattern of names): 8,conv1=16 or "16,features.*=8"; the last match
applies. 16 needs a dual NPU. auto means 8, and on a dual NPU 16 for the layers
that lose most per added cycle, until the result meets the limits.

--calibrate names samples to measure the ranges of a floating-point model: .npz
(array x, or named as the input; labels in y), .npy, .csv (label, pixels) or a
folder of images. The ranges are written to DIR/ranges.json, which --calibrate
also accepts. --verify reads the same formats; by default a quarter of the
samples of --calibrate, at least 16, is kept for verification. The loss is the
loss of accuracy, or without labels the percentage of samples whose top class
changes. A result that misses --max-loss or --min-signal is an error;
--keep-going writes it, marks it in report.json and ends with exit code 4.

--chip 4x4..16x16 tries the chips 4x4, 8x4, 8x8, 16x8 and 16x16, and takes the
first one that an ONNX model fits.

{compile_options.list_names()}
`mapper chips` lists the presets of --chip and --npu.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    compile_options.add_arguments(parser)


def topic(words: Sequence[str]) -> Topic:
    """Return the help for the kind of model in the words of the command line."""
    if any(spiking_compile.is_nir(word) for word in words):
        return spiking_compile.TOPIC
    more = "`mapper compile MODEL.nir --help` lists the options of spiking models."
    return Topic(FREQUENT, EPILOG, more=more)


def run(options: argparse.Namespace) -> int:
    if spiking_compile.is_nir(options.model):
        return spiking_compile.run(options)
    refuse_others(
        options, compile_options.add_arguments, spiking_compile.OF_ONNX,
        "to spiking models (.nir) only",
    )  # fmt: skip
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    from mapper.cli import compile_tables
    from mapper.compiler.job import CompileTask, add_to_catalogue, compile_into, explained
    from mapper.compiler.model_inputs import inputs_of
    from mapper.compiler.stages import Clock, stage
    from mapper.jobs.compile import analyse, open_to_analyse
    from mapper.results.output_folder import output_folder

    kind = _analysis(options)
    request, listener = _request(options), common.listener(options)
    clock, begin = Clock(partial(_say_stage, options)), time.monotonic()
    with clock.running():
        model = open_to_analyse(kind, request, listener)
        rows = []
        if options.explain and kind != "explain":
            rows = explained(request, model)
            if not options.json:
                tables = compile_tables.explain_tables(rows, str(options.model))
                terminal.emit(options, {}, tables)
        if kind is not None:
            found = analyse(kind, request, model, options.output, listener)
            terminal.emit(options, found.to_json(), compile_tables.of_analysis(options, found))
            return 0
        with stage("read"):
            inputs = inputs_of(request, model, listener)
        task = CompileTask(request, inputs, rows, clock, listener)
        with output_folder(options.output, options.force) as work:
            outcome, report = compile_into(task, work.folder)
    add_to_catalogue(options.model, options.output, report, time.monotonic() - begin)
    terminal.emit(
        options, report, compile_tables.result_tables(options, outcome, report["judge"]),
        compile_tables.result_summary(options, report),
    )  # fmt: skip
    return compile_tables.limits_code(options, outcome)


def _analysis(options: argparse.Namespace) -> Analysis | None:
    """Return the table that the command line requests in place of a compilation."""
    if options.explain_only:
        return "explain"
    return "compare" if options.compare else "ablate" if options.ablate else None


def _request(options: argparse.Namespace) -> CompileRequest:
    """Return the compilation that the command line requests, with valid options."""
    from mapper.compiler.request import (
        CompileRequest,
        RequestedOutputs,
        RequestedSamples,
        input_shapes,
    )
    from mapper.inputs.chips import chips_in, with_npu
    from mapper.jobs.compile import require_analysis
    from storage.samples import parse_form

    chips = [with_npu(common.named_chip(name), options.npu) for name in chips_in(options.chip)]
    settings = _settings(options)
    form = parse_form(options.normalise, options.layout)
    request = CompileRequest(
        options.model, chips, settings,
        RequestedSamples(options.calibrate, options.verify, options.samples, form),
        RequestedOutputs(
            options.keep_going, options.keep_graphs, options.emit, ["mapper", *options.arguments]
        ),
        input_shapes(options.input_shape), options.memory, compile_options.of_floats(options),
        cache_of(options),
    )  # fmt: skip
    require_analysis(_analysis(options), request)
    request.require_sound()
    return request


def _settings(options: argparse.Namespace) -> CompileSettings:
    from mapper.compiler.request import SETTINGS, settings_of

    return settings_of(
        {name: getattr(options, name) for name in SETTINGS},
        per=options.per,
        samples=options.samples,
        keep=tuple(filter(None, options.keep.split(","))),
        disable=options.disable,
        baseline=options.baseline,
    )


def _say_stage(options: argparse.Namespace, name: str, seconds: float) -> None:
    """Print a stage and its time with --verbose."""
    if options.verbose:
        terminal.say(options, f"{name}: {seconds:.2f} s")
