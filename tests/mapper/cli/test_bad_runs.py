"""Impossible runs: chips too small, full disks, folders that cannot be written, bad options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import PROGRAM, write_network

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]
CHIP = ("--chip", "4x4", "--neurons-per-core", "4")


def test_a_chip_too_small(network: Path, fails: Fails) -> None:
    small = ("--chip", "3x4", "--neurons-per-core", "4", "-o", "out")
    message = fails("run", network, *small, code=3)
    assert "needs 50 neurons; the chip holds 48 (2 short)" in message
    message = fails("run", network, *CHIP, "--synapses-per-core", "10", "-o", "out", code=3)
    assert "needs 192 synapses; the chip holds 160" in message
    assert "short)" in message


def test_a_vertex_too_large(folder: Path, fails: Fails) -> None:
    path = write_network(folder / "net.bin", [(0, 1), (1, 2)], 3, sizes=[1, 1, 9])
    message = fails("run", path, *CHIP, "-o", "out", code=3)
    assert "neuron 2 needs 9 neurons; a core holds 4 (5 short)" in message
    star = write_network(folder / "star.bin", [(i, 0) for i in range(1, 9)], 9)
    message = fails("run", star, *CHIP, "--synapses-per-core", "7", "-o", "out", code=3)
    assert "neuron 0 needs 8 synapses; a core holds 7" in message
    message = fails("run", star, *CHIP, "--axons-per-core", "6", "-o", "out", code=3)
    assert "neuron 0 needs 8 axons_in; a core holds 6" in message


def test_sizes_that_cannot_be_packed(folder: Path, fails: Fails) -> None:
    """Three vertices of size 3 do not fit two cores of 5, although their sum does."""
    path = write_network(folder / "net.bin", [(0, 1), (1, 2)], 3, sizes=[3, 3, 3])
    tight = ("--chip", "2x1", "--neurons-per-core", "5", "-o", "out")
    assert "packed" in fails("run", path, *tight, code=3)


def test_more_groups_than_cores(folder: Path, fails: Fails) -> None:
    path = write_network(folder / "net.bin", [(0, 1), (1, 2)], 30)
    assert "(14 short)" in fails("place", path, "--chip", "4x4", code=3)


@pytest.mark.parametrize("place", ["net.bin/out", "/proc/out", "missing/out", "/dev/null/out"])
def test_folders_that_cannot_be_created(network: Path, fails: Fails, place: str) -> None:
    assert place in fails("run", network, *CHIP, "-o", place)
    assert place in fails("export", network, f"{place}.csv")
    assert place in fails("partition", network, "--parts", "2", "-o", place)
    assert place in fails("place", network, "--chip", "8x8", "-o", f"{place}.npz")


def test_outputs_that_are_not_output_folders(network: Path, fails: Fails, folder: Path) -> None:
    assert "not the output of a run" in fails("run", network, *CHIP, "-o", network, "--force")
    for place in (".", "/", "..", ""):
        fails("run", network, *CHIP, "-o", place, "--force")
    (folder / "sub").mkdir()
    (folder / "sub" / "old").write_text("kept")
    assert "exists" in fails("run", network, *CHIP, "-o", "sub")
    assert "folder" in fails("export", network, "sub", "--format", "csv")
    fails("run", "sub", *CHIP, "-o", "out", code=2)


def limited(*arguments: str, largest: int) -> subprocess.CompletedProcess[str]:
    """Run `mapper` in a process whose files may not exceed `largest` bytes: a full disk."""
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest}))\n"
        f"{PROGRAM}"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX limits")
@pytest.mark.parametrize(
    ("command", "largest"),
    [
        (("export", "net.bin", "out.csv"), 200),
        (("export", "net.bin", "out.npz"), 500),
        (("export", "net.bin", "out.parquet"), 100),
        (("export", "net.bin", "out.h5"), 100),
        (("export", "net.bin", "out.h5"), 3000),
        (("export", "net.bin", "out.h5"), 9000),
        (("import", "edges.txt", "out.bin"), 200),
        (("generate", "cortex", "out.bin", "--side", "9", "--fanout", "5", "--sigma", "1"), 100),
        (("generate", "cortex", "out", "--side", "9", "--files", "2"), 100),
        (("place", "net.bin", "--chip", "8x8", "-o", "out.npz"), 100),
        (("run", "net.bin", *CHIP, "-o", "out"), 50),
        (("run", "net.bin", *CHIP, "-o", "out"), 700),
        (("run", "edges.txt", *CHIP, "-o", "out"), 300),
    ],
)
def test_a_full_disk(
    network: Path, folder: Path, run: Run, command: tuple[str, ...], largest: int
) -> None:
    lines = [f"{i % 40} {(i * 7 + i // 40) % 40}" for i in range(300)]
    (folder / "edges.txt").write_text("\n".join(lines))
    before = tree(folder)
    # Without the limit it succeeds, and caches compiled kernels, which a full disk prevents.
    assert run(*command).code == 0
    for path in folder.iterdir():
        if path.name not in before:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    found = limited(*command, largest=largest)
    assert (found.returncode, found.stdout) == (1, ""), found
    assert found.stderr.count("\n") == 1, found.stderr
    assert found.stderr.startswith(f"mapper {command[0]}: ")
    assert tree(folder) == before


@pytest.mark.parametrize(
    "words",
    [
        ("--seed", "-1"),
        ("--seed", "x"),
        ("--threads", "0"),
        ("--threads", "9" * 30),
        ("--seed", "9" * 5000),
        ("--seed", "9223372036854775808"),
        ("--memory", "1KiB"),
        ("--memory", "lots"),
        ("--neurons-per-core", "0"),
        ("--synapses-per-core", "-5"),
        ("--set", "force-share=0"),
        ("--set", "force-share=x"),
        ("--set", "force-share=1e-300"),
        ("--set", "stop-shrink=1e-300"),
        ("--cores", "-1"),
        ("--cores", "some"),
        ("--cores", "17"),
        ("--fill", "0"),
        ("--fill", "1.01"),
        ("--fill", "nan"),
        ("--cores", "3", "--set", "cores=4"),
        ("--memory", "9" * 400 + "G"),
        ("--memory", "9" * 25),
        ("--set", "stop-shrink=nan"),
        ("--set", "stop-shrink=2"),
        ("--set", "matching-repeats=0"),
        ("--preset", "best"),
        ("--no-such-option",),
        ("--chip", "8by8"),
        ("--chip", "0x4"),
        ("--chip", "-4x4"),
        ("--chip", "4x"),
        ("--chip", ""),
        ("--chip", "99999999x99999999"),
        ("--chip", "loihi9"),
    ],
    ids=" ".join,
)
def test_usage(network: Path, run: Run, folder: Path, words: tuple[str, ...]) -> None:
    before = tree(folder)
    found = run("run", network, *CHIP, "-o", "out", *words)
    assert (found.code, found.out) == (2, "")
    assert "Traceback" not in found.err
    assert max(map(len, found.err.splitlines())) < 200
    assert found.err.splitlines()[-1].startswith("mapper")
    assert tree(folder) == before


def test_usage_of_other_commands(network: Path, run: Run, fails: Fails) -> None:
    for words in ((), ("fly",), ("run",), ("run", network), ("score", network, *CHIP), ("-x",)):
        assert run(*words).code == 2
    assert ".npz or .csv" in fails("place", network, "--chip", "8x8", "-o", "out.txt", code=2)


@pytest.mark.parametrize(
    "text",
    ["", "width = 4\n", "width = 4\nheight = 0\n", "width = 4\nheight = 4\nspeed = 1\n",
     "width = 2\nheight = 1\nunavailable = [0, 1]\n", "width = [\n", "\xff"],
)  # fmt: skip
def test_chip_files(network: Path, fails: Fails, folder: Path, text: str) -> None:
    (folder / "c.toml").write_bytes(text.encode("latin-1"))
    assert "c.toml" in fails("run", network, "--chip", "c.toml", "-o", "out")
