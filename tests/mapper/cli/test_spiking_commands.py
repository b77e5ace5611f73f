"""NIR models from the command line: compile, simulate, verify, info, and their errors."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.reporting.spiking.page import render_spiking
from mapper.results.sealed_folder import write_sealed
from mapper.spiking.artifacts.folder import INTEGERS, MODEL
from mapper.spiking.artifacts.report_file import require_report
from tests.mapper.conftest import Run
from tests.mapper.spiking.graphs import CLASSES, save_graph, save_spikes

pytestmark = pytest.mark.jit
ROOT = Path(__file__).parents[3]
COMPILE = ("compile", "model.nir", "--chip", "2x2", "--tick-length", "0.001")
CALIBRATE = ("--calibrate", "spikes.npz", "--max-loss", "50", "--min-agreement", "0.5")


@pytest.fixture
def model(folder: Path) -> Path:
    save_graph(Path("model.nir"))
    save_spikes(Path("spikes.npz"))
    return folder


@pytest.fixture
def out(model: Path, run: Run) -> Path:
    assert run(*COMPILE, *CALIBRATE).code == 0
    return Path("out")


def refused(run: Run, code: int, said: str, *words: str) -> None:
    found = run(*words)
    assert found.code == code, found.err
    assert found.out == ""
    assert found.err.startswith(f"mapper {words[0]}: ")
    assert said in found.err
    assert len(found.err.splitlines()) == 1


def test_from_model_to_verified_simulation(model: Path, run: Run) -> None:
    report = run(*COMPILE, *CALIBRATE, "--json").json()
    assert report["kind"] == "spiking"
    assert [each["name"] for each in report["populations"]] == ["input", "hidden", "classes"]
    assert [each["latency"] for each in report["populations"]] == [-1, 0, 1]
    assert report["chosen"] == len(report["trials"]) - 1
    row = run("runs", "--network", "model.nir", "--json").json()["runs"][-1]
    assert row["figures"] == {"neurons": report["neurons"], "cores": len(report["cores"])}
    found = run("simulate", "out", "--input", "spikes.npz", "--check", "--cycles", "--json").json()
    assert found["differences"] == 0 < found["elements"]
    (output,) = found["outputs"]
    assert sum(output["samples"]) == sum(output["labels"]) == found["samples"] == 6
    labels = np.load("spikes.npz")["y"]
    assert output["accuracy"] == np.mean(np.array(output["classes"]) == labels)
    assert [each["name"] for each in found["model"]["populations"]] == ["hidden", "classes"]
    assert 0 < found["cycles"]["mean"] <= found["cycles"]["max"]
    assert json.loads(Path("out/report.json").read_text())["simulation"] == found
    verified = run("verify", "out", "--json").json()
    assert verified["valid"] and verified["neurons"] == 24
    assert run("info", "out", "--json").json()["cores"] == report["cores"]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_hardware_computes_the_same(model: Path, run: Run) -> None:
    Path("small.toml").write_text(
        "width = 2\nheight = 1\nneurons = 16\naxons_in = 32\nsynapses = 512\n"
    )
    assert run(*COMPILE, *CALIBRATE, "--chip", "small.toml").code == 0
    words = ("--input", "spikes.npz", "--limit", "2", "--hardware")
    found = run("simulate", "out", *words, "--cycles", "--json").json()
    hardware, ticks = found["hardware"], 2 * (found["ticks"] + 1)
    assert (hardware["samples"], hardware["ticks"]) == (2, ticks)
    assert hardware["spikes"] == found["spikes"] > 0
    assert hardware["heard"] == sum(found["outputs"][0]["spikes"]) > 0
    assert hardware["cycles"] == found["cycles"]["mean"] * ticks
    assert "all spikes equal" in run("simulate", "out", *words).out


def test_hardware_has_few_cores(model: Path, run: Run) -> None:
    assert run(*COMPILE, *CALIBRATE, "--chip", "3x2").code == 0
    words = ("--input", "spikes.npz", "--hardware")
    refused(run, 3, "3x2 cores; at most 4 run in Amaranth", "simulate", "out", *words)


def test_samples_of_real_numbers_are_encoded(model: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    inputs = np.load("spikes.npz")["x"].shape[-1]
    np.savez("pixels.npz", x=rng.random((4, inputs)))
    real = ("--calibrate", "pixels.npz", "--max-loss", "100", "--min-agreement", "0")
    found = []
    for method in ("rate", "latency", "current"):
        words = ("--encode", method, "--ticks", "30", "--force")
        assert run(*COMPILE, *real, *words).code == 0
        check = ("--input", "pixels.npz", "--check", "--json")
        found.append(run("simulate", "out", *check).json())
        assert (found[-1]["samples"], found[-1]["ticks"]) == (4, 30)
        assert found[-1]["differences"] == 0
    assert len({each["sha256"] for each in found}) == 3
    refused(run, 2, "--ticks: needs the encoding of samples", *COMPILE, "--ticks", "3")
    refused(run, 2, "--encode: needs the ticks of a sample", *COMPILE, "--encode", "rate")


def test_results_do_not_depend_on_the_mapping(model: Path, run: Run) -> None:
    Path("small.toml").write_text("width = 4\nheight = 4\nneurons = 8\n")
    hashes = []
    for chip in ("2x2", "small.toml"):
        report = run(*COMPILE, *CALIBRATE, "--chip", chip, "--force", "--json").json()
        found = run("simulate", "out", "--input", "spikes.npz", "--check", "--json").json()
        hashes.append((found["sha256"], found["spikes"], found["events"]))
        assert run("verify", "out").code == 0
    assert len(report["cores"]) == 3
    assert hashes[0] == hashes[1]


def test_a_silent_output_has_classes(model: Path, run: Run) -> None:
    nir = pytest.importorskip("nir", reason="needs nir")
    ones = np.ones(CLASSES)
    save_graph(Path("model.nir"), classes=nir.LI(tau=10e-3 * ones, r=ones, v_leak=0 * ones))
    assert run(*COMPILE, *CALIBRATE).code == 0
    found = run("simulate", "out", "--input", "spikes.npz", "--check", "--json").json()
    assert found["differences"] == 0
    assert sum(found["outputs"][0]["samples"]) == 6
    assert sum(found["outputs"][0]["spikes"]) == 0


def test_summary_and_notes(out: Path, run: Run) -> None:
    found = run("simulate", "out", "--input", "spikes.npz", "--check", "--limit", "2")
    assert "equal to the integer reference" in found.out
    for text in (found.out, run(*COMPILE, *CALIBRATE, "--force").out):
        lines = text.splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert "samples" in found.out and "of 40 ticks" in found.out
    text = run("simulate", "out", "--input", "spikes.npz", "--check", "--details").out
    assert "agreement with the model" in text and "classes of output" in text
    assert "synapse words" in run("info", "out").out
    assert "add samples with --calibrate" in run(*COMPILE, "--force").err


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (("--tick-length", "0.002"), "tick", 0.002),
        (("--reset", "subtract"), "reset", "subtract"),
        (("--weight-bits", "5,7", "--bin", "5"), "shape.weight_bits", 5),
        (("--bin", "20"), "limits.ticks", 20),
        (("--per", "population"), "scales.per", "population"),
        (("--min-agreement", "0"), "chosen", 0),
    ],
)
def test_options_act(out: Path, run: Run, words: tuple[str, ...], name: str, value: Any) -> None:
    plain = np.load(io.BytesIO((out / INTEGERS).read_bytes()))
    before = {each: plain[each] for each in plain.files}
    assert run(*COMPILE, *CALIBRATE, "--max-loss", "100", *words, "--force").code == 0
    manifest: Any = json.loads((out / "manifest.json").read_text())
    for key in name.split("."):
        manifest = manifest[key]
    assert manifest == value
    other = np.load(out / INTEGERS)
    same = all(np.array_equal(before[each], other[each]) for each in before)
    assert same == (name in ("chosen", "limits.ticks"))


def test_the_time_step_of_a_file(model: Path, run: Run) -> None:
    save_graph(Path("model.nir"), dt=1e-3)
    assert run("compile", "model.nir", "--chip", "2x2").code == 0
    assert json.loads(Path("out/manifest.json").read_text())["tick"] == 1e-3


def test_missed_limits(model: Path, run: Run) -> None:
    words = (*COMPILE, "--calibrate", "spikes.npz", "--weight-bits", "2", "--min-agreement", "1")
    refused(run, 1, "no weights agree with the model: the best weights have 2 bits", *words)
    assert not Path("out").exists()
    found = run(*words, "--keep-going")
    assert found.code == 4
    assert "out is kept with --keep-going" in found.err.splitlines()[-1]
    assert "misses limits" in found.out
    assert run("verify", "out").code == 0


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (1, "hidden: its tau_mem is in a unit of time, but the file gives no dt; give the length "
            "of a tick with --tick-length", ("compile", "model.nir", "--chip", "2x2")),
        (2, "--bits, --verify: apply to ONNX models only; omit them",
         (*COMPILE, "--bits", "8", "--verify", "spikes.npz")),
        (2, "--per tensor: applies to ONNX models", (*COMPILE, "--per", "tensor")),
        (2, "--reset: applies to spiking models (.nir) only; omit it",
         ("compile", "model.onnx", "--chip", "2x2", "--reset", "zero")),
        (2, "--per neuron: applies to spiking models",
         ("compile", "model.onnx", "--chip", "2x2", "--per", "neuron")),
        (2, "--weight-bits: several widths are tried on samples; add --calibrate",
         (*COMPILE, "--weight-bits", "8,10")),
        (2, "--weight-bits 12: chip loihi has weights of 9 bits",
         (*COMPILE, *CALIBRATE, "--chip", "loihi", "--weight-bits", "12")),
        (2, "--min-agreement: needs samples", (*COMPILE, "--min-agreement", "0.9")),
        (1, "other.nir: cannot read: No such file",
         ("compile", "other.nir", "--chip", "2x2")),
        (1, "bad.nir", ("compile", "bad.nir", "--chip", "2x2")),
        (1, "bad.nir: not a valid npz file", (*COMPILE, "--calibrate", "bad.nir")),
        (1, "wide.npz: input has shape (2, 3, 9)", (*COMPILE, "--calibrate", "wide.npz")),
        (3, "hidden: does not fit on the 1 usable cores of the chip, limited by neurons",
         (*COMPILE, "--chip", "tiny.toml")),
    ],
)  # fmt: skip
def test_bad_input(model: Path, run: Run, code: int, said: str, words: tuple[str, ...]) -> None:
    Path("bad.nir").write_bytes(b"no HDF5 file" * 9)
    np.savez("wide.npz", x=np.zeros((2, 3, 9), np.int64))
    Path("tiny.toml").write_text("width = 1\nheight = 1\nneurons = 2\n")
    refused(run, code, said, *words)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (2, "out: is a spiking model; add spikes with --input", ()),
        (2, "--dump: applies to other folders only", ("--input", "spikes.npz", "--dump", "x")),
        (2, "--load-scale: applies", ("--input", "spikes.npz", "--load-scale", "2")),
        (1, "wide.npz: input has shape (2, 3, 9)", ("--input", "wide.npz")),
        (2, "none.npz: has no samples", ("--input", "none.npz")),
    ],
)
def test_bad_simulations(out: Path, run: Run, code: int, said: str, words: tuple[str, ...]) -> None:
    np.savez("wide.npz", x=np.zeros((2, 3, 9), np.int64))
    np.savez("none.npz", x=np.zeros((0, 3, 12), np.int64))
    refused(run, code, said, "simulate", "out", *words)


def test_inputs_that_spike_more_often_than_compiled_for(out: Path, run: Run) -> None:
    np.savez("often.npz", x=np.full((1, 3, 12), 9))
    found = run("simulate", "out", "--input", "often.npz")
    assert "inputs spike up to 9 times per tick; sums are sized for 1 and may wrap" in found.err


def test_the_page_is_written_by_all_commands(out: Path, run: Run) -> None:
    page = out / "report.html"
    compiled = page.read_text()
    assert "Populations" in compiled and "Spikes of the first sample" not in compiled
    lists = json.loads((out / "report.json").read_text())["lists"]
    assert {(one["source"], one["target"]) for one in lists} == {
        ("input", "hidden"), ("hidden", "hidden"), ("hidden", "classes"),
    }  # fmt: skip
    assert "Synapse memory by connection" in compiled and "hidden to classes" in compiled
    assert sum(one["synapses"] for one in lists) == sum(one["words"] for one in lists)
    many = json.loads((out / "report.json").read_text())
    many["lists"] = [one | {"words": 7} for one in lists * 5]
    many["cores"] = many["cores"] * 18
    folded = render_spiking(many).decode()
    assert "3 others" in folded and "Other cores" in folded
    found = run("simulate", "out", "--input", "spikes.npz", "--check", "--cycles", "--json").json()
    simulated = page.read_text()
    assert f"{found['events']:,}" in simulated and "Spikes of the first sample" in simulated
    rows = json.loads((out / "report.json").read_text())["rasters"]
    assert [one["population"] for one in rows] == ["hidden", "classes"]
    for one in rows:  # every spike is drawn once
        spikes = set(map(tuple, one["chip"])) | set(map(tuple, one["model"]))
        assert max(neuron for _, neuron in spikes) < one["neurons"] == one["of"]
        (picture,) = re.findall(rf'aria-label="Spikes of {one["population"]}">.*?</svg>', simulated,
                                re.DOTALL)  # fmt: skip
        assert sum(each.count("M") for each in re.findall(r' d="([^"]*)"', picture)) == len(spikes)
    page.unlink()
    assert run("report", "out").code == 0
    assert page.read_text() == simulated
    refused(run, 2, "is a compiled model; give one folder", "report", "out", "other")


def spikes_of_tables(path: Path, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the spikes of each neuron in all samples, from the tables as docs/core.md describes.

    The second array counts the packets that the host receives for each neuron.

    samples : spikes of the inputs, shape (samples, ticks, inputs), with ticks to spare at the end
    """
    tables = json.loads(path.read_text())
    cores, bits = tables["cores"], tables["shape"]["decay_bits"]
    spikes, heard = np.zeros((2, sum(len(core["neurons"]) for core in cores)), np.int64)
    host = tables["host"]

    def decayed(value: int, factor: int) -> int:
        return (value * factor >> bits) if value >= 0 else -(-value * factor >> bits)

    for sample in samples:
        states = [[list(state) for state in core["states"]] for core in cores]
        due: dict[tuple[int, int, int], int] = {}  # sums by tick, core and neuron

        def send(packets: list[list[int]], tick: int, due: dict[tuple[int, int, int], int]) -> None:
            for x, y, axon in packets:
                if (x, y) == (host["x"], host["y"]):
                    heard[host["axons"][axon]] += 1
                    continue
                to = y * tables["width"] + x
                first, count, base = cores[to]["lists"][axon]
                for target, weight, delay in cores[to]["synapses"][first : first + count]:
                    key = tick + delay, to, (base + target) % tables["shape"]["neurons"]
                    due[key] = due.get(key, 0) + weight

        for tick, row in enumerate(sample):
            for one in np.repeat(np.arange(row.size), row):
                send(tables["input_packets"][one], tick, due)
            for c, core in enumerate(cores):
                for i, neuron in enumerate(core["neurons"]):
                    profile, threshold, reset, u_bias, v_bias = core["parameters"][i]
                    u_kept, v_kept, shift, wait, subtract, silent = core["profiles"][profile]
                    u, v, waits = states[c][i]
                    u = decayed(u, u_kept) + (due.get((tick, c, i), 0) << shift) + u_bias
                    v = decayed(v, v_kept) + u + v_bias
                    fires = v >= threshold and not silent and not waits
                    if fires or waits:
                        v = v - threshold if fires and subtract else reset
                    states[c][i] = [u, v, wait if fires else max(0, waits - 1)]
                    if fires:
                        spikes[neuron] += 1
                        sent = slice(*core["route_indptr"][i : i + 2])
                        send(core["routes"][sent], tick + 1, due)
    return spikes, heard


