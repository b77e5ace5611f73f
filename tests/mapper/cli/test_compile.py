"""`mapper compile`, and other commands on a compiled folder."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mapper.errors import BEYOND_LIMITS
from tests.compiler.codegen.test_cdriver import CC, compiled
from tests.mapper.cli.residual_net import save_residual_net
from tests.mapper.conftest import Run, tree

pytestmark = pytest.mark.jit  # tests/chipsim/npu has the references of these kernels
SIZE, CLASSES = 12, 4


@pytest.fixture
def model(folder: Path) -> Path:
    random = np.random.default_rng(5)
    save_residual_net(Path("small.onnx"), random, side=SIZE, channels=8, classes=CLASSES)
    x = random.normal(0, 1, (20, 2, SIZE, SIZE)).astype(np.float32)
    np.savez("samples.npz", x=x, y=random.integers(0, CLASSES, 20))
    return folder / "small.onnx"


@pytest.fixture
def out(model: Path, run: Run) -> Path:
    found = run("compile", "small.onnx", "--chip", "1x1", "--calibrate", "samples.npz")
    assert found.code == 0, found.err
    return Path("out")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_from_a_model_to_cores(out: Path, run: Run) -> None:
    names = sorted(path.name for path in out.iterdir())
    assert names == [
        "core_0_0.npc", "graph.json", "graph.npz", "host_plan.json", "macros.bin",
        "manifest.json", "model.onnx", "ranges.json", "report.html", "report.json",
    ]  # fmt: skip
    found = run("simulate", out, "--input", "samples.npz", "--check", "--json").json()
    assert found["frames"] == 20
    assert 0 <= found["accuracy"] <= 1
    assert found["differences"] == 0
    assert found["elements"] == 20 * (8 * SIZE * SIZE + 8 * SIZE * SIZE // 4 + CLASSES)
    assert run("verify", out, "--json").json()["valid"] is True
    page = (out / "report.html").read_text()
    assert "Accuracy" in page
    assert "softmax" in page
    (out / "report.html").unlink()
    assert run("report", out).code == 0
    assert (out / "report.html").read_text() == page


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_same_bytes_twice(out: Path, run: Run) -> None:
    options = ("--chip", "1x1", "--calibrate", "samples.npz", "-o", "again")
    assert run("compile", "small.onnx", *options).code == 0
    ours, others = tree(out), tree(Path("again"))
    for name in ours.keys() - {"report.json", "report.html"}:  # these contain stage times
        assert ours[name] == others[name], name


@pytest.mark.heavy
def test_disassemble(out: Path, run: Run) -> None:
    text = run("disassemble", out / "core_0_0.npc").out
    assert text.startswith("LOAD.INP ")
    assert "CTRL.END" in text
    assert ".micro_ops" in text


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_keep_graphs_and_switches(model: Path, run: Run) -> None:
    options = ("--chip", "1x1", "--calibrate", "samples.npz", "--keep-graphs", "--scheme", "sym",
               "--per", "tensor", "--method", "mse", "--disable", "bias-correction,reuse",
               "--rounding", "even", "--zero-point", "bias",
               "--samples", "8", "--min-signal", "5")  # fmt: skip
    report = run("compile", "small.onnx", *options, "--json").json()
    assert report["attempts"][0]["method"] == "mse"
    assert {one["zero_point"] for one in report["layers"]} == {0}
    text = Path("out/graphs/integer.txt").read_text()
    assert "conv" in text
    assert run("simulate", "out", "--input", "samples.npz", "--check").code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_compare(model: Path, run: Run) -> None:
    words = ("--chip", "1x1", "--calibrate", "samples.npz", "--compare", "--json")
    found = run("compile", "small.onnx", *words)
    rows = found.json()["compared"]
    assert len(rows) == 14  # entropy supports only 8 bits
    signal = {(row["bits"], row["scheme"], row["method"]): row["signal, dB"] for row in rows}
    assert signal[16, "asym", "minmax"] > signal[8, "asym", "minmax"] + 20
    assert not Path("out").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_bits_of_single_layers(model: Path, run: Run) -> None:
    """In the explanation, the report, its page and the manifest."""
    words = ("--chip", "1x1", "--npu", "npu-dual", "--bits", "8,se*=16,sum=8")
    found = run("compile", "small.onnx", *words, "--explain-only", "--json").json()
    bits = {one["node"]: one["bits"] for one in found["nodes"] if one["where"] == "core"}
    assert bits == {"first": 8, "second": 16, "dense": 8}
    assert "16 bits" in run("compile", "small.onnx", *words, "--explain-only").out
    report = run("compile", "small.onnx", *words, "--calibrate", "samples.npz", "--json").json()
    found = {one["nodes"][0]: one["bits"] for one in report["layers"]}
    assert found == {"first": 8, "second": 16, "dense": 8}
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["settings"]["bits"] == words[-1]
    assert {one["bits"] for one in manifest["layers"]} == {8, 16}
    assert ">Bits<" in Path("out/report.html").read_text()
    assert run("simulate", "out", "--input", "samples.npz", "--check", "-q").code == 0


BEYOND = ("--chip", "1x1", "--calibrate", "samples.npz", "--min-signal", "200")


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_limits_that_no_attempt_meets(model: Path, run: Run) -> None:
    found = run("compile", "small.onnx", *BEYOND)
    assert found.code == 1
    assert re.search(
        r"SQNR [\d.]+ dB, limit 200 dB or more \(the best of \d+ attempts\)", found.err
    )
    assert not Path("out").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_force_discards_a_result_beyond_the_limits(out: Path, run: Run) -> None:
    before = tree(out)
    found = run("compile", "small.onnx", *BEYOND, "--force")
    assert found.code == 1
    assert "keep the result with --keep-going" in found.err
    assert tree(out) == before


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_result_beyond_the_limits_is_marked(model: Path, run: Run) -> None:
    """Exit code, stderr, summary, report, page and manifest."""
    found = run("compile", "small.onnx", *BEYOND, "--keep-going")
    assert found.code == BEYOND_LIMITS
    assert "misses limits" in found.out
    (line,) = [one for one in found.err.splitlines() if "limit" in one]
    assert line.startswith("mapper compile: small.onnx: SQNR ")
    assert line.endswith(" dB, limit 200 dB or more; out is kept with --keep-going")
    report, manifest = (
        json.loads(Path("out", name).read_text()) for name in ("report.json", "manifest.json")
    )
    (missed,) = report["limits_missed"]
    assert missed in line
    assert manifest["limits_missed"] == [missed]
    assert missed in Path("out/report.html").read_text()
    quiet = run("compile", "small.onnx", *BEYOND, "--keep-going", "--force", "-q")
    assert (quiet.code, quiet.out, quiet.err.strip()) == (BEYOND_LIMITS, "", line)
    assert run("simulate", "out", "--input", "samples.npz", "--check", "-q").code == 0


@pytest.mark.heavy
def test_a_result_within_the_limits_is_not_marked(out: Path, run: Run) -> None:
    assert json.loads((out / "report.json").read_text())["limits_missed"] == []
    assert "limits_missed" not in (out / "manifest.json").read_text()
    assert "Limits exceeded" not in (out / "report.html").read_text()
    found = run("compile", "small.onnx", *BEYOND[:4], "--keep-going", "-o", "again")
    assert found.code == 0


DUAL = ("--calibrate", "samples.npz", "--npu", "npu-dual")
BAD = [
    ((), 1, "in floating point; give samples with --calibrate"),
    (("--calibrate", "none.npz"), 1, "none.npz"),
    (("--calibrate", "samples.npz", "--npu", "large"), 2, "give one of npu"),
    (("--calibrate", "samples.npz", "--npu", "tiny"), 3, "memory: "),
    (("--calibrate", "samples.npz", "--bits", "16"), 2, "--bits 16 needs a core with a dual"),
    (("--calibrate", "samples.npz", "--bits", "8,first=16"), 2, "--bits 8,first=16 needs a core"),
    ((*DUAL, "--bits", "12"), 2, "--bits 12: '12' is not a default; give 8, 16 or auto"),
    ((*DUAL, "--bits", "8,first"), 2, "'first' is not a layer with its bits"),
    ((*DUAL, "--bits", "8,frist=16"), 1, "no layer has this name; similar: 'first'"),
    ((*DUAL, "--bits", "8,softmax=16"), 1, "'softmax' is computed on the host in floating point"),
    ((*DUAL, "--bits", "8,flatten=16"), 1, "'flatten' is no layer of a core; --explain-only"),
    (("--calibrate", "samples.npz", "--headroom", "0"), 2, "--headroom is 0"),
    (("--calibrate", "samples.npz", "--keep", "nobody"), 1, "has no node 'nobody'"),
    (("--calibrate", "wide.npy"), 1, "wide.npy"),
    (("--calibrate", "samples.npz", "--chip", "2x2", "--emit", "c"), 2, "add --cores 1"),
    (("--calibrate", "samples.npz", "--cores", "0"), 2, "--cores is 0"),
]


@pytest.mark.heavy
@pytest.mark.sample(6)
@pytest.mark.parametrize(("options", "code", "text"), BAD)
def test_bad_input(
    model: Path, fails: Callable[..., str], options: tuple[str, ...], code: int, text: str
) -> None:
    np.save("wide.npy", np.ones((4, 2, SIZE, SIZE + 1), np.float32))
    assert text in fails("compile", "small.onnx", "--chip", "1x1", *options, code=code)


@pytest.mark.heavy
def test_not_a_compiled_folder(out: Path, run: Run, fails: Callable[..., str]) -> None:
    assert "add samples with --input" in fails("simulate", out, code=2)
    assert "is given twice" in fails("report", out, out, code=2)
    Path("empty").mkdir()
    assert "is not a compiled model" in fails("simulate", "empty", "--input", "samples.npz", code=2)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["core_0_0.npc", "graph.npz", "macros.bin", "graph.json"])
def test_damage_is_named(out: Path, fails: Callable[..., str], name: str) -> None:
    path = out / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert f"{path}: was changed after compilation" in fails("verify", out)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_damage_of_a_single_program(out: Path, fails: Callable[..., str]) -> None:
    whole = (out / "core_0_0.npc").read_bytes()
    random = np.random.default_rng(1)
    for at in random.integers(0, len(whole), 40):
        data = bytearray(whole)
        data[at] ^= 1 << int(random.integers(8))
        Path("broken.npc").write_bytes(data)
        assert fails("disassemble", "broken.npc").startswith("broken.npc: ")
    Path("broken.npc").write_bytes(whole[:-1])
    assert "cut short" in fails("disassemble", "broken.npc")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_clipped_values_are_counted(out: Path, run: Run) -> None:
    x = np.zeros((2, 2, SIZE, SIZE), np.float32)
    x[0, 0, 0, :3] = 1e6, -1e6, 1e7
    np.savez("far.npz", x=x)
    found = run("simulate", out, "--input", "far.npz", "--json")
    assert found.json()["clipped"] == 3
    assert "note: 3 sample values clipped to the range of the model's input, -" in found.err
    found = run("simulate", out, "--input", "samples.npz", "--limit", "1", "--json")
    assert found.json()["clipped"] == 0
    assert "clipped" not in found.err


@pytest.mark.heavy
def test_host_nodes_between_layers(model: Path, run: Run) -> None:
    """A node that is kept on the host splits the programs into two functions."""
    samples = ("--calibrate", "samples.npz")
    found = run("compile", "small.onnx", "--chip", "1x1", *samples, "--keep", "sum")
    assert found.code == 0, found.err
    found = run("simulate", "out", "--input", "samples.npz", "--limit", "3", "--check", "--json")
    assert found.json()["differences"] == 0
    assert len(json.loads(Path("out/manifest.json").read_text())["functions"]) == 2
    assert run("verify", "out").code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_digits(data_dir: Path, run: Run) -> None:
    """A trained network keeps its accuracy."""
    models = data_dir / "models"
    samples = models / "mnist_test_1000.npz"
    mnist = models / "mnist-8.onnx"
    found = run("compile", mnist, "--chip", "1x1", "--calibrate", samples, "--emit", "c")
    assert found.code == 0, found.err
    result = run("simulate", "out", "--input", samples, "--json").json()
    assert result["frames"] == 1000
    assert result["accuracy"] == pytest.approx(0.985, abs=0.002)
    if CC is not None:
        np.load(samples)["x"].astype(np.float32).tofile("input")
        driver = Path("out") / "driver"
        made = compiled(driver, "main.c", "driver.c")
        printed = subprocess.run([made, "input", "results"], capture_output=True, text=True)
        assert printed.stdout.split() == [result["sha256"]]
