"""The objective multicast with limits and constraints, also on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.mapper.conftest import Run
from tests.mapper.hypergraph.test_streamed_nets import write

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

WORDS = ("--objective", "multicast", "--json", "-q", "-o", "out")


@pytest.mark.heavy
@pytest.mark.parametrize("held", [True, False])
def test_axons_and_constraints(
    held: bool, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not held:
        monkeypatch.setattr("mapper.planning.memory.NET_BYTES", 1 << 40)
    path = write(folder / "net.bin", 200, 3, 1)
    Path("c.toml").write_text(
        "[[pin]]\nneurons = [0, 50]\ncore = 5\n[[together]]\nneurons = [3, 150, 90]\n"
    )
    chip = ("--chip", "4x2", "--neurons-per-core", "32", "--axons-per-core", "48")
    found = run("run", path, *chip, "--constraints", "c.toml", *WORDS)
    assert found.code == 0, found.err
    core = np.load("out/mapping.npz")["core"]
    assert core[[0, 50]].tolist() == [5, 5]
    assert len(set(core[[3, 150, 90]].tolist())) == 1
    assert run("verify", "out").code == 0
    assert found.json()["settings"]["objective"] == "multicast"


def test_classic_refuses(fails: Callable[..., str], folder: Path) -> None:
    path = write(folder / "net.bin", 20, 3, 1)
    words = ("--chip", "2x2", "--preset", "classic", "--objective", "multicast")
    assert "the preset classic has no objective multicast" in fails("run", path, *words, code=2)