def test_exported_tables_spike_as_the_simulation(out: Path, run: Run) -> None:
    exported = run("export", "out", "a.tables.json", "--json").json()
    assert (exported["format"], exported["neurons"], exported["cores"]) == ("tables", 24, 4)
    x = np.load("spikes.npz")["x"][:2].astype(np.int64)
    last = np.zeros((2, 1, x.shape[2]), np.int64)  # the second layer is a tick late
    spikes, heard = spikes_of_tables(Path("a.tables.json"), np.concatenate([x, last], axis=1))
    words = ("simulate", "out", "--input", "spikes.npz", "--limit", "2")
    found = run(*words, "--cycles", "--json").json()
    (output,) = found["outputs"]
    (entry,) = json.loads(Path("out/manifest.json").read_text())["outputs"]
    assert entry["axon"] == 0
    assert heard[-CLASSES:].tolist() == output["spikes"]
    assert 0 < heard.sum() == sum(output["spikes"])
    ticks = found["samples"] * (found["ticks"] + 1)
    assert found["cycles"]["host_packets_per_tick"] == heard.sum() / ticks
    assert not found["saturated"]["hidden"]
    assert spikes.sum() == found["spikes"] > 0
    schema = json.loads((ROOT / "docs/schemas/tables.schema.json").read_text())
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(Path("a.tables.json").read_text()), schema)
    for words, said in (
        (("a.csv",), "compiled spiking models are exported as tables"),
        (("b.tables.json", "--threshold", "3"), "--threshold is for output folders of a run"),
    ):
        refused(run, 2, said, "export", "out", *words)


