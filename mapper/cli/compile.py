"""`mapper compile`: compile a trained model to programs for the cores."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mapper.cli import compile_options, spiking_compile, terminal
from mapper.cli import options as common
from mapper.cli.chip_sizes import chips_in
from mapper.cli.given_options import refuse_others
from mapper.cli.parser import Topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from chipsim.chip.model import Chip
    from mapper.compiler.model import Model
    from mapper.compiler.quantisation.ranges import RangesFile
    from mapper.compiler.settings import CompileSettings
    from storage.samples import SampleArrays, SampleForm

SAMPLE_BYTES = 12  # per number of a sample: as stored, normalised in float64, and float32
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
    from chipsim.chip.host import ChipHost
    from mapper.cli import compile_tables
    from mapper.cli.compile_job import (
        CompileTask,
        catalogue_compilation,
        compile_into,
        compile_kernels_for,
    )
    from mapper.compiler.artifacts.manifest import Target
    from mapper.compiler.caching import CompileInputs
    from mapper.compiler.calibration import compare_settings
    from mapper.compiler.explain import explain, explain_json
    from mapper.compiler.output import Dumps, Origin
    from mapper.compiler.pipeline import compile_model
    from mapper.compiler.stages import Clock, stage
    from mapper.errors import UsageError
    from mapper.results.output_folder import output_folder
    from storage.samples import parse_form, require_samples

    chips = [_chip(options, name) for name in chips_in(options.chip)]
    chip = chips[-1]
    if len(chips) > 1 and (options.ablate or options.compare):
        raise UsageError("--chip: --ablate and --compare need a single chip, not a range")
    settings = _settings(options)
    if "c" in options.emit and chip.usable_count > 1 and settings.cores != 1:
        raise UsageError("--emit c: the C driver supports one core; add --cores 1")
    form = parse_form(options.normalise, options.layout)
    for path in (options.calibrate, options.verify):  # a large model takes seconds to read
        if path is not None and path.suffix.lower() != ".json":
            require_samples(path)
    clock, begin = Clock(partial(_say_stage, options)), time.monotonic()
    with clock.running():
        with stage("read"):
            model = _open(options, form)
        speed = (chip.host or ChipHost()).operations
        rows = explain(model, settings, speed) if options.explain or options.explain_only else []
        if options.explain_only:
            terminal.emit(
                options, explain_json(rows), compile_tables.explain_tables(rows, str(options.model))
            )
            return 0
        if rows and not options.json:
            terminal.emit(options, {}, compile_tables.explain_tables(rows, str(options.model)))
        with stage("read"):
            samples, test = _samples(options, model, settings, form)
        if options.compare and samples is not None:
            found = compare_settings(model, samples, settings, test)
            return compile_tables.compare(options, found)
        if options.ablate:
            assert chip.npu is not None
            target = Target(chip, chip.npu, settings)
            compile_kernels_for(options, target)
            compiling = partial(compile_model, model, target.shape, samples, test=test, chip=chip)
            return compile_tables.ablate(options, compiling, target)
        command = ["mapper", *options.arguments]
        seen = _seen(samples) if _seen(samples) is not None else _seen(test)
        origin = Origin(options.model, form.to_json(), _count(samples), command, seen, model.data)
        dumps = Dumps(rows, options.keep_graphs, options.emit)
        with output_folder(options.output, options.force) as work:
            job = CompileTask(CompileInputs(model, samples, test), settings, origin, dumps, clock)
            outcome, report = compile_into(options, job, chips, work.folder)
    catalogue_compilation(options, report, time.monotonic() - begin)
    terminal.emit(
        options, report, compile_tables.result_tables(options, outcome, report["judge"]),
        compile_tables.result_summary(options, report),
    )  # fmt: skip
    return compile_tables.limits_code(options, outcome)


def _chip(options: argparse.Namespace, name: str) -> Chip:
    """Return a chip of --chip with the NPU of its cores."""
    from chipsim.chip.npu_shape import NPU_SHAPES
    from mapper.errors import MapperError, UsageError

    chip, presets = common.named_chip(name), ", ".join(NPU_SHAPES)
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
    return chip


def _settings(options: argparse.Namespace) -> CompileSettings:
    from mapper.compiler.settings import CompileSettings
    from mapper.compiler.transforms.switches import SWITCHES

    named = (
        "scheme", "method", "headroom", "max_loss", "min_signal", "rounding", "zero_point",
        "bits", "bias", "dual", "first_tile", "pack", "pack_chunk", "padding", "few_channels",
        "cores", "objective", "effort", "time_limit",
    )  # fmt: skip
    return CompileSettings(
        **{name: getattr(options, name) for name in named},
        per=_per(options.per),
        samples=options.samples or compile_options.SAMPLES,
        keep=tuple(filter(None, options.keep.split(","))),
        bias_correction="bias-correction" not in options.disable,
        reuse="reuse" not in options.disable,
        off=tuple(name for name in options.disable if name in SWITCHES),
        **options.baseline,
    )


def _per(text: str | None) -> Literal["tensor", "channel"]:
    """Return what shares a scale of weights; raise `UsageError` for spiking models' words."""
    from mapper.errors import UsageError

    if text in ("neuron", "population"):
        raise UsageError(f"--per {text}: applies to spiking models (.nir); give tensor or channel")
    return "tensor" if text == "tensor" else "channel"


