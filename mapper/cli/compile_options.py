"""Options of `mapper compile`, grouped by whether they change results."""

from __future__ import annotations

import argparse
from pathlib import Path

from mapper.cli import options as common
from mapper.compiler.transforms.switches import BASELINES, CHANGES_NUMBERS, STEPS, SWITCHES

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
        metavar="SIZES",
        help="sizes of open axes of the input, e.g. 1,3,224,224",
    )
    chip = parser.add_argument_group("chip")
    chip.add_argument(
        "--chip", required=True, metavar="C", help="WIDTHxHEIGHT, a preset's name, or FILE.toml"
    )
    chip.add_argument("--npu", metavar="PRESET", help="NPU of each core (default: from the chip)")
    add_samples(parser.add_argument_group("samples"))
    add_numbers(parser.add_argument_group("quantisation (changes results)"))
    add_schedule(parser.add_argument_group("schedule and memory (same results)"))
    add_comparisons(parser.add_argument_group("passes and baselines, for comparisons"))
    add_outputs(parser.add_argument_group("analysis and output"))


def add_samples(group: argparse._ActionsContainer) -> None:
    """Add the options of samples and their conversion to model input."""
    group.add_argument(
        "--calibrate",
        type=Path,
        metavar="DATA",
        help="calibration samples, or an earlier ranges.json",
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
        help="test samples (default: a quarter of --calibrate)",
    )
    group.add_argument(
        "--normalise",
        metavar="TERMS",
        help="normalise samples, e.g. mean=0.5,std=0.25",
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
        metavar="N",
        help="8 (default) or 16; 16 needs a dual NPU",
    )
    group.add_argument(
        "--scheme",
        choices=("asym", "sym"),
        default="asym",
        help="activations with zero points or not (default: asym)",
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
        metavar="M",
        help="auto (default), minmax, percentile, mse or entropy",
    )
    group.add_argument(
        "--headroom",
        type=_number,
        default=1.0,
        metavar="F",
        help="factor on the headroom of ranges (default: 1)",
    )
    group.add_argument(
        "--rounding",
        default="away",
        choices=("away", "up", "even"),
        help="rounding of halves (default: away from zero)",
    )
    group.add_argument(
        "--zero-point",
        default="shift",
        choices=("shift", "bias"),
        help="where to add zero points (default: after the shift)",
    )
    group.add_argument(
        "--max-loss",
        type=_number,
        default=1.0,
        metavar="POINTS",
        help="maximum loss in percentage points (default: 1)",
    )
    group.add_argument(
        "--min-signal",
        type=_number,
        default=20.0,
        metavar="DB",
        help="minimum SQNR in dB (default: 20)",
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
        "--cores",
        type=int,
        metavar="N",
        help="maximum number of cores (default: all)",
    )
    group.add_argument(
        "--objective",
        default="throughput",
        choices=("throughput", "latency"),
        metavar="O",
        help="throughput (default) or latency",
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
        help="initial sum (default: init) or ALU operand",
    )
    group.add_argument(
        "--dual",
        default="auto",
        choices=("off", "pixels", "kernels", "auto"),
        metavar="PAIRS",
        help="operand pairs: off, pixels, kernels, auto (default)",
    )
    group.add_argument(
        "--few-channels",
        default="auto",
        choices=("auto", "core", "host", "off"),
        metavar="WHERE",
        help="where im2col runs: auto (default), core, host, off",
    )
    group.add_argument(
        "--padding",
        default="load",
        choices=("load", "stored"),
        help="pad on load, or store padded maps (default: load)",
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
        help="bytes packed per host transfer (default: 16)",
    )


def add_comparisons(group: argparse._ActionsContainer) -> None:
    """Add the options that disable passes, and that replace a search by a fixed rule."""
    group.add_argument(
        "--disable",
        type=_disabled,
        default=(),
        metavar="PASS[,PASS]",
        help="passes to disable (see below)",
    )
    group.add_argument(
        "--baseline",
        type=_baselines,
        default={},
        metavar="NAME[,NAME]",
        help="fixed rules in place of a search (see below)",
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
    found += ["--disable bias-correction"] * ("bias-correction" in options.disable)
    return found + ["--samples"] * (options.samples is not None)


def _disabled(text: str) -> tuple[str, ...]:
    """Parse --disable; return the names of passes without duplicates."""
    return _names(text, (*SWITCHES, *STEPS))


def _baselines(text: str) -> dict[str, str]:
    """Parse --baseline; return fields of the settings with their values."""
    found: dict[str, str] = {}
    for name in _names(text, tuple(BASELINES)):
        field, _ = BASELINES[name]
        if field in found:
            raise argparse.ArgumentTypeError(
                f"{found[field]} and {name} both set the {field}; give one"
            )
        found[field] = name
    return found


def _emitted(text: str) -> tuple[str, ...]:
    """Parse --emit; return its names without duplicates."""
    return _names(text, EMITTED)


def _names(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Parse names separated by commas; return them without duplicates."""
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is not known; give {', '.join(known)}")
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
