"""R1.1: options that change numbers are listed; no other option changes a byte of the results."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.cli.compile_options import add_arguments
from mapper.cli.spiking_compile import OF_SPIKES
from mapper.compiler.ablation import ablation
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.compiled import Compiled
from mapper.compiler.pipeline import compile_model
from mapper.compiler.settings import CompileSettings
from mapper.compiler.transforms.switches import CHANGES_NUMBERS, SWITCHES
from mapper.errors import DoesNotFitError
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import SHAPE, Made, compiled, source_of

NUMBERS = {
    "--bits", "--scheme", "--method", "--per", "--headroom",
    "--zero-point", "--rounding", "--keep", "--max-loss", "--min-signal", "--calibrate",
    "--samples", "--verify", "--normalise", "--layout", "--input-shape",
}  # fmt: skip
"""Options that determine samples and maps."""
NEUTRAL: dict[str, list[dict[str, object]]] = {
    "--disable reuse": [{"reuse": False}],
    "--bias": [{"bias": "alu"}],
    "--dual": [{"dual": "off"}],
    "--baseline schedule": [{"schedule": one} for one in ("rows", "plane8", "plane16")],
    "--first-tile": [{"first_tile": (3, 2)}],
    "--cores": [{"cores": None}, {"cores": 2}],
    "--baseline placement": [
        {"cores": None, "placement": one} for one in ("row-major", "serpentine")
    ],
    "--objective": [{"cores": None, "objective": "latency"}],
    "--effort": [{"cores": None, "effort": one} for one in ("fast", "strong")],
    "--time-limit": [{"cores": None, "time_limit": 1e-9}],
    "--baseline weights": [{"weights": "greedy"}],
    "--padding": [{"padding": "stored"}],
    "--few-channels": [{"few_channels": one} for one in ("core", "host", "off")],
    "--pack": [{"pack": "host"}],
    "--pack-chunk": [{"pack": "host", "pack_chunk": 4}],
    **{f"--disable {name}": [{"off": (name,)}] for name in SWITCHES if name not in CHANGES_NUMBERS},
}
"""Settings other than the defaults that change only cycles or memory."""
ELSEWHERE = {
    "--output", "--force", "--keep-going", "--chip", "--npu", "--emit", "--keep-graphs", "--json",
    "--quiet", "--verbose", "--debug", "--help", "--memory", "--no-cache", "--compare", "--ablate",
    "--explain", "--explain-only",
}  # fmt: skip
"""Options for the target, the outputs and messages."""


def test_every_option_is_listed_as_changing_numbers_or_not() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    found = {
        next(one for one in action.option_strings if one.startswith("--"))
        for action in parser._actions
        if action.option_strings
    }
    found -= {f"--{name.replace('_', '-')}" for name in OF_SPIKES}
    assert found <= NUMBERS | {one.split()[0] for one in NEUTRAL} | ELSEWHERE, found
    assert not NUMBERS & NEUTRAL.keys()


def results(build: Builder, made: Made) -> list[bytes]:
    build.random = np.random.default_rng(5)
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
    return [one.tobytes() for one in simulate(made.folder, samples, 1, check=False).stored.values()]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("option", list(NEUTRAL))
def test_options_that_change_no_byte(option: str) -> None:
    def made(**settings: object) -> tuple[list[bytes], int]:
        build = residual(3, channels=20)
        done = compiled(build, SHAPE, **settings)
        return results(build, done), done.compiled.cycles

    plain, _ = made()
    for settings in NEUTRAL[option]:
        assert made(**settings)[0] == plain, settings


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_b14_an_ablation_has_a_row_for_every_pass() -> None:
    build = residual(3, channels=20)
    source, samples = source_of(build)

    def compiling(settings: CompileSettings) -> Compiled:
        return compile_model(source, SHAPE, samples, settings)

    how = CompileSettings(method="minmax", min_signal=-100, max_loss=100)
    rows = ablation(compiling, Target(Chip("one", 1, 1), SHAPE, how))
    assert [row.without for row in rows[:-3]] == [None, *SWITCHES]
    assert [row.schedule for row in rows[-4:]] == ["search", "rows", "plane8", "plane16"]
    assert all(row.cycles >= rows[0].cycles for row in rows[-3:])
    assert {(row.latency, row.period, row.placement) for row in rows} == {(None, None, "mapper")}
    assert rows[0].share == 1
    worse = {row.without for row in rows if row.cycles > rows[0].cycles}
    assert {"fuse", "few-channels"} <= worse, rows
    tiles = {row.schedule: row.layers for row in rows if row.without is None}
    assert set(tiles) == {"search", "rows", "plane8", "plane16"}
    for layers in tiles.values():
        assert [one.layer for one in layers] == [one.layer for one in tiles["search"]]
        assert all(0 <= one.stalls < one.cycles for one in layers)
    assert sum(one.cycles for one in tiles["search"]) == rows[0].cycles
    assert not any(row.layers for row in rows if row.without)


@pytest.mark.heavy
@pytest.mark.sample(0.1)
@pytest.mark.jit
def test_n123_an_ablation_of_several_cores_has_placements() -> None:
    """Latency and period of every row, and of the other placements; a required pass reports the
    error.
    """
    build = residual(3, channels=40)
    source, samples = source_of(build)
    chip = Chip("mesh", 3, 2)
    off = tuple(name for name in SWITCHES if name not in ("fuse", "share"))

    def compiling(settings: CompileSettings) -> Compiled:
        if "share" in settings.off:
            raise DoesNotFitError("no room")
        return compile_model(source, SHAPE, samples, settings, chip=chip)

    how = CompileSettings(method="minmax", min_signal=-100, max_loss=100, off=off)
    rows = ablation(compiling, Target(chip, SHAPE, how))
    named = [(row.without, row.placement) for row in rows]
    assert set(named[1:3]) == {("fuse", "mapper"), ("share", "mapper")}
    assert named[3:] == [(None, "row-major"), (None, "serpentine")]
    for row in rows:
        if row.without == "share":
            assert row.why == "does not fit: no room" and row.period is None
            continue
        assert row.latency is not None and row.period is not None and row.flit_hops is not None
        assert 0 < row.period <= row.latency and row.flit_hops > 0
    first, *_, last, _ = rows  # the mapper's placement, and row by row
    assert first.flit_hops is not None and last.flit_hops is not None
    assert first.flit_hops < last.flit_hops
