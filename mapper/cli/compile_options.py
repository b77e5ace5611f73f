"""The options of `mapper compile`, in groups: what changes results, and what does not."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import options as common

SAMPLES = 100  # to calibrate with, if nothing else is said
EMITTED = ("c", "loops")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "mapper compile MODEL --chip C [--calibrate DATA] [-o DIR] [options]"
    parser.add_argument("model", type=Path, metavar="MODEL", help="a model (.onnx)")
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
    chip.add_argument(
        "--npu", metavar="PRESET", help="NPU of each core (default: that of the chip)"
    )
    add_samples(parser.add_argument_group("samples"))
    add_numbers(parser.add_argument_group("quantisation (changes results)"))
    add_schedule(parser.add_argument_group("schedule and memory (same results)"))
    add_passes(parser.add_argument_group("passes to switch off (same results unless noted)"))
    add_outputs(parser.add_argument_group("analysis and output"))


def add_samples(group: argparse._ActionsContainer) -> None:
    """Samples, and how they become the input of a model."""
    group.add_argument(
        "--calibrate",
        type=Path,
        metavar="DATA",
        help="samples to measure ranges with, or the ranges.json of an earlier compilation",
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
        help="samples to verify with (default: every fourth of those that calibrate, at least 16)",
    )
    group.add_argument(
        "--normalise",
        metavar="TERMS",
        help="applied to samples, e.g. scale=1/255,mean=0.5,std=0.25",
    )
    group.add_argument(
        "--layout", choices=("nchw", "nhwc"), help="axes of samples (default: those of the model)"
    )


def add_numbers(group: argparse._ActionsContainer) -> None:
    """What integers a model gets."""
    group.add_argument(
        "--bits",
        type=int,
        default=8,
        choices=(8, 16),
        help="width of stored integers; 16 needs a dual NPU (default: 8)",
    )
    group.add_argument(
        "--scheme",
        choices=("asym", "sym"),
        default="asym",
        help="activations with or without zero points (default: asym)",
    )
    group.add_argument(
        "--per",
        choices=("tensor", "channel"),
        default="channel",
        help="a weight scale per tensor or per output channel (default: channel)",
    )
    group.add_argument(
        "--method",
        default="auto",
        choices=("auto", "minmax", "percentile", "mse", "entropy"),
        help="how ranges are chosen (default: auto, which tries them in this order "
        "until the limits below are met)",
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
        help="do not take mean errors off the biases",
    )
    group.add_argument(
        "--rounding",
        default="away",
        choices=("away", "up", "even"),
        help="how halves are rounded (default: away from zero)",
    )
    group.add_argument(
        "--zero-point",
        default="shift",
        choices=("shift", "bias"),
        help="add zero points after the shift, or in the bias (default: shift)",
    )
    group.add_argument(
        "--max-loss",
        type=_number,
        default=1.0,
        metavar="POINTS",
        help="limit: accuracy that may be lost, in points (default: 1)",
    )
    group.add_argument(
        "--min-signal",
        type=_number,
        default=20.0,
        metavar="DB",
        help="limit: least signal over error, in dB (default: 20)",
    )
    group.add_argument(
        "--keep-going",
        action="store_true",
        help="keep a result beyond these limits; exit code 4",
    )
    group.add_argument(
        "--keep", default="", metavar="NODE,...", help="ONNX nodes to keep on the host"
    )


def add_schedule(group: argparse._ActionsContainer) -> None:
    """What changes cycles and memory, and no result."""
    group.add_argument(
        "--schedule",
        default="search",
        choices=("search", "rows", "plane8", "plane16"),
        help="tile layers by search, or by a fixed rule (default: search)",
    )
    group.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="use at most N cores of the chip; 1 puts the whole model on one (default: all)",
    )
    group.add_argument(
        "--objective",
        default="throughput",
        choices=("throughput", "latency"),
        help="cut layers over several cores for the shortest period from frame to frame, or for "
        "the earliest first result (default: throughput)",
    )
    group.add_argument(
        "--placement",
        default="mapper",
        choices=("mapper", "row-major", "serpentine"),
        help="put parts of layers onto cores as the mapper places networks, or in their order, row "
        "by row (default: mapper)",
    )
    group.add_argument(
        "--first-tile",
        type=_plane,
        metavar="WxH",
        help="columns and rows of the first layer's tiles",
    )
    group.add_argument(
        "--bias",
        default="init",
        choices=("init", "alu"),
        help="sums begin with the bias, or the ALU adds it (default: init)",
    )
    group.add_argument(
        "--dual",
        default="auto",
        choices=("off", "pixels", "kernels", "auto"),
        help="pairs of products per multiplier of a dual NPU (default: auto)",
    )
    group.add_argument(
        "--weights",
        default="optimal",
        choices=("optimal", "greedy"),
        help="how to choose the layers whose weights the host streams, if not all "
        "fit (default: optimal)",
    )
    group.add_argument(
        "--few-channels",
        default="auto",
        choices=("auto", "core", "host", "off"),
        help="who makes windows of inputs with few channels (default: auto)",
    )
    group.add_argument(
        "--padding",
        default="load",
        choices=("load", "stored"),
        help="loads write padding, or maps lie in it (default: load)",
    )
    group.add_argument(
        "--no-reuse", dest="reuse", action="store_false", help="give each map memory of its own"
    )
    group.add_argument(
        "--pack",
        default="core",
        choices=("core", "host"),
        help="who packs bits, in the count of cycles (default: core)",
    )
    group.add_argument(
        "--pack-chunk",
        type=common.positive,
        default=16,
        metavar="N",
        help="bytes that the host packs per transfer (default: 16)",
    )


def add_passes(group: argparse._ActionsContainer) -> None:
    """A switch for each pass."""
    from mapper.compiler.passes.switches import CHANGES_NUMBERS, SWITCHES

    for name, about in SWITCHES.items():
        more = "; changes results" if name in CHANGES_NUMBERS else ""
        group.add_argument(
            f"--no-{name}", dest="off", action="append_const", const=name, help=f"{about}{more}"
        )


def add_outputs(group: argparse._ActionsContainer) -> None:
    """What is told, and written beside the programs."""
    group.add_argument("--explain", action="store_true", help="say where each node runs, and why")
    group.add_argument(
        "--explain-only", action="store_true", help="the same without compiling; needs no samples"
    )
    group.add_argument(
        "--compare",
        action="store_true",
        help="print a table of all precisions and methods, and stop",
    )
    group.add_argument(
        "--ablate", action="store_true", help="print the cycles without each pass, and stop"
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
    """The options that were given, and are for models in floating point alone."""
    parser = argparse.ArgumentParser()
    add_numbers(parser)
    actions = [one for one in parser._actions if one.dest not in ("help", "keep")]
    found = [one.option_strings[0] for one in actions if getattr(options, one.dest) != one.default]
    return found + ["--samples"] * (options.samples is not None)


def _emitted(text: str) -> tuple[str, ...]:
    """What else is written, without what is named twice."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in EMITTED:
            raise argparse.ArgumentTypeError(f"{name!r} is not known; give {', '.join(EMITTED)}")
    return names


def _input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The name of an input, "" if it is left out, and the sizes of all of its axes."""
    name, _, sizes = text.rpartition("=")
    words = [word.strip() for word in sizes.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not [NAME=]SIZES with sizes from 1, such as 1,3,224,224"
        )
    return name, tuple(int(word) for word in words)


def _number(text: str) -> float:
    """A number, which may be negative."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _plane(text: str) -> tuple[int, int]:
    """Columns and rows, such as 8x8."""
    columns, cross, rows = text.partition("x")
    if not (cross and columns.isdecimal() and rows.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMNSxROWS, such as 8x8")
    return int(columns), int(rows)
