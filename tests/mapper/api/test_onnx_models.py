"""`mapper.compile_model` of ONNX models and `mapper.simulate_model`: the folder and the figures of
the commands, results in memory, and refused input."""

from __future__ import annotations

import argparse
import copy
import gc
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from mapper.api.models import ANALYSES
from mapper.cli import compile_options, spiking_compile
from mapper.errors import CheckFailedError
from mapper.inputs.model_arguments import OnnxArguments, SpikingArguments
from tests.mapper.cli.residual_net import save_residual_net
from tests.mapper.conftest import Run, tree
from tests.mapper.spiking.graphs import save_graph, save_spikes

onnx = pytest.importorskip("onnx", reason="needs onnx")

pytestmark = pytest.mark.jit  # tests/chipsim/npu has the references of these kernels
SIDE, CLASSES = 8, 4
FAST: dict[str, Any] = {"calibrate": "samples.npz", "effort": "fast", "method": "minmax"}
WORDS = ("--calibrate", "samples.npz", "--effort", "fast", "--method", "minmax")


@pytest.fixture
def model(folder: Path) -> Path:
    random = np.random.default_rng(5)
    save_residual_net(Path("small.onnx"), random, side=SIDE, channels=8, classes=CLASSES)
    x = random.normal(0, 1, (20, 2, SIDE, SIDE)).astype(np.float32)
    np.savez("samples.npz", x=x, y=random.integers(0, CLASSES, 20))
    return Path("small.onnx")


def contents(folder: Path) -> tuple[dict[Path, Any], dict[str, Any]]:
    """Return the files of a compiled folder, and its report without times."""
    files = {name: data for name, data in tree(folder).items() if "report" not in str(name)}
    report = json.loads((folder / "report.json").read_text())
    return files, report | {"seconds": list(report["seconds"])}


@pytest.mark.heavy
def test_the_folder_is_the_folder_of_the_command(model: Path, run: Run) -> None:
    words = (*WORDS, "--bits", "8,second=8", "--keep", "softmax", "--disable", "pad,reuse",
             "--baseline", "serpentine", "--min-signal", "5", "--first-tile", "4x4",
             "--normalise", "scale=0.5", "--samples", "12", "--verify", "samples.npz",
             "--explain", "--keep-graphs", "--emit", "loops")  # fmt: skip
    found = run("compile", model, "--chip", "1x1..2x2", "--npu", "npu", *words)
    assert found.code == 0, found.err
    called = mapper.compile_model(
        model, "1x1..2x2", **FAST, npu="npu", bits="8,second=8", keep=["softmax"],
        disable=("pad", "reuse"), baseline="serpentine", min_signal=5, first_tile=(4, 4),
        normalise="scale=0.5", samples=12, verify=Path("samples.npz"), explain=True,
        keep_graphs=True, emit="loops", output="called",
    )  # fmt: skip
    assert called.folder == Path("called")
    (files, report), (others, other) = contents(Path("out")), contents(called.folder)
    commands = [each.pop("command")[0] for each in (report, other)]
    assert commands == ["mapper", "mapper.compile_model"]
    assert report == other
    assert files == others
    assert [f"note: {line}" for line in called.notes] == found.err.splitlines()
    assert run("verify", "called", "--json").json()["cores"] == called.verify()["cores"]


@pytest.mark.heavy
def test_a_model_in_memory_is_compiled_as_its_file(model: Path) -> None:
    samples = dict(np.load("samples.npz"))
    given = FAST | {"calibrate": samples}
    of_file = mapper.compile_model(model, "1x1", **FAST)
    for one in (onnx.load(str(model)), model.read_bytes()):
        found = mapper.compile_model(one, "1x1", **given)
        ours, theirs = contents(found.folder)[0], contents(of_file.folder)[0]
        manifests = [
            json.loads((each.folder / "manifest.json").read_text()) for each in (found, of_file)
        ]
        assert [each["model"].pop("name") for each in manifests] == ["model.onnx", "small.onnx"]
        assert [each.pop("sha256") for each in manifests]
        for name in ours.keys() - {"manifest.json", "ranges.json"}:  # these name the file
            assert ours[name] == theirs[name], name
        assert found.report["signal_db"] == of_file.signal_db
    folders = {found.folder, of_file.folder}  # the file of the model in memory is gone
    assert set(Path(tempfile.gettempdir()).iterdir()) == folders


