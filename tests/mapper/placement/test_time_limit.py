"""Placement that ends early: by its time limit, or by Ctrl-C in a separate process."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mapper.placement import clock
from mapper.placement.force import hop_cost
from mapper.placement.portfolio import place
from mapper.placement.region import choose_region
from tests.mapper.conftest import Run
from tests.mapper.helpers import PROGRAM, subgraph
from tests.mapper.placement.test_class_kernels import layers
from tests.mapper.placement.test_placement_kernels import grid

HUNG = 120.0  # seconds after which a command counts as hanging
LATE = 128  # reads of the clock after the limit: one per running attempt

pytestmark = pytest.mark.jit


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("limit", [1, 100, 300])
@pytest.mark.parametrize("kind", ["grid", "layers"])
def test_the_limit_is_kept(kind: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances when it is read; strong would read it more than 700 times."""
    groups = subgraph(grid(64, 64, 1) if kind == "grid" else layers([64] * 30))
    side = 64 if kind == "grid" else 44
    region = choose_region(np.ones((side, side), np.bool_), groups.members.size)
    ticks = itertools.count()
    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    x, y = place(groups, region, "strong", np.random.default_rng(0), 2, clock=clock.Clock(limit))
    assert limit <= next(ticks) - 1 <= limit + LATE
    assert len(set(zip(x.tolist(), y.tolist(), strict=True))) == groups.members.size
    chance = np.argwhere(region.usable)[np.random.default_rng(0).permutation(groups.members.size)]
    columns, rows = (chance[:, k].astype(np.int32) for k in (1, 0))
    # without time the result is the order of groups along a curve, which is random here
    share = 0.5 if limit > 1 else 1.05
    axes = region.axes
    assert hop_cost(groups, x, y, axes) < share * hop_cost(groups, columns, rows, axes)


def command(folder: Path, *more: str) -> list[str]:
    program = [sys.executable, "-c", PROGRAM]
    made = [*program, "generate", "group-cnn", "--size", "64", "--shuffle", "net.bin", "-q"]
    subprocess.run(made, check=True, cwd=folder, capture_output=True)
    return [*program, "place", "net.bin", "--chip", "64x64", "--preset", "strong", *more]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_option_keeps_the_best_found_by_then(folder: Path) -> None:
    found = subprocess.run(
        command(folder, "--time-limit", "0.5", "--json"), capture_output=True, check=True
    )
    result = json.loads(found.stdout)
    assert sorted(result["core"]) == list(range(64 * 64))
    seconds = {stage["name"]: stage["seconds"] for stage in result["stages"]}
    assert seconds["placement"] < HUNG


@pytest.mark.parametrize("limit", ["abc", "nan", "inf", "0", "-1", "1e999", ""])
def test_invalid_limits(limit: str, run: Run) -> None:
    found = run("place", "net.bin", "--chip", "8x8", "--time-limit", limit)
    assert (found.code, found.out) == (2, "")
    said = f"argument --time-limit: {limit!r} is not a number of seconds above 0"
    assert found.err.splitlines()[-1] == f"mapper place: error: {said}"


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_keeps_the_best_so_far(folder: Path) -> None:
    process = subprocess.Popen(
        command(folder, "-o", "out.npz", "--verbose"), stderr=subprocess.PIPE, text=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if line.startswith("region:"):  # the next stage is the placement
                break
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        assert process.wait() == 130
    with np.load(folder / "out.npz") as kept:
        assert sorted(kept["core"].tolist()) == list(range(64 * 64))
