"""No output gets a name that another command gives to its lock or its unfinished output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hw.flow.yosys import find_yosys
from mapper import map_network
from mapper.cli.main import COMMANDS
from storage.errors import WriteError
from storage.files import RESERVED, PartialFile, PartialFolder
from tests.compiler.bad_input.good import QUICK, good
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

CHIP = ("--chip", "4x4", "--neurons-per-core", "20", "--preset", "fast")
OUTPUTS = {
    "run": ("run", "net.bin", *CHIP, "-o"),
    "run --seeds": ("run", "net.bin", *CHIP, "--seeds", "1..2", "-o"),
    "run --resume": ("run", "net.bin", *CHIP, "--resume", "-o"),
    "sweep": ("sweep", "s.toml", "-o"),
    "generate": ("generate", "cortex", "--side", "9", "--fanout", "2"),
    "generate --files": ("generate", "cortex", "--side", "9", "--fanout", "2", "--files", "2"),
    "import": ("import", "net.bin"),
    "import --files": ("import", "net.bin", "--files", "2"),
    "export network": ("export", "net.bin", "--format", "csv"),
    "export mapping": ("export", "out", "--format", "csv"),
    "report": ("report", "out", "-o"),
    "partition": ("partition", "net.bin", "--parts", "2", "-o"),
    "hw": ("hw", "--chip", "2x2", "--verilog"),
}
COMPILED = {
    "compile": (
        "compile",
        "good.onnx",
        *QUICK,
        "--calibrate",
        "samples.npz",
        "--chip",
        "2x2",
        "-o",
    ),
    "report of a model": ("report", "model", "-o"),
    "simulate --dump": ("simulate", "model", "--input", "samples.npz", "--dump"),
}
ONLY_READ = {
    "info", "verify", "check", "score", "runs", "chips", "disassemble", "cache", "warm", "docs",
    "completion", "plugins",
}  # fmt: skip
ENDS = pytest.mark.parametrize("ending", [*RESERVED, ".LOCK"])


@pytest.fixture
def mapped(network: Path, run: Run) -> Path:
    """A folder with a network, its mapping, and a sweep."""
    Path("s.toml").write_text('network = "net.bin"\nchip = "4x4"\nmemory = "300MiB"\n')
    assert run("run", "net.bin", *CHIP, "-q", "-o", "out").code == 0
    return network.parent


def check(fails: Callable[..., str], words: tuple[str, ...], ending: str) -> None:
    said = fails(*words, f"new{ending}")
    assert said == (
        f"new{ending}: the ending {ending.lower()} is reserved for locks and unfinished outputs; "
        "choose another name"
    )


def test_every_command_that_writes_has_a_case() -> None:
    with_cases = {words[0] for words in (OUTPUTS | COMPILED).values()} | {"place", "simulate"}
    assert with_cases | ONLY_READ == set(COMMANDS)
    assert not with_cases & ONLY_READ


@pytest.mark.heavy
@ENDS
def test_commands(ending: str, mapped: Path, fails: Callable[..., str], run: Run) -> None:
    for words in OUTPUTS.values():
        check(fails, words, ending)
    if find_yosys() is not None:
        check(fails, ("hw", "--npu", "tiny", "--verilog"), ending)
    np.savez("spikes.npz", neuron=np.array([0]), time=np.array([1.0]))
    check(fails, ("simulate", "out", "--spikes", "spikes.npz", "--save"), ending)
    # place writes only .npz and .csv
    assert "must end in .npz or .csv" in fails(
        "place", "net.bin", "--chip", "8x8", "-o", f"new{ending}", code=2
    )


@pytest.mark.heavy
@pytest.mark.sample(1)
@ENDS
def test_commands_on_models(ending: str, folder: Path, fails: Callable[..., str], run: Run) -> None:
    good().save(folder)
    model = ("compile", "good.onnx", *QUICK, "--calibrate", "samples.npz", "--chip", "2x2")
    assert run(*model, "-q", "-o", "model").code == 0
    for words in COMPILED.values():
        check(fails, words, ending)


@ENDS
def test_outputs_of_the_library(ending: str, tmp_path: Path) -> None:
    for made in (PartialFile, PartialFolder):
        with pytest.raises(WriteError, match=r"is reserved for locks and unfinished outputs"):
            made(tmp_path / f"new{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.sample(1)
@ENDS
def test_mappings_in_python(ending: str, tmp_path: Path) -> None:
    mapping = map_network(([0, 1], [1, 0]), "2x2", preset="fast")
    with pytest.raises(Exception, match=r"is reserved for locks and unfinished outputs"):
        mapping.save(tmp_path / f"new{ending}")
    assert list(tmp_path.iterdir()) == []
