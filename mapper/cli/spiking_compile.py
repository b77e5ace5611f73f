"""`mapper compile` for spiking models: integers for the spiking cores, and their mapping."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from mapper.cli import options as common
from mapper.cli import terminal
from mapper.cli.given_options import refuse_others
from mapper.cli.parser import Topic

OF_SPIKES = ("tick_length", "reset", "weight_bits", "min_agreement", "bin", "encode", "ticks")
OF_BOTH = (
    "model",
    "output",
    "force",
    "memory",
    "chip",
    "calibrate",
    "per",
    "max_loss",
    "keep_going",
)
OF_ONNX = (
    *OF_BOTH, "input_shape", "npu", "samples", "verify", "normalise", "layout", "bits", "scheme",
    "method", "headroom", "rounding", "zero_point", "min_signal", "keep", "cores", "objective",
    "effort", "time_limit",
    "first_tile", "bias", "dual", "few_channels", "padding", "pack", "pack_chunk", "disable",
    "baseline", "explain", "explain_only", "compare", "ablate", "keep_graphs", "emit", "no_cache",
)  # fmt: skip
MODELS = """\
Spiking models (.nir) become integers for cores with synaptic currents, decays
and delays. --calibrate names spikes: .npz with x (samples, ticks, inputs), or
lists sample, tick and neuron; labels in y. They measure how large potentials
get, and the narrowest of --weight-bits that agree with the model are chosen.
--bin 5 or 20 allows for spikes that are some ticks early or late.
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
    from mapper.errors import BEYOND_LIMITS, UsageError
    from mapper.results.output_folder import output_folder
    from mapper.spiking.artifacts.compile import add_to_catalogue, compile_into, notes_of
    from mapper.spiking.artifacts.report import report_of
    from mapper.spiking.options import CompileOptions, spiking_options

    refuse_others(
        options, compile_options.add_arguments, (*OF_BOTH, *OF_SPIKES), "to ONNX models only"
    )
    chip = common.named_chip(options.chip)
    if options.per in ("tensor", "channel"):
        raise UsageError(f"--per {options.per}: applies to ONNX models; give neuron or population")
    names = [name for name in CompileOptions._fields if name != "seed"]
    asked = CompileOptions(**{name: getattr(options, name) for name in names})
    settings = spiking_options(asked, chip, options.calibrate is not None)
    command, begin = ["mapper", *options.arguments], time.monotonic()
    with output_folder(options.output, options.force) as work:
        found = compile_into(
            work.folder, options.model, chip, options.calibrate, settings, command,
            common.listener(options),
        )  # fmt: skip
    manifest, seconds = found.manifest, time.monotonic() - begin
    add_to_catalogue(options.model, options.output, manifest, asked._asdict(), seconds)
    for note in notes_of(found):
        terminal.say(options, f"note: {note}")
    terminal.emit(
        options, report_of(manifest, command), compiled_tables(manifest),
        compiled_summary(manifest, f"{options.model.name} on {options.chip}", options.output),
    )  # fmt: skip
    if not manifest.limits_missed:
        return 0
    terminal.complain(
        f"mapper compile: {options.model}: {manifest.limits_missed}; {options.output} is kept with "
        "--keep-going"
    )
    return BEYOND_LIMITS
