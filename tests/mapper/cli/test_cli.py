"""Every command: its JSON object, its tables, its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mapper.cli.main import COMMANDS
from tests.mapper.conftest import Run
from tests.mapper.helpers import write_network

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

CHIP = ("--chip", "4x4", "--neurons-per-core", "4")
QAPLIB = """4
0 1 1 2
1 0 2 1
1 2 0 1
2 1 1 0

0 5 2 4
5 0 3 0
2 3 0 0
4 0 0 0
"""


def test_run_json(network: Path, run: Run) -> None:
    found = run("run", network, *CHIP, "-o", "out", "--json", "--seed", "3", "--threads", "1")
    assert found.code == 0
    printed = found.json()
    report = json.loads(Path("out/report.json").read_text())
    assert printed == {**report, "output": "out"}
    assert report["settings"]["seed"] == 3
    assert sorted(p.name for p in Path("out").iterdir()) == [
        "mapping.npz",
        "report.html",
        "report.json",
        "run.log",
        "traffic.npz",
    ]
    assert "coarsen" in Path("out/run.log").read_text()
    with np.load("out/mapping.npz") as mapping:
        assert (mapping["core"].dtype, mapping["core"].shape) == (np.int32, (50,))
        assert (int(mapping["width"]), int(mapping["height"])) == (4, 4)


@pytest.mark.heavy
def test_run_tables_and_default_folder(network: Path, run: Run) -> None:
    found = run("run", network, *CHIP)
    assert found.code == 0
    assert "net.bin on 4x4" in found.out
    assert found.err == ""
    assert Path("net-mapping/report.json").is_file()
    assert "coarsen" in run("run", network, *CHIP, "-o", "two", "-v").err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_the_plan_is_shown_on_a_terminal_or_with_verbose(
    network: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    title = "Memory plan (budget 300.0 MiB)"
    memory = ("--memory", "300MiB", "--json")
    assert run("run", network, *CHIP, *memory, "-o", "plain").err == ""
    assert " plan: partition " in Path("plain/run.log").read_text()
    assert "planned for coarsen: " in Path("plain/run.log").read_text()
    assert title in run("run", network, *CHIP, *memory, "-o", "verbose", "-v").err
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    shown = run("run", network, *CHIP, *memory, "-o", "terminal")
    assert title in shown.err
    assert shown.out.count("\n") == 1  # exactly one JSON object
    quiet = run("run", network, *CHIP, *memory[:2], "-o", "quiet", "-q")
    assert (quiet.out, quiet.err) == ("", "")


def test_method_options_reach_the_settings(network: Path, run: Run) -> None:
    options = {"matching-repeats": 2, "bisection-repeats": 3, "refinement-passes": 1,
               "force-iterations": 5, "size-divisor": 4, "stop-shrink": 0.3,
               "force-share": 0.5}  # fmt: skip
    words = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    report = run("run", network, *CHIP, "-o", "out", "--json", *words).json()
    for name, value in options.items():
        assert report["settings"][name.replace("-", "_")] == value


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_cores_and_fill_are_options_of_run(network: Path, run: Run) -> None:
    def used(*words: str) -> tuple[int, float]:
        words = ("--chip", "4x4", "--neurons-per-core", "8", *words)
        found = run("run", network, *words, "--force", "-o", "out", "--json").json()["metrics"]
        return found["cores_used"], found["core_fill_max"]

    few, full = used()
    assert few < used("--cores", "12")[0] <= 12
    assert used("--fill", "0.5")[1] <= 0.5 < full
    helped = run("run", "--help-all").out
    assert "--cores N" in helped
    assert "--fill F" in helped
    assert used("--spread")[0] == 16
    assert "--spread " in helped
    assert "--min-fill F" in helped


def test_an_existing_folder(network: Path, run: Run, folder: Path) -> None:
    out = folder / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    found = run("run", network, *CHIP, "-o", out)
    assert (found.code, found.out, found.err.count("\n")) == (1, "", 1)
    assert "--force" in found.err
    assert [p.read_text() for p in out.iterdir()] == ["mine"]
    refused = run("run", network, *CHIP, "-o", out, "--force")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "not the output of a run" in refused.err
    assert [p.read_text() for p in out.iterdir()] == ["mine"]
    (out / "precious").rename(out / "report.json")
    assert run("run", network, *CHIP, "-o", out, "--force").code == 0
    assert (out / "report.json").read_text() != "mine"
    inside = run("run", out / "mapping.npz", *CHIP, "-o", out, "--force")
    assert inside.code == 1
    assert "which is replaced" in inside.err
    assert (out / "report.json").is_file()
    assert sorted(p.name for p in folder.iterdir()) == ["net.bin", "out"]


def test_info(network: Path, run: Run) -> None:
    found = run("info", network, "--json").json()
    assert (found["neurons"], found["synapses_read"], found["blocks"]) == (50, 200, 1)
    assert found["stored_bytes"] < network.stat().st_size
    table = run("info", network)
    assert (table.code, table.err) == (0, "")
    assert "neurons" in table.out


def test_info_of_a_folder_with_its_scratch(network: Path, run: Run) -> None:
    classic = ("--preset", "classic", "--set", "size-divisor=1")
    kept = ("run", network, *CHIP, *classic, "-o", "out", "--keep-scratch", "--json")
    report = run(*kept).json()
    found = run("info", "out", "--json").json()
    assert found["metrics"] == report["metrics"]
    levels = {k["name"]: k["vertices"] for k in found["scratch"] if k["name"] != "groups"}
    assert list(levels.values()) == [level["vertices"] for level in report["levels"][1:]]
    groups = next(k for k in found["scratch"] if k["name"] == "groups")
    assert groups["vertices"] == report["metrics"]["cores_used"]
    assert "scratch" in run("info", "out").out
    run("run", network, *CHIP, "-o", "bare")
    assert run("info", "bare", "--json").json()["scratch"] == []


def test_check(network: Path, run: Run) -> None:
    fits = run("check", network, *CHIP, "--json")
    assert (fits.code, fits.err) == (0, "")
    found = fits.json()
    assert found["fits"]
    assert found["demands"][0]["needed"] == 50
    assert found["run"]["memory"] > 0
    small = run("check", network, "--chip", "3x4", "--neurons-per-core", "4", "--json")
    assert small.code == 3
    assert [d["lacking"] for d in small.json()["demands"]] == [2]
    assert small.err == "does not fit: needs 50 neurons; the chip holds 48 (2 short)\n"
    both = run("check", network, *CHIP, "--synapses-per-core", "5", "--axons-per-core", "2")
    assert both.code == 3
    assert [line.split()[3] for line in both.err.splitlines()] == ["neuron", "neuron"]


def test_score_equals_the_run(network: Path, run: Run) -> None:
    metrics = run("run", network, *CHIP, "-o", "out", "--json").json()["metrics"]
    with np.load("out/mapping.npz") as mapping:
        core = mapping["core"]
    Path("plain.csv").write_text("".join(f"{c}\n" for c in core))
    pairs = [f"{v},{core[v]}\n" for v in np.random.default_rng(0).permutation(50)]
    Path("pairs.csv").write_text("neuron,core\n" + "".join(pairs))
    for mapping_file in ("out/mapping.npz", "plain.csv", "pairs.csv"):
        found = run("score", network, mapping_file, *CHIP, "--json")
        assert (found.code, found.err) == (0, "")
        assert found.json()["metrics"] == metrics
        assert found.json()["valid"]


@pytest.mark.parametrize("text", ["3", "3\n", "0,3\n", "neuron,core\n0,3\n", "core\n3"])
def test_score_of_a_single_neuron(text: str, run: Run, folder: Path) -> None:
    path = write_network(folder / "one.bin", [], 1)
    Path("one.csv").write_text(text)
    assert run("score", path, "one.csv", *CHIP, "--json").json()["metrics"]["cores_used"] == 1


def test_score_reports_violations(network: Path, run: Run) -> None:
    Path("all.csv").write_text("0\n" * 50)
    found = run("score", network, "all.csv", *CHIP, "--json")
    assert found.code == 1
    assert not found.json()["valid"]
    assert found.json()["violations"] == ["core 0 uses 50 neurons (limit 4)"]
    assert found.err == "limit exceeded: core 0 uses 50 neurons (limit 4)\n"
    Path("faulty.toml").write_text("width = 4\nheight = 4\nunavailable = [0]\n")
    found = run("score", network, "all.csv", "--chip", "faulty.toml", "--json")
    assert found.code == 1
    assert found.json()["violations"] == ["core 0 is unavailable but holds 50 neurons"]


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_place(suffix: str, run: Run) -> None:
    Path("tiny.dat").write_text(QAPLIB)
    found = run("place", "tiny.dat", "--chip", "2x2", "-o", f"out.{suffix}", "--json")
    assert found.code == 0
    result = found.json()
    assert sorted(result["core"]) == [0, 1, 2, 3]
    scored = run("score", "tiny.dat", f"out.{suffix}", "--chip", "2x2", "--json").json()
    assert scored["metrics"] == result["metrics"]
    assert "hops" in run("place", "tiny.dat", "--chip", "2x2", "--set", "force-iterations=0").out


def test_place_of_every_kind_of_file(run: Run, folder: Path) -> None:
    from scipy import sparse

    ring = sparse.coo_array((np.ones(6), (np.arange(6), (np.arange(6) + 1) % 6)), shape=(6, 6))
    sparse.save_npz("ring.npz", ring.tocsr())
    Path("ring.graph").write_text("6 6\n2 6\n1 3\n2 4\n3 5\n4 6\n5 1\n")
    write_network(folder / "ring.bin", [(i, (i + 1) % 6) for i in range(6)], 6)
    for name in ("ring.npz", "ring.graph", "ring.bin"):
        found = run("place", name, "--chip", "3x2", "--json").json()
        assert sorted(found["core"]) == list(range(6))
        assert 6 <= found["metrics"]["hops_total"] <= 8


def test_place_nug12(data_dir: Path, run: Run) -> None:
    result = run("place", data_dir / "placement/nug12.dat", "--chip", "4x3", "--json").json()
    assert sorted(result["core"]) == list(range(12))
    assert 578 <= 2 * result["metrics"]["hops_total"] < 720  # 578 is the optimum


def test_import_export_generate(run: Run) -> None:
    Path("a.txt").write_text("3 5\n3 5\n5 9\n7 7\n")
    found = run("import", "a.txt", "a.bin", "--json")
    assert found.err == (
        "note: columns used: 1 (source), 2 (target); every row weighs 1\n"
        "note: 1 self-loops dropped; 1 duplicate synapses merged (weights summed)\n"
    )
    assert (found.json()["neurons"], found.json()["synapses"]) == (4, 2)
    assert run("import", "a.txt", "b.bin", "-q").err == ""
    assert Path("a.bin").read_bytes() == Path("b.bin").read_bytes()
    assert run("export", "a.bin", "a.graph", "--json").json()["synapses"] == 2
    assert Path("a.graph").read_text().startswith("4 2")
    options = ("--side", "6", "--fanout", "4", "--sigma", "1", "--seed", "2", "--json")
    made = run("generate", "cortex", "c.bin", *options)
    assert (made.code, made.json()["neurons"]) == (0, 36)
    assert made.json()["peak_rss_bytes"] > 1 << 20
    assert "peak memory" in run("generate", "cortex", "c.bin", *options[:-1]).out
    assert run("generate", "cortex", "c.bin", *options[:-1], "-q").out == ""
    assert run("verify", "c.bin", "--json").json()["neurons"] == 36
    made = run("generate", "cortex", "c.shards", *options, "--files", "9")
    assert made.json()["path"] == "c.shards"
    assert len(list(Path("c.shards").iterdir())) == 2, "one block"
    assert run("import", "c.shards", "d.bin").code == 0
    assert Path("d.bin").read_bytes() == Path("c.bin").read_bytes()


def test_export_reports_omissions(run: Run) -> None:
    from storage.formats.objects import NeuronProperties, write_edges

    write_edges(
        Path("a.bin"),
        [0, 1],
        [1, 2],
        [0.5, 2],
        4,
        neurons=NeuronProperties(sizes=[1, 2, 3, 1], names=["a", *"bcd"]),
    )
    found = run("export", "a.bin", "a.csv", "--json")
    assert found.err.splitlines() == [
        "note: csv has no sizes: dropped for 2 neurons",
        "note: csv has no neurons without synapses: 1 dropped",
    ]
    told = found.json()
    assert (told["format"], told["left_out"]) == ("csv", {"sizes": 2, "isolated": 1})
    found = run("export", "a.bin", "a.hgr")
    assert "note: hmetis has no fractions: weights of 2 hyperedges" in found.err
    assert "left_out" not in found.out
    assert run("export", "a.bin", "a.graphml", "--json").json()["left_out"] == {}
    assert run("export", "a.bin", "a.mtx", "-q").err == ""


def test_export_names_the_second_file(run: Run) -> None:
    pytest.importorskip("h5py")
    Path("a.txt").write_text("0 1\n")
    run("import", "a.txt", "a.bin")
    assert run("export", "a.bin", "edges.h5", "--json").json()["nodes"] == "nodes.h5"
    assert run("export", "a.bin", "b.h5", "--json").json()["nodes"] == "b_nodes.h5"
    assert Path("nodes.h5").is_file() and Path("b_nodes.h5").is_file()


def test_help_names_every_export(run: Run) -> None:
    from storage.formats import EXPORTS

    text = run("export", "--help-all").out
    assert max(map(len, text.splitlines())) <= 80
    for name, exporter in EXPORTS.items():
        assert f"\n  {name} " in text
        assert exporter.extensions[0] in text


@pytest.mark.parametrize(
    ("weights", "notes"),
    [
        (
            ["1e12", "1e-12"],
            "note: 1 weights below the unit raised to one unit\n"
            "note: 2 weights rounded to units of 65536: relative error at most 6.6e+16; "
            "the cut and other sums of weights are off by at most 9.83e+04\n",
        ),
        (
            [str(2**60 + 1), str(2**60)],
            "note: 1 weight rounded to units of 1.37439e+11: relative error at most 8.7e-19; "
            "the cut and other sums of weights are off by at most 6.87e+10\n",
        ),
        ([str(2**51), "3"], ""),
        (["0.25", "1000000"], ""),
    ],
)
def test_rounded_weights_are_reported_with_their_error(
    weights: list[str], notes: str, run: Run
) -> None:
    """Without notes sums were wrong by any factor: a cut of 1e-12 was reported as 65,536."""
    rows = [f"{place},{place + 1},{weight}\n" for place, weight in enumerate(weights)]
    Path("a.csv").write_text("".join(["source,target,weight\n", *rows]))
    columns = "note: columns used: source (source), target (target), weight (weight)\n"
    assert run("import", "a.csv", "a.bin").err == columns + notes
    words = ("--chip", "2x2", "--neurons-per-core", "1", "-o", "out", "--json")
    found = run("run", "a.csv", *words)
    assert found.err == columns + notes
    facts = found.json()["network"]
    exact = sum(map(float, weights))
    assert abs(facts["weight_total"] - exact) <= facts.get("sum_error", 0) + 1e-12 * exact
    assert ("weights_rounded" in facts) == bool(notes) == ("sum_error" in facts)


def test_losses_are_noted_and_reported(run: Run) -> None:
    Path("a.txt").write_text("0 1\n0 1\n1 2\n2 2\n2 0\n")
    found = run("run", "a.txt", "--chip", "2x2", "--neurons-per-core", "1", "-o", "out", "--json")
    assert found.code == 0
    assert found.err == (
        "note: columns used: 1 (source), 2 (target); every row weighs 1\n"
        "note: 1 self-loops dropped; 1 duplicate synapses merged (weights summed)\n"
    )
    facts = found.json()["network"]
    assert (facts["self_loops"], facts["repeated"]) == (1, 1)
    assert (facts["synapses"], facts["synapses_read"], facts["weight_total"]) == (3, 5, 4)
    assert facts["path"] == str(Path("out/network.bin").resolve())
    assert Path(facts["imported_from"]).is_file()
    assert run("verify", "out").code == 0
    Path("out").rename("moved")
    assert run("verify", "moved").code == 0


def test_lost_signs_are_noted_and_reported(run: Run) -> None:
    Path("a.txt").write_text("0 1 -2\n1 2 0.5\n2 0 -1\n")
    found = run("run", "a.txt", "--chip", "2x2", "--neurons-per-core", "1", "-o", "out", "--json")
    assert found.code == 0
    assert found.err.splitlines()[1:] == ["note: 2 negative weights: absolute value used"]
    facts = found.json()["network"]
    assert (facts["weights_negative"], facts["weight_total"]) == (2, 3.5)
    provenance = run("info", "out/network.bin", "--json").json()["provenance"]
    assert provenance["weights_negative"] == 2


LOCAL = "pre_pop, pre, post_pop, post, weight, delay\na,0,b,0,2,1\na,1,b,1,2,1\nb,0,a,1,3,1\n"
USED = (
    "note: columns used: pre (source), post (target), weight (weight), "
    "pre_pop (source-population), post_pop (target-population); ignored: delay\n"
)


def test_columns_are_noted_and_reported(run: Run) -> None:
    Path("a.csv").write_text(LOCAL)
    found = run("import", "a.csv", "a.bin", "--json")
    assert (found.code, found.err) == (0, USED)
    assert found.json()["neurons"] == 4
    assert found.json()["provenance"]["columns_ignored"] == ["delay"]
    Path("c.toml").write_text('[[together]]\npopulation = "b"\n')
    found = run(
        "run", "a.csv", "--chip", "2x2", "--neurons-per-core", "2", "--constraints", "c.toml",
        "-o", "out", "--json",
    )  # fmt: skip
    assert (found.code, found.err) == (0, USED)
    assert found.json()["network"]["columns"]["source-population"] == "pre_pop"
    assert found.json()["network"]["columns_ignored"] == ["delay"]
    assert run("export", "out", "cores.csv").code == 0
    head, *rows = Path("cores.csv").read_text().splitlines()
    assert head == "neuron,core,x,y,id,population,population_index,population_name"
    assert [row.split(",")[4:6] for row in rows] == [["0", "0"], ["1", "0"], ["0", "1"], ["1", "1"]]
    again = run("score", "a.csv", "cores.csv", "--chip", "2x2", "--json")
    assert again.json()["metrics"]["hops_total"] == found.json()["metrics"]["hops_total"]
    assert "would be merged; write it as npz" in run("export", "a.bin", "b.csv").err
    assert run("export", "a.bin", "b.npz").code == 0
    assert run("import", "b.npz", "b.bin").code == 0
    first, second = (run("info", name, "--json").json() for name in ("a.bin", "b.bin"))
    assert first["attributes"] == second["attributes"]


def test_columns_option(run: Run) -> None:
    """Every command that imports accepts it; a run can only be resumed with the same columns."""
    Path("a.csv").write_text("n,x,y,kind\n3,0,1,7\n5,1,2,7\n")
    columns = ("--columns", "source=y,target=x", "--columns", "weight=n")
    chip = ("--chip", "2x2", "--neurons-per-core", "1")
    found = run("run", "a.csv", *columns, *chip, "-o", "out", "--json")
    assert (found.code, found.json()["network"]["weight_total"]) == (0, 8)
    assert run("check", "a.csv", *columns, *chip).code == 0
    assert run("score", "a.csv", "out/mapping.npz", *columns, *chip[:2]).code == 0
    assert run("place", "a.csv", *columns, "--chip", "2x2", "--json").json()["core"]
    assert "which are source and target? Name them: --columns" in run("check", "a.csv", *chip).err
    found = run("check", "a.csv", "--columns", "colour=x", *chip)
    assert (found.code, "'colour=x' is not ROLE=NAME; roles are source" in found.err) == (2, True)
    found = run("check", "out/network.bin", *columns, *chip)
    assert (found.code, "is a network file; --columns is for tables" in found.err) == (2, True)
    assert run("import", "out/network.bin", "b.bin", "--rates", "x", *columns).code == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str, run: Run) -> None:
    found = run(command, "--help")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(f"usage: mapper {command}")
    assert "examples:" in found.out
    assert "--json" in found.out