def test_energy_of_a_chip(model: Path, run: Run) -> None:
    """Each part is its count times its energy; the network needs the packets of --cycles."""
    chip = "width = 2\nheight = 1\nneurons = 16\nenergy_router = 2\nenergy_link = 3\n"
    chip += 'energy_unit = "pJ"\n[energy]\nevent = 5\nneuron = 7\npacket_out = 11\n'
    Path("known.toml").write_text(chip)
    assert run(*COMPILE, *CALIBRATE, "--chip", "known.toml").code == 0
    words = ("simulate", "out", "--input", "spikes.npz")
    found = run(*words, "--json").json()
    ticks = found["samples"] * (found["ticks"] + 1)
    assert found["energy"] == {
        "events": 5 * found["events"], "neurons": 7 * 24 * ticks,
        "sum": 5 * found["events"] + 7 * 24 * ticks, "lacks": "network", "unit": "pJ",
    }  # fmt: skip
    timed = run(*words, "--cycles", "--json").json()["energy"]
    assert timed["lacks"] == "" and timed["network"] > 0
    assert timed["sum"] == timed["network"] + found["energy"]["sum"]
    assert "pJ per sample" in run(*words).out
    assert "Energy, pJ per sample" in Path("out/report.html").read_text()


def test_names_in_the_page_are_text(model: Path, run: Run) -> None:
    Path("a<b>&.nir").write_bytes(Path("model.nir").read_bytes())
    assert run("compile", "a<b>&.nir", *COMPILE[2:], *CALIBRATE, "-o", "x").code == 0
    page = Path("x/report.html").read_text()
    assert "a&lt;b&gt;&amp;.nir on 2x2" in page and "<b>" not in page