@pytest.mark.heavy
def test_simulation_equals_the_command(model: Path, run: Run) -> None:
    found = mapper.compile_model(model, "2x2", **FAST, output="out")
    words = ("simulate", "out", "--input", "samples.npz", "--json")
    before = tree(Path("out"))
    samples = dict(np.load("samples.npz"))
    full = found.simulate("samples.npz", check=True, cycles=True, frames=4, clock=250)
    assert full.figures == mapper.simulate_model(
        "out", samples, check=True, cycles=True, frames=4, clock=250, threads=1
    ).figures  # fmt: skip
    assert tree(Path("out")) == before
    wanted = run(*words, "--check", "--cycles", "--frames", "4", "--clock", "250").json()
    assert json.loads(json.dumps(full.figures)) == wanted
    assert full.check is not None and full.cycle_run is not None
    assert (full.check.elements, full.check.differences) == (wanted["elements"], 0)
    assert full.cycle_run["latency"] == found.cycles_of_frames(frames=4)["latency"]
    assert full.outputs["y"].shape == (20, CLASSES)
    assert full.classes.tolist() == full.outputs["y"].argmax(1).tolist()
    assert full.accuracy == np.mean(full.classes == samples["y"])
    few = mapper.simulate_model(found, {"x": samples["x"]}, limit=3)
    assert (few.accuracy, few.check, few.cycle_run) == (None, None, None)
    assert np.array_equal(few.outputs["y"], full.outputs["y"][:3])
    wanted = run("simulate", "out", "--input", "samples.npz", "--limit", "3", "--json").json()
    assert wanted.pop("accuracy") == np.mean(few.classes == samples["y"][:3])
    assert few.figures == wanted
    clipped = found.simulate(1000 * samples["x"])
    assert clipped.clipped and "sample values clipped to the range" in clipped.notes[0]


@pytest.mark.heavy
def test_a_result_in_memory(model: Path) -> None:
    found = mapper.compile_model(model, "2x2", **FAST)
    folder, files = found.folder, tree(found.folder)
    assert repr(found).startswith("<CompiledNetwork small.onnx on 2x2: 3 layers, ")
    assert "<td" in found._repr_html_() and "small.onnx" in found._repr_html_()
    assert found.cycles == found.report["cycles"]
    assert found.signal_db is not None and found.loss is not None and not found.limits_missed
    assert len(found.rows("cores")) == len(found.cores) <= 4
    assert len(found.rows("layers")) == len(found.layers)
    assert {one["stage"] for one in found.rows("stages")} == found.report["seconds"].keys()
    assert found.rows("host")[0]["op"] == "Softmax"
    assert all(not isinstance(cell, dict | list) for row in found.rows("layers")
               for cell in row.values())  # fmt: skip
    with pytest.raises(mapper.UsageError, match="table 'maps' is not known; give one of layers"):
        found.rows("maps")
    assert tree(found.save("kept")) == files
    with pytest.raises(mapper.MapperError, match="exists; choose another folder with output"):
        found.save("kept")
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other.folder != folder
        assert tree(other.folder) == files
        assert other.notes == found.notes
        assert other.simulate("samples.npz", limit=2).sha256 == found.simulate(
            "samples.npz", limit=2
        ).sha256  # fmt: skip
    del found, other
    gc.collect()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.heavy
