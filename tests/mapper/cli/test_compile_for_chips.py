"""`mapper compile --chip`: NPU of a chip file, of a bare size, of --npu, and chips without NPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from mapper import map_network
from mapper.kernels.warmup import Compiled, read_table
from tests.compiler.bad_input.good import QUICK, good
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network
from tests.storage.formats.onnx_models import model as onnx_model
from tests.storage.formats.onnx_models import node, onnx

pytestmark = pytest.mark.jit


@pytest.fixture
def model(folder: Path) -> Path:
    good().save(folder)
    return folder / "good.onnx"


def chip_file(text: str) -> None:
    Path("mine.toml").write_text(f"width = 2\nheight = 2\n{text}\n")


def shape_of(run: Run, *options: str) -> dict[str, object]:
    words = ("--calibrate", "samples.npz", *QUICK, "--force", "--json", *options)
    report = run("compile", "good.onnx", *words).json()
    capacity = {name: memory["capacity"] for name, memory in report["memories"].items()}
    return {"npu": report["npu"], "chip": report["chip"], **capacity}


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_npu_precedence(model: Path, run: Run) -> None:
    """C16, R1.1: chip file, default for a bare size, and --npu overrides both."""
    chip_file('[npu]\npreset = "npu"\nweight_words = 300')
    found = shape_of(run, "--chip", "mine.toml")
    assert (found["npu"], found["weight"]) == ("mine", 300)
    assert found["chip"]["npu"]["weight_words"] == 300  # type: ignore[index]
    assert run("simulate", "out", "--input", "samples.npz", "--check", "-q").code == 0
    assert "mine" in run("info", "out").out
    other = shape_of(run, "--chip", "mine.toml", "--npu", "npu-dual")
    assert (other["npu"], other["weight"]) == ("npu-dual", 512)
    assert other["chip"]["npu"] == {"preset": "npu-dual"}  # type: ignore[index]
    bare = shape_of(run, "--chip", "2x2")
    assert (bare["npu"], bare["weight"]) == ("npu", 512)
    assert shape_of(run, "--chip", "loihi", "--npu", "npu")["npu"] == "npu"


@pytest.mark.parametrize("chip", ["loihi", "mine.toml"])
def test_a_chip_without_an_npu(model: Path, chip: str, fails: Callable[..., str]) -> None:
    """R13.1"""
    chip_file("")
    said = fails("compile", "good.onnx", "--chip", chip, "--calibrate", "samples.npz")
    assert f"chip {chip.removesuffix('.toml')}: its cores have no NPU" in said
    assert "npu, npu-dual, ref32, tiny" in said
    assert not Path("out").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_smallest_chip_that_a_model_fits(
    folder: Path, run: Run, fails: Callable[..., str]
) -> None:
    random = np.random.default_rng(0)
    constants = {
        "a": random.normal(0, 0.3, (64, 3, 3, 3)).astype(np.float32),
        "b": random.normal(0, 0.1, (4, 64, 1, 1)).astype(np.float32),
    }
    nodes = [node("Conv", "x a", "m", pads=[1, 1, 1, 1]), node("Conv", "m b", "y")]
    onnx.save(onnx_model(nodes, constants, {"x": (1, 3, 56, 56)}), "wide.onnx")
    np.savez("samples.npz", x=random.normal(size=(4, 3, 56, 56)).astype(np.float32))
    words = ("compile", "wide.onnx", "--calibrate", "samples.npz", *QUICK, "--chip")
    found = run(*words, "1x1..4x4")
    assert "note: 2x1 is used; too small: 1x1\n" in found.err
    assert json.loads(Path("out/manifest.json").read_text())["chip"]["name"] == "2x1"
    said = fails(*words, "1x1..1x2", "--cores", "1", "-o", "other", code=3)
    assert "the model fits no chip from 1x1 to 1x2; 1x2: wide.onnx: feature memory: " in said
    said = fails(*words, "1x1..2x2", "--ablate", code=2)
    assert "--ablate and --compare need a single chip" in said


def test_bad_npus(model: Path, fails: Callable[..., str]) -> None:
    chip_file('[npu]\npreset = "npu"\nrows = 99')
    words = ("compile", "good.onnx", "--calibrate", "samples.npz", "--chip")
    assert "chip file mine.toml: npu mine: rows is 99" in fails(*words, "mine.toml")
    chip_file('[npu]\npreset = "npu"\nrows = 8')
    assert "npu mine: 8 rows and 16 columns" in fails(*words, "mine.toml")
    assert "--npu 'big' is not known" in fails(*words, "2x2", "--npu", "big", code=2)
    assert not Path("out").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("chip", ["1x1", "2x2", "8x8"])
def test_kernels_are_announced_before_compilation(
    model: Path, run: Run, chip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All kernels for placing and for writing are announced."""
    asked: list[list[str]] = []
    told: list[bool] = []

    def compile_kernels(works: Iterable[str], threads: int, *heard: object) -> Compiled:
        asked.append(list(works))
        told.append(bool(heard))
        return Compiled(0, [], 0, 0.0)

    monkeypatch.setattr("mapper.kernels.warmup.compile_kernels", compile_kernels)
    words = ("compile", "good.onnx", "--calibrate", "samples.npz", "--chip", chip, *QUICK)
    words += ("--force",)
    run(*words, "-q")
    if chip == "1x1":
        assert asked == [["cores"]]  # some frames are simulated
        return
    first, *others = asked
    assert told == [True] + [False] * len(others)
    assert set(chain(*others)) <= set(first) <= set(read_table().works)
    assert {"compile", "run/default/unicast/levels"} <= set(first)
    asked.clear()
    run(*words, "-q", "--baseline", "serpentine")
    assert asked[0] == first  # the cut is searched with placements of the mapper
    assert set(chain(*asked)) == set(asked[0])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("ports = [[2, 0]]", "host: port [2, 0] is outside the 2x2 mesh"),
        ("ports = [0, 3]", "chip mine: host: port [1, 1] is at an unavailable core; give"),
        ("latency = 0", "host: latency is 0; give a whole number of cycles from 1 to 65536"),
        ("flits = 2", "host: flits is 2; give flits per cycle from 0.001 to 1: a port passes"),
    ],
)
def test_bad_hosts(model: Path, lines: str, said: str, fails: Callable[..., str]) -> None:
    """N10.5: field, value and range in one line."""
    chip_file(f'unavailable = [3]\n[npu]\npreset = "npu"\n[host]\n{lines}')
    words = ("compile", "good.onnx", "--calibrate", "samples.npz", "--chip", "mine.toml")
    assert f"chip file mine.toml: {said}" in fails(*words)
    assert not Path("out").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_frames_by_two_ports(model: Path, run: Run) -> None:
    """N10.5: compile, simulate, verify; flit counts of mapper and mesh are equal."""
    chip_file('[npu]\npreset = "npu"\n[host]\nports = [3, [0, 0]]')
    words = ("--calibrate", "samples.npz", "--chip", "mine.toml", *QUICK, "--force", "-q")
    run("compile", "good.onnx", *words)
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["ports"] == [[1, 1], [0, 0]]
    timed = run("simulate", "out", "--input", "samples.npz", "--cycles", "--json").json()
    links = timed["cycle_run"]["links"]
    score = run("score", "out/tiles.bin", "out/mapping.npz", "--chip", "mine.toml", "--json",
                "--neurons-per-core", str(1 << 20)).json()  # fmt: skip
    assert score["metrics"]["hops_total"] == sum(one["flits"] for one in links)
    assert score["metrics"]["link_load_max"] == max((one["flits"] for one in links), default=0)
    assert run("verify", "out").code == 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.usefixtures("light_placement")
def test_neurons_are_mapped_as_without_an_npu(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 50, 200)
    chip_file("neurons = 20")
    run("run", "net.bin", "--chip", "mine.toml", "-o", "plain", "-q")
    plain = Path("mine.toml").read_text()
    Path("mine.toml").write_text(plain + '[npu]\npreset = "tiny"\n')
    run("run", "net.bin", "--chip", "mine.toml", "-o", "with", "-q")
    assert Path("plain/mapping.npz").read_bytes() == Path("with/mapping.npz").read_bytes()
    reports = [run("info", name, "--json").json() for name in ("plain", "with")]
    assert reports[0]["chip"] == reports[1]["chip"]
    assert map_network("net.bin", "mine.toml").chip.npu is None
