"""R13.1: each fault of the model, the samples or the command line is reported in one line."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.bad_input.cases import CASES, Case, insert, many_weights, wide
from tests.compiler.bad_input.good import CHANNELS, FRAMES, QUICK, Good, good
from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import PROGRAM
from tests.storage.formats.onnx_models import onnx

pytestmark = pytest.mark.jit
USUAL = ("--chip", "1x1", "--calibrate", "samples.npz")
RANDOM = np.random.default_rng(7)


def test_the_list_is_long() -> None:
    names = [one.name for one in CASES]
    assert len(set(names)) == len(names) > 50


@pytest.mark.heavy
@pytest.mark.sample(20)
@pytest.mark.parametrize("case", CASES, ids=[one.name for one in CASES])
def test_each_fault_gives_one_line(case: Case, folder: Path, fails: Callable[..., str]) -> None:
    it = good()
    case.damage(it)
    it.save(folder)
    case.after(folder)
    line = fails("compile", "good.onnx", *QUICK, *case.options, code=case.code)
    for piece in case.says:
        assert piece in line


def test_undamaged_cases_compile(folder: Path, run: Run) -> None:
    """The undamaged model compiles."""
    good().save(folder)
    assert run("compile", "good.onnx", *QUICK, *USUAL).code == 0
    found = run("simulate", "out", "--input", "samples.npz", "--check", "--json").json()
    assert found["differences"] == 0


# -- unusual but valid -----------------------------------------------------------------------------


def lowest_pad(it: Good) -> None:
    """Pad a map with minus infinity, as frameworks export max pooling with uneven pads."""
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    it.constants |= {"pads": pads, "lowest": np.array(-np.inf, np.float32)}
    it.nodes.insert(2, onnx.helper.make_node("Pad", ["r", "pads", "lowest"], ["q"], "pad"))
    it.node("pool").input[0] = "q"
    it.constants["dense_w"] = RANDOM.normal(0, 0.1, (64, 3)).astype(np.float32)


def one_pixel(it: Good) -> None:
    it.inputs["x"] = [1, CHANNELS, 1, 1]
    it.samples["x"] = RANDOM.normal(0, 1, (FRAMES, CHANNELS, 1, 1)).astype(np.float32)
    it.nodes.remove(it.node("pool"))
    it.node("flatten").input[0] = "r"
    it.constants["dense_w"] = RANDOM.normal(0, 0.1, (4, 3)).astype(np.float32)


def one_element_wise_node(it: Good) -> None:
    it.nodes[:] = [onnx.helper.make_node("Relu", ["x"], ["y"], "only")]
    it.constants.clear()
    it.samples.pop("y")


def one_sum(it: Good) -> None:
    it.nodes[:] = [onnx.helper.make_node("Add", ["x", "x"], ["y"], "twice")]
    it.constants.clear()
    it.samples.pop("y")


def many_inputs(it: Good) -> None:
    wide(it, 23_328)


def open_batch(it: Good) -> None:
    it.inputs["x"] = ["n", *it.inputs["x"][1:]]


def fixed_batch(it: Good) -> None:
    it.inputs["x"] = [8, *it.inputs["x"][1:]]


def without_names(it: Good) -> None:
    for one in it.nodes:
        one.name = ""


def constant_channel(it: Good) -> None:
    """Kernels of zeros produce a constant channel."""
    it.constants["w"][1] = 0
    it.constants["b"][1] = 0


def all_the_same(it: Good) -> None:
    it.samples["x"][:] = 0.25


def one_sample(it: Good) -> None:
    it.samples = {"x": it.samples["x"][:1]}


def large_numbers(it: Good) -> None:
    it.samples["x"] *= 1e20


def small_numbers(it: Good) -> None:
    it.samples["x"] *= 1e-20


def identities(it: Good) -> None:
    insert(it, "Identity", "relu", "same")
    insert(it, "Dropout", "same", "dropped")


def strange_names(it: Good) -> None:
    it.node("conv").name = "a/b\n<script>[bold]\u00e9"


ODD = [
    (lowest_pad, (0, 1)), (one_pixel, (0,)), (one_element_wise_node, (0, 1)), (one_sum, (0,)),
    (many_inputs, (0, 3)), (open_batch, (0,)), (fixed_batch, (0,)), (without_names, (0,)),
    (constant_channel, (0,)),
    (all_the_same, (0,)), (one_sample, (0,)), (large_numbers, (0, 1)), (small_numbers, (0, 1)),
    (identities, (0,)), (strange_names, (0,)), (many_weights, (0, 3)),
]  # fmt: skip


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize(("change", "codes"), ODD, ids=[one.__name__ for one, _ in ODD])
def test_unusual_models_compile_or_are_rejected(
    change: Callable[[Good], Any], codes: tuple[int, ...], folder: Path, run: Run
) -> None:
    it = good()
    change(it)
    it.save(folder)
    before = tree(folder)
    found = run("compile", "good.onnx", *QUICK, *USUAL)
    assert found.code in codes, found.err
    if found.code:
        assert found.err.count("\n") == 1
        assert tree(folder) == before
        return
    result = run("simulate", "out", "--input", "samples.npz", "--check", "--json").json()
    assert result["differences"] == 0
    assert run("verify", "out").code == 0
    assert "<script>" not in (folder / "out/report.html").read_text()


def test_pads_of_minus_infinity_are_folded(folder: Path, run: Run) -> None:
    """It would become the lower end of the range of its map."""
    it = good()
    lowest_pad(it)
    it.save(folder)
    found = run("compile", "good.onnx", *QUICK, *USUAL, "--json")
    if "padded pooling is not built yet" in found.err:
        pytest.skip("cores have no padded pooling")
    report = found.json()
    assert report["losses"]
    assert all(np.isfinite(one["low"]) and abs(one["low"]) < 1e3 for one in report["losses"])


# -- the system ------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_folder(folder: Path, fails: Callable[..., str]) -> None:
    good().save(folder)
    (folder / "closed").mkdir(mode=0o500)
    line = fails("compile", "good.onnx", *QUICK, *USUAL, "-o", "closed/out")
    assert "closed/out: cannot write: Permission denied" in line


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [100, 3000, 20_000])
def test_full_disk(folder: Path, size: int) -> None:
    """A limit of the file size behaves like a full disk."""
    good().save(folder)
    before = tree(folder)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "compile", "good.onnx", *QUICK, *USUAL],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "cannot write: " + os.strerror(errno.EFBIG) in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert {name for name in tree(folder) if "__pycache__" not in name} == set(before)