def test_progress_and_interrupts(model: Path) -> None:
    seen: list[tuple[str, float]] = []
    mapper.compile_model(
        model, "1x1", **FAST, progress=lambda stage, done: seen.append((stage, done))
    )
    assert {("read", 1.0), ("quantise", 0.0), ("check", 1.0), ("dumps", 1.0)} <= set(seen)
    stages = [stage for stage, done in seen if done == 0.0]
    assert stages.index("quantise") < stages.index("instructions") < stages.index("judge")

    def stop(stage: str, _: float) -> None:
        if stage == "judge":
            raise KeyboardInterrupt

    for output in (None, "out"):
        with pytest.raises(KeyboardInterrupt):
            mapper.compile_model(model.read_bytes(), "1x1", **FAST, progress=stop, output=output)
    assert sorted(path.name for path in Path().iterdir()) == ["samples.npz", "small.onnx"]
    gc.collect()
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.heavy
def test_limits_and_results_that_miss_them(model: Path) -> None:
    with pytest.raises(CheckFailedError, match="change min_signal or max_loss, or keep") as error:
        mapper.compile_model(model, "1x1", **FAST, min_signal=200, output="out")
    assert "keep_going" in str(error.value) and not Path("out").exists()
    found = mapper.compile_model(
        model, "1x1", **FAST, min_signal=200, keep_going=True, output="kept"
    )  # fmt: skip
    assert "200" in found.limits_missed[0]
    assert mapper.simulate_model("kept", "samples.npz").classes.shape == (20,)


PIXELS = np.ones((4, 2, SIDE, SIDE))
REFUSED: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (mapper.UsageError, "model is 3; give the path of an .onnx or .nir file", {"model": 3}),
    (mapper.MapperError, "none.onnx: no such file", {"model": "none.onnx"}),
    (mapper.MapperError, "^model: ", {"model": b"nothing"}),
    (mapper.UsageError, "chip is 3; give", {"chip": 3}),
    (mapper.UsageError, r"chip 4x4\.\.2x2: the last size", {"chip": "4x4..2x2"}),
    (mapper.MapperError, "its cores have no NPU; .* or npu with one of", {"chip": "loihi"}),
    (mapper.UsageError, "npu 'big' is not known; give one of", {"npu": "big"}),
    (mapper.UsageError, "npu is 3; give the name of a preset", {"npu": 3}),
    (mapper.UsageError, "tick_length: applies to spiking models", {"tick_length": 1}),
    (mapper.UsageError, "'bitz' for ONNX models; did you mean bits", {"bitz": 8}),
    (mapper.UsageError, "bits 9: '9' is not a default", {"bits": 9}),
    (mapper.UsageError, "bits is True; give 8, 16", {"bits": True}),
    (mapper.UsageError, "effort 'slow' is not known; give fast, default, strong",
     {"effort": "slow"}),
    (mapper.UsageError, "per neuron|per 'neuron' is not known", {"per": "neuron"}),
    (mapper.UsageError, "zero_point 3 is not known; give shift, bias", {"zero_point": 3}),
    (mapper.UsageError, "cores is 0; give a whole number of 1", {"cores": 0}),
    (mapper.UsageError, "cores is True; give", {"cores": True}),
    (mapper.UsageError, "headroom is 'a'; give a number", {"headroom": "a"}),
    (mapper.UsageError, "max_loss is 101; give points from 0 to 100", {"max_loss": 101}),
    (mapper.UsageError, "explain is 'x'; give True or False", {"explain": "x"}),
    (mapper.UsageError, "disable: 'fast' is not known; give", {"disable": ["fast"]}),
    (mapper.UsageError, "keep is 3; give names", {"keep": 3}),
    (mapper.UsageError, "baseline: rows and plane8 both set the schedule",
     {"baseline": "rows,plane8"}),
    (mapper.UsageError, "emit c: .* add cores 1", {"emit": "c"}),
    (mapper.UsageError, "first_tile is .8,.; give 2 whole numbers", {"first_tile": (8,)}),
    (mapper.UsageError, "input_shape is '1,2'; give whole numbers", {"input_shape": "1,2"}),
    (mapper.MapperError, "input_shape z=.*: no such input", {"input_shape": {"z": (1, 2)}}),
    (mapper.UsageError, "memory: 'much' is not a size", {"memory": "much"}),
    (mapper.UsageError, "progress is 3; give a function", {"progress": 3}),
    (mapper.MapperError, "normalise: 'half' is unknown|normalise: 'half' has no key",
     {"normalise": "half"}),
    (mapper.MapperError, "layout 'chw' is unknown; give nchw or nhwc", {"layout": "chw"}),
    (mapper.UsageError, "calibrate is 3; give the path of samples", {"calibrate": 3}),
    (mapper.MapperError, "none.npz: cannot read", {"calibrate": "none.npz"}),
    (mapper.MapperError, "calibrate: a sample has 2x8x9 numbers, the model needs 2x8x8",
     {"calibrate": np.ones((2, 2, 8, 9))}),
    (mapper.MapperError, "verify: has only arrays a, b; save the samples as x",
     {"verify": {"a": PIXELS, "b": PIXELS}}),
    (mapper.MapperError, "verify: x has 4 samples, but y has 3 labels",
     {"verify": {"x": PIXELS, "y": [0, 1, 2]}}),
    (mapper.MapperError, "give samples with calibrate to measure", {"calibrate": None}),
    (mapper.UsageError, "samples: needs calibration samples; add calibrate",
     {"calibrate": None, "samples": 3}),
    (mapper.DoesNotFitError, "memory|fit", {"chip": "tiny.toml"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "said", "arguments"), REFUSED)
