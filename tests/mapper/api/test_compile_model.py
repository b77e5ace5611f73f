"""`mapper.compile_model`: the folder of the command, its results in memory, and refused input."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from mapper.spiking.artifacts.folder import read_folder
from tests.mapper.conftest import Run
from tests.mapper.spiking.graphs import CLASSES, HIDDEN, INPUTS, save_graph, save_spikes

pytestmark = pytest.mark.jit
LOOSE: dict[str, Any] = {"tick_length": 1e-3, "max_loss": 50, "min_agreement": 0.5}


@pytest.fixture
def model(folder: Path) -> Path:
    save_graph(Path("model.nir"))
    save_spikes(Path("spikes.npz"))
    return Path("model.nir")


def files_of(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_the_folder_is_the_folder_of_the_command(model: Path, run: Run) -> None:
    words = ("--calibrate", "spikes.npz", "--tick-length", "0.001", "--max-loss", "50",
             "--min-agreement", "0.5", "--reset", "subtract", "--weight-bits", "5,7",
             "--per", "population", "--bin", "20")  # fmt: skip
    assert run("compile", model, "--chip", "2x2", *words).code == 0
    found = mapper.compile_model(
        "model.nir", "2x2", calibrate="spikes.npz", output="called", **LOOSE, reset="subtract",
        weight_bits=[7, 5], per="population", bin=20,
    )  # fmt: skip
    assert found.folder == Path("called")
    one, other = files_of(Path("out")), files_of(found.folder)
    reports = [json.loads(each.pop("report.json")) for each in (one, other)]
    assert [each.pop("command")[0] for each in reports] == ["mapper", "mapper.compile_model"]
    assert reports[0] == reports[1]
    assert one.pop("report.html") != other.pop("report.html")  # they show the command
    assert one == other
    assert run("verify", "called").code == 0


def test_a_graph_in_memory_is_compiled_as_its_file(model: Path) -> None:
    nir = pytest.importorskip("nir", reason="needs nir")
    spikes = np.load("spikes.npz")
    arrays = {"x": spikes["x"], "y": spikes["y"]}
    of_file = mapper.compile_model(model, "2x2", calibrate="spikes.npz", **LOOSE)
    of_graph = mapper.compile_model(nir.read("model.nir"), "2x2", calibrate=arrays, **LOOSE)
    unlabelled = mapper.compile_model(model, mapper.Chip("2x2", 2, 2), calibrate=arrays["x"],
                                      **LOOSE)  # fmt: skip
    for found in (of_graph, unlabelled):
        written = read_folder(found.folder)
        for name in ("weight", "threshold", "current_decay"):
            wanted = getattr(read_folder(of_file.folder).integers.network, name)
            assert np.array_equal(getattr(written.integers.network, name), wanted)
    assert of_graph.output_agreement == of_file.output_agreement
    assert unlabelled.output_agreement["output"].found is None
    assert of_graph.agreement.keys() == {"hidden", "classes"}


def test_tensors_and_the_time_step_of_a_graph(model: Path) -> None:
    nir = pytest.importorskip("nir", reason="needs nir")

    class Tensor:
        def __init__(self, values: Any) -> None:
            self._values = values

        def detach(self) -> Tensor:
            return self

        def cpu(self) -> Any:
            return self._values

    save_graph(Path("model.nir"), dt=1e-3)
    graph = nir.read("model.nir")
    graph.nodes["fc1"].weight = Tensor(graph.nodes["fc1"].weight)
    found = mapper.compile_model(graph, "2x2")
    assert found.manifest.tick == 1e-3
    assert read_folder(found.folder).model.tick == 1e-3
    assert nir.read(found.folder / "model.nir").nodes["fc1"].weight.shape == (HIDDEN, INPUTS)


def test_simulation_equals_the_command(model: Path, run: Run) -> None:
    found = mapper.compile_model(model, "2x2", calibrate="spikes.npz", output="out", **LOOSE)
    assert found.core.shape == (HIDDEN + CLASSES,)
    assert sum(each.neurons for each in found.cores) == HIDDEN + CLASSES
    assert found.weight_bits == found.manifest.trials[-1].weight_bits
    words = ("simulate", "out", "--input", "spikes.npz", "--check", "--cycles", "--json")
    wanted = run(*words).json()
    spikes = np.load("spikes.npz")
    (output,) = wanted["outputs"]
    for given in ("spikes.npz", {"x": spikes["x"], "y": spikes["y"]}):
        result = found.simulate(given, check=True, threads=2, cycles=True)
        assert json.loads(json.dumps(result.figures)) == wanted
        assert result.cycles is not None and result.cycles.cycles.max() == wanted["cycles"]["max"]
        (name,) = result.outputs
        assert name == output["name"]
        assert result.outputs[name].counts.shape == (6, CLASSES)
        assert result.outputs[name].counts.sum(axis=0).tolist() == output["spikes"]
        assert result.outputs[name].classes.tolist() == output["classes"]
        assert result.outputs[name].accuracy == output["accuracy"]
        assert result.events == wanted["events"]
        assert result.check is not None
        assert (result.check.spikes, result.check.differences) == (wanted["elements"], 0)
        assert sum(each.tick.size for each in result.spikes.values()) == wanted["elements"]
    few = found.simulate(spikes["x"], limit=2)
    assert few.outputs["output"].counts.tolist() == result.outputs["output"].counts[:2].tolist()
    assert (few.check, few.outputs["output"].accuracy, few.notes) == (None, None, ())
    assert few.cycles is None and "cycles" not in few.figures
    often = found.simulate(np.full((1, 3, INPUTS), 9))
    assert "compile with such samples in calibrate" in often.notes[0]


def test_a_temporary_folder_lasts_as_long_as_the_result(model: Path) -> None:
    found = mapper.compile_model(model, "2x2", tick_length=1e-3)
    assert found.agreement == {} == found.output_agreement
    assert found.notes[0].endswith("add samples with calibrate to measure them and to choose the "
                                   "weight bits")  # fmt: skip
    folder, files = found.folder, files_of(found.folder)
    assert files_of(found.save("kept")) == files
    with pytest.raises(mapper.MapperError, match="exists; choose another folder with output"):
        found.save("kept")
    assert files_of(found.save("kept", force=True)) == files
    del found
    gc.collect()
    assert not folder.exists()


def test_progress_and_memory(model: Path) -> None:
    seen: list[tuple[str, float]] = []
    found = mapper.compile_model(
        model, "2x2", calibrate="spikes.npz", **LOOSE, memory="300MiB",
        progress=lambda stage, fraction: seen.append((stage, fraction)),
    )  # fmt: skip
    steps = list(dict.fromkeys(stage for stage, _ in seen if stage != "compile kernels"))
    assert steps == ["read", "calibrate", "choose weight bits", "map"]
    for step in steps:
        fractions = [fraction for stage, fraction in seen if stage == step]
        assert fractions == sorted(fractions)
        assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    found.simulate("spikes.npz", progress=lambda stage, fraction: seen.append((stage, fraction)))
    assert seen[-1][0] == "simulating"
    with pytest.raises(mapper.UsageError, match="progress is 3; give a function"):
        found.simulate("spikes.npz", progress=3)  # type: ignore[arg-type]


def test_an_error_of_progress_ends_a_compilation(model: Path) -> None:
    def stop(stage: str, fraction: float) -> None:
        if stage == "map":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mapper.compile_model(model, "2x2", tick_length=1e-3, output="out", progress=stop)
    assert not Path("out").exists()


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_hardware_equals_the_command(model: Path, run: Run) -> None:
    """In Amaranth."""
    found = mapper.compile_model(model, "1x1", tick_length=1e-3, output="out")
    spikes = np.load("spikes.npz")["x"][:1, :4]
    np.savez("few.npz", x=spikes)
    said = run("simulate", "out", "--input", "few.npz", "--hardware", "--json").json()
    result = mapper.simulate_model(found, spikes, hardware=True)
    assert result.hardware == said["hardware"]
    assert json.loads(json.dumps(result.figures)) == said


def test_encoded_samples(model: Path) -> None:
    pixels = np.random.default_rng(0).random((3, INPUTS))
    wide: dict[str, Any] = {"encode": "rate", "ticks": 30, "max_loss": 100, "min_agreement": 0}
    one, other = (
        mapper.compile_model(model, "2x2", tick_length=1e-3, calibrate=pixels, seed=seed, **wide)
        for seed in (0, 1)
    )
    assert one.manifest.encoding is not None and one.manifest.encoding.seed == 0
    trains = [each.simulate(pixels).spikes["hidden"] for each in (one, other)]
    assert trains[0].tick.size and trains[0].tick.tolist() != trains[1].tick.tolist()


@pytest.mark.parametrize(
    ("kind", "said", "arguments"),
    [
        (mapper.UsageError, "model is 3; give the path of an .onnx or .nir", {"model": 3}),
        (mapper.UsageError, "tick_length: applies to spiking models", {"model": "a.onnx"}),
        (mapper.UsageError, "bits: applies to ONNX models only; omit it", {"bits": 8}),
        (mapper.UsageError, "'tick_len' for spiking .*; did you mean tick_length", {"tick_len": 1}),
        (mapper.MapperError, "none.nir: cannot read", {"model": "none.nir"}),
        (mapper.UsageError, "chip is 3; give", {"chip": 3}),
        (mapper.MapperError, "chip 'lohi' is unknown", {"chip": "lohi"}),
        (mapper.MapperError, "give the length of a tick with tick_length", {"tick_length": None}),
        (mapper.MapperError, "tick length -1.0: it is not a positive", {"tick_length": -1}),
        (mapper.UsageError, "tick_length is 'a'; give a number", {"tick_length": "a"}),
        (mapper.UsageError, "bin 3 is not known; give 1, 5, 20", {"bin": 3}),
        (mapper.UsageError, "reset 'half' is not known; give zero", {"reset": "half"}),
        (mapper.UsageError, "weight_bits 1.5: give whole", {"weight_bits": 1.5}),
        (mapper.UsageError, "weight_bits: several widths", {"weight_bits": (8, 10)}),
        (mapper.UsageError, "weight_bits 12: chip loihi", {"weight_bits": 12, "chip": "loihi"}),
        (mapper.UsageError, "max_loss is nan; give a number", {"max_loss": float("nan")}),
        (mapper.UsageError, "min_agreement is 2; give", {"min_agreement": 2}),
        (mapper.UsageError, "min_agreement: needs samples; add cal", {"min_agreement": 0.5}),
        (mapper.UsageError, "encode: needs the ticks", {"encode": "rate"}),
        (mapper.UsageError, "seed is -1; give", {"seed": -1}),
        (mapper.UsageError, "memory: 'much' is not a size", {"memory": "much"}),
        (mapper.UsageError, "progress is 3; give a function", {"progress": 3}),
        (mapper.UsageError, "calibrate is 3; give the path", {"calibrate": 3}),
        (mapper.MapperError, "none.npz: cannot read", {"calibrate": "none.npz"}),
        (mapper.MapperError, "samples: input has shape", {"calibrate": np.zeros((2, 3, 9), int)}),
        (mapper.MapperError, "samples: holds y;", {"calibrate": {"y": [1]}}),
        (
            mapper.MapperError, "change max_loss or min_agreement, or keep the result with keep_",
            {"calibrate": "spikes.npz", "weight_bits": 2, "min_agreement": 1},
        ),
        (mapper.DoesNotFitError, "hidden: does not fit on the 1 usable cores",
         {"chip": mapper.Chip("tiny", 1, 1, neurons=2)}),
    ],
)  # fmt: skip
def test_refused(model: Path, kind: type[Exception], said: str, arguments: dict[str, Any]) -> None:
    given = {"model": model, "chip": "2x2", "tick_length": 1e-3} | arguments
    with pytest.raises(kind, match=said) as raised:
        mapper.compile_model(**given, output="out")
    assert type(raised.value) is kind or kind is mapper.MapperError
    assert len(str(raised.value).splitlines()) == 1
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("threads is 0; give", {"threads": 0}),
        ("limit is True; give", {"limit": True}),
        (
            "samples: has no samples, or",
            {"samples": np.zeros((0, 3, INPUTS), int)},
        ),
        ("samples: input has shape", {"samples": np.zeros((2, 3, 9), int)}),
        ("samples is None; give the path", {"samples": None}),
    ],
)
def test_refused_samples(model: Path, said: str, arguments: dict[str, Any]) -> None:
    found = mapper.compile_model(model, "2x2", tick_length=1e-3)
    with pytest.raises(mapper.MapperError, match=said):
        found.simulate(**({"samples": "spikes.npz"} | arguments))
    del found
    gc.collect()  # since Python 3.12 the error holds the result in a cycle
