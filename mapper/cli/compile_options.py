"""Options of `mapper compile`, grouped by whether they change results."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli.caching import add_no_cache
from mapper.cli.options import (
    Option,
    above_zero,
    add_memory,
    add_options,
    choice,
    flag,
    positive,
    seconds,
)
from mapper.compiler.layer_bits import AUTO, BITS
from mapper.compiler.settings import EMITTED
from mapper.compiler.transforms.switches import (
    BASELINES,
    CHANGES_NUMBERS,
    STEPS,
    SWITCHES,
    baselines_of,
    known_names,
)

SAMPLES = 100  # default number of calibration samples


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "mapper compile MODEL --chip C [--calibrate DATA] [-o DIR] [options]"
    add_options(
        parser,
        Option("model", "MODEL", "model to compile (.onnx or .nir)", Path),
        Option("-o --output", "DIR", "output folder (default: out)", Path, Path("out")),
        flag("--force", "replace DIR if it exists"),
    )
    add_memory(parser)
    parser.add_argument(
        "--input-shape",
        type=_input_shape,
        action="append",
        default=[],
        metavar="SIZES",
        help="sizes of open axes of the input, e.g. 1,3,224,224",
    )
    chip = parser.add_argument_group("chip")
    chip.add_argument(
        "--chip", required=True, metavar="C", help="WxH, WxH..WxH, a preset's name, or FILE.toml"
    )
    chip.add_argument("--npu", metavar="PRESET", help="NPU of each core (default: from the chip)")
    add_samples(parser.add_argument_group("samples"))
    add_numbers(parser.add_argument_group("quantisation (changes results)"))
    add_spikes(parser.add_argument_group("spiking models (.nir)"))
    add_schedule(parser.add_argument_group("schedule and memory (same results)"))
    add_comparisons(parser.add_argument_group("passes and baselines, for comparisons"))
    add_outputs(parser.add_argument_group("analysis and output"))


def add_samples(group: argparse._ActionsContainer) -> None:
    """Add the options of samples and their conversion to model input."""
    add_options(
        group,
        Option("--calibrate", "DATA", "calibration samples, or an earlier ranges.json", Path),
        Option(
            "--samples", "N", f"calibrate with the first N samples (default: {SAMPLES})", positive
        ),
        Option("--verify", "DATA", "test samples (default: a quarter of --calibrate)", Path),
        Option("--normalise", "TERMS", "normalise samples, e.g. mean=0.5,std=0.25"),
        choice("--layout", "nchw nhwc", "axis order of samples (default: from the model)"),
    )


def add_numbers(group: argparse._ActionsContainer) -> None:
    """Add the options of quantisation."""
    add_options(
        group,
        Option("--bits", "BITS", "8, 16 or auto (default); by layer: 8,conv1=16", _bits, AUTO),
        choice(
            "--scheme", "asym sym", "activations with zero points or not (default: asym)", "asym"
        ),
        choice("--per", "tensor channel neuron population", "granularity of weight scales (below)"),
        choice(
            "--method",
            "auto minmax percentile mse entropy",
            "auto (default), minmax, percentile, mse or entropy",
            "auto",
            "M",
        ),
        Option("--headroom", "F", "factor on the headroom of ranges (default: 1)", _number, 1.0),
        choice(
            "--rounding", "away up even", "rounding of halves (default: away from zero)", "away"
        ),
        choice(
            "--zero-point",
            "shift bias",
            "where to add zero points (default: after the shift)",
            "shift",
        ),
        Option(
            "--max-loss", "POINTS", "maximum loss in percentage points (default: 1)", _number, 1.0
        ),
        Option("--min-signal", "DB", "minimum SQNR in dB (default: 20)", _number, 20.0),
        flag("--keep-going", "keep a result that misses the limits; exit code 4"),
        Option("--keep", "NODE,...", "ONNX nodes to keep on the host", default=""),
    )


def add_spikes(group: argparse._ActionsContainer) -> None:
    """Add the options of spiking models."""
    add_options(
        group,
        Option("--tick-length", "T", "duration of a tick (default: dt of the model)", above_zero),
        choice("--reset", "zero subtract", "after a spike: v_reset (zero, default) or subtract"),
        choice("--encode", "current rate latency", "encode real numbers as spikes, during --ticks"),
        Option("--ticks", "T", "ticks per sample, with --encode", positive),
        Option("--weight-bits", "N,...", "widths to try (default: 8,10,12,16)", _widths),
        Option(
            "--min-agreement",
            "COSINE",
            "minimum cosine of spike trains (default: 0.95)",
            _share,
        ),
        Option("--bin", None, "ticks per bin of spike trains (default: 1)", int, None, (1, 5, 20)),
    )


def add_schedule(group: argparse._ActionsContainer) -> None:
    """Add the options that change cycles and memory but not results."""
    add_options(
        group,
        Option("--cores", "N", "maximum number of cores (default: all)", int),
        choice(
            "--objective",
            "throughput latency",
            "throughput (default) or latency",
            "throughput",
            "O",
        ),
        choice(
            "--effort",
            "fast default strong",
            "search over cores: fast, default or strong",
            "default",
            "E",
        ),
        Option("--time-limit", "SECONDS", "end the search over cores after this time", seconds),
        Option("--first-tile", "WxH", "tile size of the first layer, in pixels", _plane),
        choice("--bias", "init alu", "initial sum (default: init) or ALU operand", "init"),
        choice(
            "--dual",
            "off pixels kernels auto",
            "operand pairs: off, pixels, kernels, auto (default)",
            "auto",
            "PAIRS",
        ),
        choice(
            "--few-channels",
            "auto core host off",
            "where im2col runs: auto (default), core, host, off",
            "auto",
            "WHERE",
        ),
        choice(
            "--padding", "load stored", "pad on load, or store padded maps (default: load)", "load"
        ),
        choice("--pack", "core host", "where bit packing is counted (default: core)", "core"),
        Option("--pack-chunk", "N", "bytes packed per host transfer (default: 16)", positive, 16),
    )


def add_comparisons(group: argparse._ActionsContainer) -> None:
    """Add the options that disable passes, and that replace a search by a fixed rule."""
    add_options(
        group,
        Option("--disable", "PASS[,PASS]", "passes to disable (see below)", _disabled, ()),
        Option(
            "--baseline",
            "NAME[,NAME]",
            "fixed rules in place of a search (see below)",
            _baselines,
            {},
        ),
    )


def list_names() -> str:
    """Return the names of passes and baselines, for the complete help."""
    switches = {name: one.about for name, one in SWITCHES.items()} | STEPS
    passes = {name: f"{about}*" * (name in CHANGES_NUMBERS) or about
              for name, about in switches.items()}  # fmt: skip
    rules = {name: about for name, (_, about) in BASELINES.items()}
    tables = ["\n".join(f"  {name:<17}{about}" for name, about in each.items())
              for each in (passes, rules)]  # fmt: skip
    return (
        f"Passes of --disable (results change without the passes marked *):\n{tables[0]}\n\n"
        f"Rules of --baseline:\n{tables[1]}\n"
    )


def add_outputs(group: argparse._ActionsContainer) -> None:
    """Add the options of additional reports and files."""
    add_options(
        group,
        flag("--explain", "report where each node runs, and why"),
        flag("--explain-only", "--explain without compiling or samples"),
        flag("--compare", "only print a table of all precisions and methods"),
        flag("--ablate", "only print cycles with other passes and tiles"),
        flag("--keep-graphs", "write the graph after each stage to DIR/graphs"),
        Option("--emit", "LIST", "also write: c (a driver), loops (the schedules)", _emitted, ()),
    )
    add_no_cache(group)


def of_floats(options: argparse.Namespace) -> list[str]:
    """Return the given options that apply to floating-point models only."""
    parser = argparse.ArgumentParser()
    add_numbers(parser)
    actions = [one for one in parser._actions if one.dest not in ("help", "keep")]
    found = [one.option_strings[0] for one in actions if getattr(options, one.dest) != one.default]
    found += ["--disable bias-correction"] * ("bias-correction" in options.disable)
    return found + ["--samples"] * (options.samples is not None)


def _bits(text: str) -> int | str:
    """Return the value of --bits, which the settings check."""
    return BITS.get(text, text)


def _disabled(text: str) -> tuple[str, ...]:
    """Parse --disable; return the names of passes without duplicates."""
    return _names(text, (*SWITCHES, *STEPS))


def _baselines(text: str) -> dict[str, str]:
    """Parse --baseline; return fields of the settings with their values."""
    try:
        return baselines_of(text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _emitted(text: str) -> tuple[str, ...]:
    """Parse --emit; return its names without duplicates."""
    return _names(text, EMITTED)


def _names(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Parse names separated by commas; return them without duplicates."""
    try:
        return known_names(text.split(","), known)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse --input-shape; return the input name ("" if omitted) and its sizes."""
    name, _, sizes = text.rpartition("=")
    words = [word.strip() for word in sizes.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not [NAME=]SIZES with sizes of at least 1, such as 1,3,224,224"
        )
    return name, tuple(int(word) for word in words)


def _number(text: str) -> float:
    """Parse a number of either sign."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _share(text: str) -> float:
    """Parse a number from 0 to 1."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def _widths(text: str) -> tuple[int, ...]:
    """Parse widths of weights separated by commas; return them from narrow to wide."""
    words = text.split(",")
    if not all(word.isdecimal() and 2 <= int(word[:4]) <= 32 for word in words):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of bits from 2 to 32, such as 8,12"
        )
    return tuple(sorted({int(word) for word in words}))


def _plane(text: str) -> tuple[int, int]:
    """Parse COLUMNSxROWS, such as 8x8."""
    columns, cross, rows = text.partition("x")
    if not (cross and columns.isdecimal() and rows.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMNSxROWS, such as 8x8")
    return int(columns), int(rows)