@pytest.mark.parametrize("name", ["manifest.json", MODEL, INTEGERS, "report.json"])
def test_damaged_files(out: Path, run: Run, name: str) -> None:
    path = out / name
    whole = path.read_bytes()
    commands: list[tuple[str, ...]] = [("simulate", "out", "--input", "spikes.npz")]
    commands += [("verify", "out"), ("info", "out")] * (name != "report.json")
    for data in (whole[: len(whole) // 2], b"", whole[:99] + b"\xff" + whole[100:], b"[]", None):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
        for words in commands:
            refused(run, 1, str(path), *words)


def changes_of(value: Any) -> list[Any]:
    """Return values with one entry removed or replaced, at any depth; of lists, the first one."""
    found: list[Any] = []
    for key in value if isinstance(value, dict) else range(min(1, len(value))):
        rest = dict(value) if isinstance(value, dict) else list(value)
        del rest[key]
        found.append(rest)
        inner = value[key]
        more = changes_of(inner) if isinstance(inner, dict | list) else []
        for other in (*more, None, -1, "x", 1e309, []):
            if isinstance(value, dict):
                found.append(value | {key: other})
            else:
                found.append([other, *value[1:]])
    return found


@pytest.mark.heavy
def test_any_change_of_a_report_is_refused_or_shown(out: Path, run: Run) -> None:
    """Never a traceback: its fields are checked before the page is made."""
    words = ("simulate", "out", "--input", "spikes.npz", "--check", "--cycles", "-q")
    assert run(*words).code == 0
    report = json.loads((out / "report.json").read_text())
    report["rasters"] = [one | {"chip": one["chip"][:2]} for one in report["rasters"][:1]]
    refusals = 0
    for changed in changes_of(report):
        try:
            require_report(changed)
        except ValueError:
            refusals += 1
            continue
        assert render_spiking(changed)
    assert refusals > 300


def test_a_damaged_report_is_refused_before_the_simulation(out: Path, run: Run) -> None:
    path = out / "report.json"
    report = json.loads(path.read_text())
    del report["trials"]
    path.write_text(json.dumps(report))
    for words in (("report", "out"), ("simulate", "out", "--input", "spikes.npz")):
        refused(run, 1, "out/report.json: lacks trials; compile the model again", *words)


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def resealed(out: Path, change: Change) -> None:
    """Change a folder's manifest and arrays, with the right hashes."""
    manifest = json.loads((out / "manifest.json").read_text())
    with np.load(out / INTEGERS) as archive:
        arrays = dict(archive)
    change(manifest, arrays)
    for key in ("files", "sha256"):
        manifest.pop(key, None)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    files = {MODEL: (out / MODEL).read_bytes(), INTEGERS: buffer.getvalue()}
    write_sealed(out, files, manifest)


def set_array(name: str, at: int, value: int) -> Change:
    def change(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name].astype(np.int64)
        arrays[name][at] = value

    return change


def set_entry(name: str, value: Any) -> Change:
    return lambda manifest, arrays: manifest.update({name: value})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_array("core", 3, 4), "out: its files are inconsistent"),
        (set_array("core", 3, -1), "out: its files are inconsistent"),
        (set_array("source", 0, 999), "out: network: "),
        (set_array("weight", 0, 999), "out: network: weight 999 of the synapse from 0 to 0"),
        (set_array("threshold", 0, 1 << 40), "out: network: threshold"),
        (lambda manifest, arrays: arrays.pop("shift"), "out: its files are inconsistent"),
        (lambda manifest, arrays: arrays.update(scale=arrays["scale"] * np.nan),
         "out: its files are inconsistent"),
        (lambda manifest, arrays: arrays.update(reset=arrays["reset"][1:]),
         "out: its files are inconsistent"),
        (set_entry("neurons", 23), "out: its files are inconsistent"),
        (set_entry("chosen", 9), "out: its files are inconsistent"),
        (set_entry("outputs", []), "out: its files are inconsistent"),
        (set_entry("reset", "none"), "manifest.json: "),
        (set_entry("schema", 2), "manifest.json: has version 2, this mapper reads 1"),
        (set_entry("kind", "other"), "manifest.json: "),
        (lambda manifest, arrays: manifest["shape"].update(neurons=100),
         "out: core: neurons is 100"),
        (lambda manifest, arrays: manifest["shape"].update(synapses=1 << 20),
         "manifest.json: its core is not the core of chip 2x2"),
        (lambda manifest, arrays: manifest["chip"].update(width=0), "chip"),
        (lambda manifest, arrays: manifest["populations"][1].update(latency=5),
         "out: its files are inconsistent"),
        (set_array("weight", 0, 5), "manifest.json: the tables of core 0 differ"),
        (lambda manifest, arrays: manifest["cores"][0].update(axons=3),
         "manifest.json: the tables of core 0 differ"),
    ],
)  # fmt: skip
def test_inconsistent_folders(out: Path, run: Run, change: Change, said: str) -> None:
    resealed(out, change)
    refused(run, 1, said, "verify", "out")


def test_help_depends_on_model_and_folder(out: Path, run: Run) -> None:
    for words in (("compile", "model.nir"), ("simulate", "out")):
        for option in ("--help", "--help-all"):
            text = run(*words, option).out
            assert max(map(len, text.splitlines())) <= 80
            assert "--bits" not in text and "--load-scale" not in text and "--dump" not in text
            assert "--tick-length" in text or "--check" in text
        assert len(run(*words, "--help").out.splitlines()) <= 40
