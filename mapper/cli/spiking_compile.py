"""`mapper compile` for spiking models: integers for the spiking cores, and their mapping."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.given_options import refuse_others
from mapper.cli.parser import Topic

if TYPE_CHECKING:
    from chipsim.chip.model import Chip
    from mapper.spiking.pipeline import SpikingOptions
    from storage.samples.encoding import Encoding

OF_SPIKES = ("tick_length", "reset", "weight_bits", "min_agreement", "encode", "ticks")
OF_BOTH = ("model", "output", "force", "chip", "calibrate", "per", "max_loss", "keep_going")
OF_ONNX = (
    *OF_BOTH, "input_shape", "npu", "samples", "verify", "normalise", "layout", "bits", "scheme",
    "method", "headroom", "rounding", "zero_point", "min_signal", "keep", "cores", "objective",
    "first_tile", "bias", "dual", "few_channels", "padding", "pack", "pack_chunk", "disable",
    "baseline", "explain", "explain_only", "compare", "ablate", "keep_graphs", "emit",
)  # fmt: skip
MODELS = """\
Spiking models (.nir) become integers for cores with synaptic currents, decays
and delays. --calibrate names spikes: .npz with x (samples, ticks, inputs), or
lists sample, tick and neuron; labels in y. They measure how large potentials
get, and the narrowest of --weight-bits that agree with the model are chosen.
--encode turns real numbers, x (samples, inputs), into spikes during --ticks,
here and in `mapper simulate`: with their probability (rate), one spike
(latency), or in every tick (current).
The loss is the percentage of samples whose class changes. --tick-length is in
the time unit of the file. --per is neuron (default) or population.
"""
TOPIC = Topic(
    (*OF_BOTH, *OF_SPIKES),
    f"""\
examples:
  mapper compile model.nir --chip 2x2 --calibrate spikes.npz -o out
  mapper compile model.nir --chip loihi --tick-length 0.001
  mapper simulate out --input spikes.npz --check

{MODELS}
A result that misses --max-loss or --min-agreement is an error; --keep-going
writes it and ends with exit code 4.
""",
    [each for each in OF_ONNX if each not in OF_BOTH],
)


def is_nir(model: str | Path) -> bool:
    """Return whether a file is a spiking model by its name."""
    return str(model).lower().endswith(".nir")


def run(options: argparse.Namespace) -> int:
    """Compile a NIR file, and write its folder."""
    from mapper.cli import compile_options
    from mapper.cli.spiking_tables import compiled_summary, compiled_tables
    from mapper.errors import BEYOND_LIMITS
    from mapper.report.make import PAGE
    from mapper.report.spiking.page import render_spiking
    from mapper.results.output_folder import output_folder
    from mapper.spiking.artifacts.folder import write_folder
    from mapper.spiking.artifacts.report import report_of, write_report
    from mapper.spiking.pipeline import compile_for_chip
    from storage.files import write_file

    refuse_others(
        options, compile_options.add_arguments, (*OF_BOTH, *OF_SPIKES), "to ONNX models only"
    )
    chip = common.named_chip(options.chip)
    settings = _settings(options, chip)
    with output_folder(options.output, options.force) as work:
        if options.calibrate is not None:
            common.compile_kernels(options, "spiking/compile")
        mapped = compile_for_chip(options.model, chip, options.calibrate, settings)
        manifest = write_folder(work.folder, options.model, mapped, chip, settings)
        report = report_of(manifest, ["mapper", *options.arguments])
        write_report(work.folder, report)
        write_file(work.folder / PAGE, render_spiking(report))
    if options.calibrate is None:
        terminal.say(
            options, "note: sizes of potentials are assumed; add samples with --calibrate to "
            "measure them and to choose the weight bits",
        )  # fmt: skip
    for note in manifest.notes:
        terminal.say(options, f"note: {note}")
    terminal.emit(
        options, report, compiled_tables(manifest),
        compiled_summary(manifest, f"{options.model.name} on {options.chip}", options.output),
    )  # fmt: skip
    if not manifest.limits_missed:
        return 0
    terminal.complain(
        f"mapper compile: {options.model}: {manifest.limits_missed}; {options.output} is kept with "
        "--keep-going"
    )
    return BEYOND_LIMITS


def _settings(options: argparse.Namespace, chip: Chip) -> SpikingOptions:
    """Return the options of the library; raise `UsageError` for contradictions."""
    from mapper.errors import UsageError
    from mapper.spiking.chip_core import core_weight_bits
    from mapper.spiking.integers import IntegerOptions
    from mapper.spiking.pipeline import SpikingOptions
    from mapper.spiking.search import AgreementLimits

    if options.per in ("tensor", "channel"):
        raise UsageError(f"--per {options.per}: applies to ONNX models; give neuron or population")
    widths = options.weight_bits or core_weight_bits(chip)
    if chip.weight_bits and widths[-1] > chip.weight_bits:
        raise UsageError(
            f"--weight-bits {widths[-1]}: chip {chip.name} has weights of {chip.weight_bits} bits; "
            f"give at most {chip.weight_bits}"
        )
    if options.calibrate is None:
        if options.weight_bits is not None and len(widths) > 1:
            raise UsageError(
                "--weight-bits: several widths are tried on samples; add --calibrate, or give one"
            )
        if options.min_agreement is not None or options.keep_going:
            name = "--keep-going" if options.keep_going else "--min-agreement"
            raise UsageError(f"{name}: needs samples; add --calibrate")
    limits = AgreementLimits(same=1 - options.max_loss / 100)
    if options.min_agreement is not None:
        limits = limits._replace(cosine=options.min_agreement)
    return SpikingOptions(
        options.tick_length, options.reset or "zero",
        IntegerOptions(options.per or "neuron"), limits, widths, _encoding(options),
        options.keep_going,
    )  # fmt: skip


def _encoding(options: argparse.Namespace) -> Encoding | None:
    """Return the encoding of samples; raise `UsageError` for one without ticks or ticks alone."""
    from mapper.errors import UsageError
    from storage.samples.encoding import Encoding

    if options.encode is None:
        if options.ticks is not None:
            raise UsageError("--ticks: needs the encoding of samples; add --encode")
        return None
    if options.ticks is None:
        raise UsageError("--encode: needs the ticks of a sample; add --ticks")
    return Encoding(options.encode, options.ticks)
