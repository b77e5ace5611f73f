"""Options of `mapper compile`, grouped by whether they change results."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import options as common

SAMPLES = 100  # default number of calibration samples
EMITTED = ("c", "loops")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "mapper compile MODEL --chip C [--calibrate DATA] [-o DIR] [options]"
    parser.add_argument("model", type=Path, metavar="MODEL", help="model to compile (.onnx)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("out"),
        metavar="DIR",
        help="output folder (default: out)",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace DIR if it exists",
    )
    parser.add_argument(
        "--input-shape",
        type=_input_shape,
        action="append",
        default=[],
        metavar="[NAME=]SIZES",
        help="sizes of the input's open axes, e.g. 1,3,224,224",
    )
    chip = parser.add_argument_group("chip")
    chip.add_argument(
        "--chip", required=True, metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml"
    )
    chip.add_argument("--npu", metavar="PRESET", help="NPU of each core (default: from the chip)")
    add_samples(parser.add_argument_group("samples"))
    add_numbers(parser.add_argument_group("quantisation (changes results)"))
    add_schedule(parser.add_argument_group("schedule and memory (same results)"))
    add_passes(parser.add_argument_group("passes to switch off (same results unless noted)"))
    add_outputs(parser.add_argument_group("analysis and output"))


def add_samples(group: argparse._ActionsContainer) -> None:
    """Add the options of samples and their conversion to model input."""
    group.add_argument(
        "--calibrate",
        type=Path,
        metavar="DATA",
        help="calibration samples, or ranges.json of a compilation",
    )
    group.add_argument(
        "--samples",
        type=common.positive,
        metavar="N",
        help=f"calibrate with the first N samples (default: {SAMPLES})",
    )
    group.add_argument(
        "--verify",
        type=Path,
        metavar="DATA",
        help="test samples (default: 1/4 of --calibrate, at least 16)",
    )
    group.add_argument(
        "--normalise",
        metavar="TERMS",
        help="normalise samples, e.g. scale=1/255,mean=0.5,std=0.25",
    )
    group.add_argument(
        "--layout", choices=("nchw", "nhwc"), help="axis order of samples (default: from the model)"
    )


def add_numbers(group: argparse._ActionsContainer) -> None:
    """Add the options of quantisation."""
    group.add_argument(
        "--bits",
        type=int,
        default=8,
        choices=(8, 16),
        help="bits per integer; 16 needs a dual NPU (default: 8)",
    )
    group.add_argument(
        "--scheme",
        choices=("asym", "sym"),
        default="asym",
        help="asym: activations with zero points (default: asym)",
    )
    group.add_argument(
        "--per",
        choices=("tensor", "channel"),
        default="channel",
        help="granularity of weight scales (default: channel)",
    )
    group.add_argument(
        "--method",
        default="auto",
        choices=("auto", "minmax", "percentile", "mse", "entropy"),
        help="range estimation (default: auto, the first to meet limits)",
    )
    group.add_argument(
        "--headroom",
        type=_number,
        default=1.0,
        metavar="F",
        help="factor on the headroom of ranges (default: 1)",
    )
    group.add_argument(
        "--no-bias-correction",
        dest="bias_correction",
        action="store_false",
        help="do not subtract mean errors from biases",
    )
    group.add_argument(
        "--rounding",
        default="away",
        choices=("away", "up", "even"),
        help="rounding of halves (default: away, from zero)",
    )
    group.add_argument(
        "--zero-point",
        default="shift",
        choices=("shift", "bias"),
        help="add zero points after shift, or in bias (default: shift)",
    )
    group.add_argument(
        "--max-loss",
        type=_number,
        default=1.0,
        metavar="POINTS",
        help="limit: accuracy loss, percentage points (default: 1)",
    )
    group.add_argument(
        "--min-signal",
        type=_number,
        default=20.0,
        metavar="DB",
        help="limit: minimum SQNR in dB (default: 20)",
    )
    group.add_argument(
        "--keep-going",
        action="store_true",
        help="keep a result that misses the limits; exit code 4",
    )
    group.add_argument(
        "--keep", default="", metavar="NODE,...", help="ONNX nodes to keep on the host"
    )


def add_schedule(group: argparse._ActionsContainer) -> None:
    """Add the options that change cycles and memory but not results."""
    group.add_argument(
        "--schedule",
        default="search",
        choices=("search", "rows", "plane8", "plane16"),
        help="tiling: search, or a fixed rule (default: search)",
    )
    group.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="maximum number of cores (default: all)",
    )
    group.add_argument(
        "--objective",
        default="throughput",
        choices=("throughput", "latency"),
        help="what to optimise on several cores (default: throughput)",
    )
    group.add_argument(
        "--placement",
        default="mapper",
        choices=("mapper", "row-major", "serpentine"),
        help="placement of layer parts on cores (default: mapper)",
    )
    group.add_argument(
        "--first-tile",
        type=_plane,
        metavar="WxH",
        help="tile size of the first layer, in pixels",
    )
    group.add_argument(
        "--bias",
        default="init",
        choices=("init", "alu"),
        help="add the bias as initial sum, or in the ALU (default: init)",
    )
    group.add_argument(
        "--dual",
        default="auto",
        choices=("off", "pixels", "kernels", "auto"),
        help="operand pairs of a dual multiplier (default: auto)",
    )
    group.add_argument(
        "--weights",
        default="optimal",
        choices=("optimal", "greedy"),
        help="choice of layers with streamed weights (default: optimal)",
    )
    group.add_argument(
        "--few-channels",
        default="auto",
        choices=("auto", "core", "host", "off"),
        help="where im2col runs for few-channel inputs (default: auto)",
    )
    group.add_argument(
        "--padding",
        default="load",
        choices=("load", "stored"),
        help="pad on load, or store padded maps (default: load)",
    )
    group.add_argument(
        "--no-reuse", dest="reuse", action="store_false", help="do not share memory between maps"
    )
    group.add_argument(
        "--pack",
        default="core",
        choices=("core", "host"),
        help="where bit packing is counted (default: core)",
    )
    group.add_argument(
        "--pack-chunk",
        type=common.positive,
        default=16,
        metavar="N",
        help="bytes packed by the host per transfer (default: 16)",
    )


def add_passes(group: argparse._ActionsContainer) -> None:
    """Add a --no-PASS option for each pass."""
    from mapper.compiler.passes.switches import CHANGES_NUMBERS, SWITCHES

    for name, about in SWITCHES.items():
        more = "; changes results" if name in CHANGES_NUMBERS else ""
        group.add_argument(
            f"--no-{name}", dest="off", action="append_const", const=name, help=f"{about}{more}"
        )


def add_outputs(group: argparse._ActionsContainer) -> None:
    """Add the options of additional reports and files."""
    group.add_argument(
        "--explain", action="store_true", help="report where each node runs, and why"
    )
    group.add_argument(
        "--explain-only", action="store_true", help="--explain without compiling or samples"
    )
    group.add_argument(
        "--compare",
        action="store_true",
        help="only print a table of all precisions and methods",
    )
    group.add_argument(
        "--ablate", action="store_true", help="only print the cycles without each pass"
    )
    group.add_argument(
        "--keep-graphs", action="store_true", help="write the graph after each stage to DIR/graphs"
    )
    group.add_argument(
        "--emit",
        type=_emitted,
        default=(),
        metavar="LIST",
        help="also write: c (a driver), loops (the schedules)",
    )


def of_floats(options: argparse.Namespace) -> list[str]:
    """Return the given options that apply to floating-point models only."""
    parser = argparse.ArgumentParser()
    add_numbers(parser)
    actions = [one for one in parser._actions if one.dest not in ("help", "keep")]
    found = [one.option_strings[0] for one in actions if getattr(options, one.dest) != one.default]
    return found + ["--samples"] * (options.samples is not None)


def _emitted(text: str) -> tuple[str, ...]:
    """Parse --emit; return its names without duplicates."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in EMITTED:
            raise argparse.ArgumentTypeError(f"{name!r} is not known; give {', '.join(EMITTED)}")
    return names


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


def _plane(text: str) -> tuple[int, int]:
    """Parse COLUMNSxROWS, such as 8x8."""
    columns, cross, rows = text.partition("x")
    if not (cross and columns.isdecimal() and rows.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMNSxROWS, such as 8x8")
    return int(columns), int(rows)