def test_refused(model: Path, kind: type[Exception], said: str, arguments: dict[str, Any]) -> None:
    Path("tiny.toml").write_text(
        'width = 1\nheight = 1\n[npu]\npreset = "npu"\nmap_vectors = 16\ninstructions = 16\n'
    )
    given = {"model": model, "chip": "2x2"} | FAST | arguments
    if given["calibrate"] is None and "samples" not in arguments:
        del given["calibrate"]
    with pytest.raises(kind, match=said) as raised:
        mapper.compile_model(**given, output="out")
    assert type(raised.value) is kind or kind is mapper.MapperError
    assert len(str(raised.value).splitlines()) == 1
    assert "--" not in str(raised.value)
    assert not list(Path().glob("out*"))


@pytest.mark.heavy
def test_refused_simulations(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = mapper.compile_model(model, "1x1", **FAST, output="out")
    refused: list[tuple[str, dict[str, Any]]] = [
        ("threads is 0; give", {"threads": 0}),
        ("limit is True; give", {"limit": True}),
        ("clock is -1; give MHz above 0", {"clock": -1}),
        ("frames, clock: need a cycle-accurate run; add cycles", {"frames": 3}),
        ("frames, clock: need several cores; out runs on one", {"frames": 3, "cycles": True}),
        ("samples: a sample has 3 numbers", {"samples": np.ones((2, 3))}),
        ("samples is None; give the path of samples", {"samples": None}),
        ("none.npz: cannot read", {"samples": "none.npz"}),
    ]
    for said, arguments in refused:
        with pytest.raises(mapper.MapperError, match=said):
            found.simulate(**({"samples": "samples.npz"} | arguments))
    with pytest.raises(mapper.UsageError, match="compiled is 3; give the folder of a compiled"):
        mapper.simulate_model(3, "samples.npz")  # type: ignore[call-overload]
    with pytest.raises(mapper.MapperError, match="none: is not the folder of a compiled model"):
        mapper.simulate_model("none", "samples.npz")
    with pytest.raises(mapper.UsageError, match="simulate_model has no argument 'cycle'"):
        mapper.simulate_model("out", "samples.npz", cycle=True)  # type: ignore[call-overload]
    with monkeypatch.context() as patch:
        patch.setattr("mapper.compiler.artifacts.compiled_network.default_memory", lambda: 4 * 16)
        assert found.simulate("samples.npz", limit=4).outputs["y"].nbytes == 4 * 16
        with pytest.raises(mapper.DoesNotFitError, match="their outputs have more than 64 bytes"):
            found.simulate("samples.npz", limit=5)
    (found.folder / "core_0_0.npc").write_bytes(b"")
    with pytest.raises(mapper.MapperError, match=r"core_0_0\.npc"):
        found.verify()


def test_simulate_a_spiking_model(folder: Path) -> None:
    save_graph(Path("model.nir"))
    save_spikes(Path("spikes.npz"))
    found = mapper.compile_model("model.nir", "2x2", tick_length=1e-3, output="out")
    ours = mapper.simulate_model(found, "spikes.npz", check=True)
    theirs = mapper.simulate_model("out", dict(np.load("spikes.npz")), check=True)
    assert isinstance(theirs, mapper.SimulatedModel)
    for name, output in ours.outputs.items():
        assert output.classes.tolist() == theirs.outputs[name].classes.tolist()
    with pytest.raises(mapper.UsageError, match="frames: applies to compiled ONNX models only"):
        mapper.simulate_model("out", "spikes.npz", frames=3)


SCRIPT = """\
import numpy as np
import mapper

found = mapper.compile_model("a.onnx", "4x4", calibrate=np.zeros((3, 2)), bits=8, effort="fast")
cycles: int = found.cycles
run = mapper.simulate_model(found, "x.npz", check=True, cycles=True)
accuracy: float | None = run.accuracy
spiking = mapper.compile_model("a.nir", "4x4", tick_length=1e-3)
bits: int = spiking.weight_bits
either = mapper.compile_model("a.onnx", "4x4", calibrate="x.npz")
assert isinstance(either, mapper.CompiledNetwork)
layers: list[dict[str, object]] = either.rows("layers")
mapper.compile_model("a.onnx", "4x4", effort="slow")  # wrong
mapper.compile_model("a.onnx", "4x4", bitz=8)  # wrong
mapper.compile_model("a.nir", "4x4", tick_length=1e-3, bits=8)  # wrong
mapper.simulate_model(found, "x.npz", cycle=True)  # wrong
mapper.compile_model("a.onnx", "4x4", bits=8).to_json()  # wrong
nodes: list[dict[str, object]] = mapper.compile_model("a.onnx", "4x4", explain_only=True).rows
mapper.compile_model("a.onnx", "4x4", compare=True, calibrate="x.npz", bits=8).to_frame("polars")
mapper.compile_model("a.onnx", "4x4", ablate=True).cycles  # wrong
cores = mapper.hw("loihi", depth=8, weight_bits=4, borders=["east"]).to_rtlil()
mapper.hw("loihi", weigth_bits=4)  # wrong
folders = [row["folder"] for row in mapper.runs(kind="run", best="hops").rows]
mapper.runs(kind="map")  # wrong
lines = mapper.disassemble("out/core_0_0.npc").splitlines()
neurons = mapper.info("net.bin").facts["neurons"]
"""


@pytest.mark.heavy
def test_mypy_finds_mistakes(folder: Path) -> None:
    pytest.importorskip("mypy", reason="needs mypy")
    Path("script.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "script.py"]
    cached = ["--cache-dir", str(Path(__file__).parents[3] / ".mypy_cache")]
    found = subprocess.run([*words, *cached], capture_output=True, text=True, check=False)
    lines = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    wrong = {at for at, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith("# wrong")}
    assert lines == wrong, found.stdout + found.stderr


def test_arguments_are_the_options_of_the_command() -> None:
    parser = argparse.ArgumentParser()
    compile_options.add_arguments(parser)
    options = {action.dest for action in parser._actions} - {"help", "model", "chip"}
    modes = set(ANALYSES)  # they return a table instead of compiling
    of_onnx = set(spiking_compile.OF_ONNX) - {"model", "chip", *modes}
    assert OnnxArguments.__annotations__.keys() == of_onnx | {"progress"}
    of_spikes = {"output", "force", "calibrate", "per", "max_loss", "keep_going", "memory"}
    of_spikes |= {*spiking_compile.OF_SPIKES, "seed"}
    assert SpikingArguments.__annotations__.keys() == of_spikes | {"progress"}
    assert options - modes == of_onnx | of_spikes - {"seed"}
