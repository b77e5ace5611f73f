"""R1.1: every option of `mapper compile` has an effect, limited to results or program."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from mapper.cli import compile_options
from mapper.cli.compile import _settings
from mapper.cli.main import build_parser
from mapper.compiler.settings import CompileSettings
from mapper.errors import BEYOND_LIMITS
from tests.mapper.cli.residual_net import save_residual_net
from tests.mapper.conftest import Run, tree

pytestmark = pytest.mark.jit
SIZE, CHANNELS, CLASSES = 8, 20, 40
PLAIN = ("--chip", "1x1", "--calibrate", "samples.npz", "--method", "minmax", "--min-signal", "5",
         "--max-loss", "100")  # fmt: skip


@pytest.fixture
def model(folder: Path) -> Path:
    random = np.random.default_rng(7)
    save_residual_net(
        Path("net.onnx"), random, side=SIZE, channels=CHANNELS, classes=CLASSES, third=True
    )
    x = random.normal(0, 1, (64, 2, SIZE, SIZE)).astype(np.float32)
    np.savez("samples.npz", x=x, y=random.integers(0, CLASSES, 64))
    np.savez("plain.npz", x=x)
    np.savez("others.npz", x=3 * x[:20], y=random.integers(0, CLASSES, 20))
    np.save("last.npy", x.transpose(0, 2, 3, 1))
    Path("small.toml").write_text(
        'width = 1\nheight = 1\n[npu]\npreset = "npu"\nweight_words = 84\nmicro_ops = 1000\n'
    )
    return folder / "net.onnx"


class Done(NamedTuple):
    """results : hash of the outputs of some samples; files : files of the folder, by name"""

    report: dict[str, Any]
    results: str
    files: dict[str, bytes]


def compiled(run: Run, *words: str) -> Done:
    report = run("compile", "net.onnx", *words, "--force", "--json").json()
    found = run("simulate", "out", "--input", "samples.npz", "--limit", "8", "--json").json()
    return Done(report, found["sha256"], tree(Path("out")))


Words = tuple[str, ...]
NUMBERS: dict[str, tuple[Words, Words]] = {
    "--calibrate": (("--calibrate", "others.npz"), ()),
    "--samples": (("--samples", "5"), ()),
    "--normalise": (("--normalise", "scale=0.5"), ()),
    "--bits": (("--bits", "16"), ("--npu", "npu-dual")),
    "--scheme": (("--scheme", "sym"), ()),
    "--per": (("--per", "tensor"), ()),
    "--method": (("--method", "mse"), ()),
    "--headroom": (("--headroom", "1.5"), ()),
    "--disable": (("--disable", "bias-correction"), ()),
    "--rounding": (("--rounding", "even"), ()),
    "--zero-point": (("--zero-point", "bias"), ()),
    "--min-signal": (("--min-signal", "90"), ("--method", "auto")),
    "--max-loss": (
        ("--max-loss", "0"),
        ("--method", "auto", "--headroom", "8", "--calibrate", "plain.npz", "--min-signal", "-9"),
    ),
    "--keep": (("--keep", "third"), ()),
}
"""Options that change the integers of a model, and further options that they need to act."""
SAME: dict[str, tuple[Words, Words]] = {
    "--npu": (("--npu", "ref32"), ()),
    "--baseline": (("--baseline", "plane8"), ()),
    "--first-tile": (("--first-tile", "3x2"), ()),
    "--bias": (("--bias", "alu"), ()),
    "--cores": (("--cores", "1"), ("--chip", "2x2")),
    "--objective": (("--objective", "latency"), ("--chip", "2x2")),
    "--dual": (("--dual", "off"), ("--npu", "npu-dual")),
    "--padding": (("--padding", "stored"), ()),
    "--few-channels": (("--few-channels", "off"), ()),
}
"""Options that change the program but not the results."""
SPIKING = {
    "--tick-length", "--reset", "--weight-bits", "--min-agreement", "--bin", "--encode", "--ticks",
}  # fmt: skip
"""Options of spiking models, tested in `test_spiking_commands`."""
ELSEWHERE = {
    "--output", "--force", "--memory", "--chip", "--input-shape", "--layout", "--verify",
    "--explain", "--explain-only", "--compare", "--ablate", "--keep-graphs", "--keep-going",
    "--emit", "--pack", "--pack-chunk", "--effort", "--time-limit", "--no-cache",
}  # fmt: skip
"""Options tested below, or in tests of chips, passes, packing, drivers, search and cache."""


def test_every_option_is_tested_to_act() -> None:
    parser = argparse.ArgumentParser()
    compile_options.add_arguments(parser)
    found = {action.option_strings[-1] for action in parser._actions if action.option_strings}
    found -= {"--help"}
    assert found == NUMBERS.keys() | SAME.keys() | SPIKING | ELSEWHERE


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--disable", "fold,fusion"), "'fusion' is not known; give constants, input-scale, pad"),
        (("--disable", ""), "'' is not known"),
        (
            ("--baseline", "columns"),
            "'columns' is not known; give rows, plane8, plane16, row-major",
        ),
        (("--baseline", "rows,plane8"), "rows and plane8 both set the schedule; give one"),
        (("--effort", "most"), "'most' is not known; choose from fast, default, strong"),
        (("--time-limit", "0"), "'0' is not a number of seconds above 0"),
    ],
)
def test_unknown_passes_and_baselines(folder: Path, run: Run, words: Words, said: str) -> None:
    found = run("compile", "net.onnx", "--chip", "1x1", *words)
    assert found.code == 2
    assert f"argument {words[0]}: {said}" in found.err


@pytest.mark.parametrize(
    ("baseline", "changed"),
    [
        ("plane16", {"schedule": "plane16"}),
        ("greedy,serpentine,rows",
         {"weights": "greedy", "placement": "serpentine", "schedule": "rows"}),
    ],
)  # fmt: skip
def test_baselines_set_fields(baseline: str, changed: dict[str, str]) -> None:
    words = f"compile net.onnx --chip 2x2 --baseline {baseline} --disable fuse,reuse".split()
    settings = _settings(build_parser("compile").parse_args(words))
    assert settings == CompileSettings(reuse=False, off=("fuse",), **changed)  # type: ignore[arg-type]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("option", NUMBERS)
def test_options_that_change_numbers(model: Path, run: Run, option: str) -> None:
    given, beside = NUMBERS[option]
    both = []
    for words in (beside, (*beside, *given)):
        done = run("compile", "net.onnx", *PLAIN, *words, "--keep-going", "--force", "-q")
        assert done.code in (0, BEYOND_LIMITS)
        both.append([Path("out", name).read_bytes() for name in ("graph.json", "graph.npz")])
    assert both[0] != both[1]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("option", SAME)
def test_options_that_change_only_the_program(model: Path, run: Run, option: str) -> None:
    given, beside = SAME[option]
    plain, other = (compiled(run, *PLAIN, *beside, *words) for words in ((), given))
    assert plain.results == other.results
    programs = [
        {name: data for name, data in done.files.items() if name.endswith(".npc")}
        for done in (plain, other)
    ]
    assert programs[0] != programs[1]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_separate_feature_maps_need_more_memory(model: Path, run: Run) -> None:
    plain, other = compiled(run, *PLAIN), compiled(run, *PLAIN, "--disable", "reuse")
    used = [done.report["memories"]["feature"]["used"] for done in (plain, other)]
    assert used[0] < used[1]
    assert plain.results == other.results


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_axes_of_samples(model: Path, run: Run) -> None:
    plain = compiled(run, *PLAIN)
    other = compiled(run, *PLAIN, "--calibrate", "last.npy", "--layout", "nhwc", "-o", "other")
    assert plain.report["losses"] == other.report["losses"]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_graphs_and_listings_are_written(model: Path, run: Run) -> None:
    found = compiled(run, *PLAIN, "--keep-graphs", "--emit", "loops,c", "--explain").files
    for name in ("graphs/integer.json", "loops/core_0_0.txt", "driver/driver.c", "explain.json"):
        assert name in found, name