def _open(options: argparse.Namespace, form: SampleForm) -> Model:
    """Return the model; report options without effect on it.

    With samples, floating-point parts of a quantised model are quantised as well.
    """
    from mapper.compiler.model import open_model
    from mapper.errors import UsageError

    shapes = _shapes(options)
    model = open_model(options.model, shapes, memory=options.memory)
    by_samples = model.guessed and options.calibrate is not None
    if by_samples and options.calibrate.suffix.lower() != ".json":
        samples = _read(options, options.calibrate, model, form, options.samples)
        signed = bool(samples.x.min(initial=0) < 0)
        model = open_model(options.model, shapes, signed, options.memory)
    elif options.calibrate is not None:
        model = model.to_calibrate()
    elif model.build_in_part is not None:
        terminal.say(options, "note: floating-point parts of the model run on the host; add "
                            "samples with --calibrate to run them on the cores")  # fmt: skip
    if not model.quantised:
        return model
    for name in ("calibrate", "compare", "verify"):
        if getattr(options, name) and not (by_samples and name == "calibrate"):
            raise UsageError(
                f"{options.model}: is quantised already, and keeps its scales; omit --{name}"
            )
    if given := compile_options.of_floats(options):
        terminal.say(options, "note: the model is quantised already, and keeps its scales; no "
                            f"effect: {', '.join(given)}")  # fmt: skip
    return model


def _shapes(options: argparse.Namespace) -> dict[str, tuple[int, ...]]:
    """Return the sizes of inputs by name; raise `UsageError` for a duplicate."""
    from mapper.errors import UsageError

    found: dict[str, tuple[int, ...]] = {}
    for name, sizes in options.input_shape:
        if name in found or (found and "" in (name, *found)):
            raise UsageError("--input-shape: duplicate input; give each input once")
        found[name] = sizes
    return found


def _samples(
    options: argparse.Namespace, model: Model, settings: CompileSettings, form: SampleForm
) -> tuple[SampleArrays | RangesFile | None, SampleArrays | None]:
    """Return calibration samples or ranges, and test samples.

    Both are None for a quantised model; test samples are None without --verify.
    """
    from mapper.compiler.calibration import pixel_samples
    from mapper.compiler.quantisation.ranges import open_ranges
    from mapper.errors import UsageError

    if model.quantised:
        return None, None
    found: SampleArrays | RangesFile
    ranges = options.calibrate is not None and options.calibrate.suffix.lower() == ".json"
    if options.samples is not None and (ranges or options.calibrate is None):
        raise UsageError("--samples: needs calibration samples; add --calibrate DATA")
    if options.calibrate is None:
        found = pixel_samples(model, settings)
        for note in found.notes:
            terminal.say(options, f"note: {note}")
    elif ranges:
        found = open_ranges(options.calibrate, options.model)
    else:
        found = _read(options, options.calibrate, model, form, options.samples, settings.samples)
    test = None if options.verify is None else _read(options, options.verify, model, form)
    return found, test


def _read(
    options: argparse.Namespace, path: Path, model: Model, form: SampleForm,
    asked: int | None = None, most: int | None = None,
) -> SampleArrays:  # fmt: skip
    """Return the first samples of a file, or all; print the notes on them."""
    from storage.budget import declared_bytes, require_room
    from storage.samples import SampleArrays, open_samples

    shape, last = model.view.shape[1:], model.view.order[-1] == 3
    with open_samples(path, shape, form, asked, channels_last=last, name=model.name) as found:
        count = len(found) if most is None else min(len(found), most)
        labels = None if found.labels is None else found.labels[:count]
        for note in found.notes:
            terminal.say(options, f"note: {note}")
        size = declared_bytes((count, *shape), SAMPLE_BYTES)
        require_room(f"{path}: the array of {count:,} samples", size, common.memory_of(options))
        return SampleArrays(found.read(0, count), labels, found.notes)


def _count(samples: SampleArrays | RangesFile | None) -> int:
    """Return the number of calibration samples."""
    from mapper.compiler.quantisation.ranges import RangesFile

    if samples is None:
        return 0
    return samples.samples if isinstance(samples, RangesFile) else len(samples.x)


def _seen(samples: SampleArrays | RangesFile | None) -> NDArray[np.float32] | None:
    """Return the inputs of samples, None for ranges."""
    from mapper.compiler.quantisation.ranges import RangesFile

    return None if samples is None or isinstance(samples, RangesFile) else samples.x


def _say_stage(options: argparse.Namespace, name: str, seconds: float) -> None:
    """Print a stage and its time with --verbose."""
    if options.verbose:
        terminal.say(options, f"{name}: {seconds:.2f} s")
