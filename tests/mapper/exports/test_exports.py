"""Mappings in every format, read back: neurons, cores, ids, weights and sizes are the same."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hw.core.shape import CoreShape, Table
from hw.run import word_bits
from mapper.exports import EXPORTS, choose_exporter, open_run
from mapper.exports.hardware_network import read_spiking, tables_of
from storage import extras
from storage.formats import import_network
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run, tree

# Kernels have twins of their own; what is around them does the same with the JIT off.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]
Array = np.ndarray[Any, Any]
N, WIDTH, HEIGHT = 40, 4, 3
REPLACE = Path.replace
CHIP = ("--chip", "mine.toml", "--preset", "fast", "--threads", "1", "-q")
TOML = """width = 4
height = 3
neurons = 8
unavailable = [11]
energy_router = 1.5
energy_link = 2.5
"""


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    """A run of a network with ids of its own, sizes and weights that are no whole numbers."""
    (folder / "mine.toml").write_text(TOML)
    rng = np.random.default_rng(4)
    ids = np.sort(rng.choice(1000, N, replace=False))
    with NetworkWriter(folder / "net.bin", N) as writer:
        writer.add(*rng.integers(0, N, (2, 160)), rng.integers(1, 20, 160) / 4)
        writer.set_attribute("id", ids)
        writer.set_attribute("size", rng.integers(1, 3, N))
        writer.finish()
    assert run("run", "net.bin", *CHIP, "-o", "out").code == 0
    return folder / "out"


@pytest.fixture
def whole(folder: Path, run: Run) -> Path:
    """The same with whole weights, as cores need them."""
    (folder / "mine.toml").write_text(TOML)
    rng = np.random.default_rng(5)
    with NetworkWriter(folder / "net.bin", N) as writer:
        writer.add(*rng.integers(0, N, (2, 160)), rng.integers(1, 20, 160))
        writer.finish()
    assert run("run", "net.bin", *CHIP, "-o", "whole").code == 0
    return folder / "whole"


def core_of(out: Path) -> Array:
    with np.load(out / "mapping.npz") as file:
        core: Array = file["core"]
    return core


def attribute(name: str, path: str = "net.bin") -> list[int]:
    with NetworkFile(Path(path)) as network:
        return network.attribute(name).stored.tolist()


def synapses(path: str = "net.bin") -> dict[tuple[int, int], float]:
    with NetworkFile(Path(path)) as network:
        found: dict[tuple[int, int], float] = {}
        for index in range(network.block_count):
            indptr, ids, weights = network.read_outgoing(index)
            first = network.block_bounds(index)[0]
            source = np.repeat(np.arange(indptr.size - 1) + first, np.diff(indptr))
            rows = zip(source.tolist(), ids.tolist(), weights.tolist(), strict=True)
            found.update({(s, t): w * network.meta.weight_unit for s, t, w in rows})
        return found


def check_columns(table: dict[str, Any], core: Array) -> None:
    assert list(table) == ["neuron", "core", "x", "y", "id", "size"]
    assert list(table["neuron"]) == list(range(N))
    assert list(table["core"]) == core.tolist()
    assert [y * WIDTH + x for x, y in zip(table["x"], table["y"], strict=True)] == core.tolist()
    assert list(table["id"]) == attribute("id")
    assert list(table["size"]) == attribute("size")


def test_csv(out: Path, run: Run) -> None:
    result = run("export", out, "a.csv", "--json").json()
    assert result == {
        "path": "a.csv", "neurons": N, "bytes": Path("a.csv").stat().st_size,
        "columns": ["neuron", "core", "x", "y", "id", "size"],
    }  # fmt: skip
    head, *lines = Path("a.csv").read_text().splitlines()
    columns = zip(*(map(int, line.split(",")) for line in lines), strict=True)
    check_columns(dict(zip(head.split(","), columns, strict=True)), core_of(out))


@pytest.mark.parametrize("name", ["a.csv", "a.npz"])
def test_what_score_reads(name: str, out: Path, run: Run) -> None:
    assert run("export", out, name).code == 0
    found = run("score", "net.bin", name, "--chip", "mine.toml", "--json").json()
    assert found["metrics"] == json.loads((out / "report.json").read_text())["metrics"]


def test_npz(out: Path, run: Run) -> None:
    run("export", out, "a.npz")
    with np.load("a.npz", allow_pickle=False) as file:
        assert (file["core"].dtype, int(file["width"]), int(file["height"])) == (np.int32, 4, 3)
        table = {name: file[name] for name in ("core", "x", "y", "id", "size")}
    check_columns({"neuron": np.arange(N), **table}, core_of(out))


def test_parquet(out: Path, run: Run, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("a.parquet", "b.pq"):
        assert run("export", out, name).code == 0
        table = parquet.read_table(name)
        check_columns(table.to_pydict(), core_of(out))
        about = json.loads(table.schema.metadata[b"mapper.chip"])
        assert (about["width"], about["unavailable"]) == (WIDTH, [11])
        assert str(table.schema.field("core").type) == "int32"


@pytest.mark.parametrize(
    ("format", "package", "extra"), [("parquet", "pyarrow", "formats"), ("nir", "nir", "nir")]
)
def test_a_missing_package_is_named_with_its_extra(
    format: str, package: str, extra: str, out: Path, fails: Fails,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def missing(name: str) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return import_module(name)

    monkeypatch.setattr(extras, "import_module", missing)
    told = fails("export", out, "a.file", "--format", format)
    assert f"pip install 'neuromapper[{extra}]'" in told


def test_json(out: Path, run: Run) -> None:
    run("export", out, "a.json")
    found = json.loads(Path("a.json").read_text())
    core, ids, sizes = core_of(out), attribute("id"), attribute("size")
    assert (found["schema"], found["chip"]["width"], found["network"]["neurons"]) == (1, WIDTH, N)
    assert [entry["core"] for entry in found["cores"]] == np.unique(core).tolist()
    for entry in found["cores"]:
        assert entry["y"] * WIDTH + entry["x"] == entry["core"]
        assert entry["neurons"] == np.flatnonzero(core == entry["core"]).tolist()
        assert entry["ids"] == [ids[n] for n in entry["neurons"]]
        assert entry["sizes"] == [sizes[n] for n in entry["neurons"]]


@pytest.mark.parametrize("name", ["a.graph", "a.graph.gz"])
def test_metis(name: str, out: Path, run: Run) -> None:
    if name.endswith(".gz"):  # gzipped names are not recognised for mappings
        found = run("export", out, name, "--format", "metis", "--json").json()
    else:
        found = run("export", out, name, "--json").json()
    assert (found["partition"], found["parts"]) == ("a.graph.part.12", 12)
    assert found["left_out"].keys() >= {"ids", "directions", "fractions"}
    said = run("export", out, name, "--format", "metis").err
    assert said.count("note: metis has no ") == len(found["left_out"])
    parts = [int(line) for line in Path("a.graph.part.12").read_text().splitlines()]
    assert parts == core_of(out).tolist()
    import_network(Path(name), Path("back.bin"))
    both: dict[tuple[int, int], float] = {}
    for (s, t), w in synapses().items():
        for pair in ((s, t), (t, s)):
            both[pair] = both.get(pair, 0) + w
    with NetworkFile(Path("net.bin")) as network:
        unit = network.meta.weight_unit
    assert synapses("back.bin") == pytest.approx({k: w / unit for k, w in both.items()})
    assert attribute("size", "back.bin") == attribute("size")


def test_metis_takes_the_graph(out: Path, run: Run) -> None:
    pymetis = pytest.importorskip("pymetis")
    run("export", out, "a.graph")
    numbers = [line.split() for line in Path("a.graph").read_text().splitlines()]
    assert len(numbers[1:]) == N
    lists = [[int(word) - 1 for word in line[1::2]] for line in numbers[1:]]
    assert pymetis.part_graph(3, lists)[1]


def sanafe_net(name: str, arch: str) -> tuple[Any, Any, Any]:
    sanafe = pytest.importorskip("sanafe")
    chip = sanafe.load_arch(arch)
    return sanafe, chip, sanafe.load_net(name, chip)


def test_sanafe_reads_network_and_mapping(out: Path, run: Run) -> None:
    found = run("export", out, "a.yaml", "--threshold", "2.5", "--json").json()
    assert (found["synapses"], found["architecture"]) == (len(synapses()), "a.arch.yaml")
    _, _, network = sanafe_net("a.yaml", "a.arch.yaml")
    network.save("back.net", True)
    expected = synapses()
    edges: dict[tuple[int, int], float] = {}
    places: dict[int, int] = {}
    for line in Path("back.net").read_text().splitlines():
        kind, *words = line.split()
        if kind == "e":
            ends = [int(end.split(".")[1]) for end in words[0].split("->")]
            edges[ends[0], ends[1]] = float(words[1].removeprefix("weight="))
        elif kind == "&":
            neuron, tile = words[0].split("@")
            places[int(neuron.split(".")[1])] = int(tile.split(".")[0])
    assert edges == pytest.approx(expected)
    core = core_of(out).tolist()
    assert places == {n: core[n] % WIDTH * HEIGHT + core[n] // WIDTH for n in range(N)}
    below = math.nextafter(2.5, 0)  # its neurons spike above it, ours at it
    assert f"attributes: {{threshold: {below!r}}}" in Path("a.yaml").read_text()


def test_sanafe_counts_the_same_hops(out: Path, run: Run) -> None:
    """With every neuron spiking in every step, its energy is that of our hops."""
    run("export", out, "a.yaml", "--threshold", "1", "--bias", "5")
    sanafe, arch, network = sanafe_net("a.yaml", "a.arch.yaml")
    chip = sanafe.SpikingChip(arch)
    chip.load(network)
    found = chip.sim(1)
    assert found["neurons_fired"] == N
    core = core_of(out)
    reached = {(s, int(core[t])) for s, t in synapses()}  # a message for each core, once
    hops = sum(
        abs(int(core[s]) % WIDTH - c % WIDTH) + abs(int(core[s]) // WIDTH - c // WIDTH)
        for s, c in reached
    )
    assert hops > 20
    assert found["energy"]["network"] == pytest.approx(hops * 4.0e-12)


@pytest.mark.parametrize(
    ("name", "other"), [("a.graph", "a.graph.part.12"), ("a.yaml", "a.arch.yaml")]
)
def test_two_files_or_none(
    name: str, other: str, out: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of two files can't get its name, the other one goes, too."""
    for wrong in (name, other):

        def refuse(self: Path, target: Path, wrong: str = wrong) -> Path:
            if Path(target).name == wrong:
                raise OSError(5, "Input/output error")
            return REPLACE(self, target)

        monkeypatch.setattr(Path, "replace", refuse)
        assert f"{wrong}: cannot write: Input/output error" in fails("export", out, name)


def test_sanafe_by_schema(out: Path, run: Run) -> None:
    yaml = pytest.importorskip("yaml")
    run("export", out, "a.yml")
    found = yaml.safe_load(Path("a.yml").read_text())
    assert list(found) == ["network", "mappings"]
    (group,) = found["network"]["groups"]
    assert (group["name"], list(group["neurons"][0])) == ("n", [f"0..{N - 1}"])
    edges = [next(iter(edge.items())) for edge in found["network"]["edges"]]
    assert [f"n.{s} -> n.{t}" for s, t in synapses()] == [name for name, _ in edges]
    assert [w["weight"] for _, w in edges] == list(synapses().values())
    assert [next(iter(row)) for row in found["mappings"]] == [f"n.{n}" for n in range(N)]


def test_nir(out: Path, run: Run, fails: Fails) -> None:
    nir = pytest.importorskip("nir")
    assert "--threshold" in fails("export", out, "a.nir", code=2)
    assert run("export", out, "a.nir", "--threshold", "1.5").code == 0
    graph = nir.read("a.nir")
    core, ids, sizes = core_of(out), np.array(attribute("id")), np.array(attribute("size"))
    held = {}
    for name, node in graph.nodes.items():
        if not name.startswith("core_"):
            continue
        about, number = node.metadata, int(name.removeprefix("core_"))
        assert (int(about["core"]), int(about["y"]) * WIDTH + int(about["x"])) == (number, number)
        held[number] = about["neurons"]
        assert np.array_equal(held[number], np.flatnonzero(core == number))
        assert np.array_equal(about["ids"], ids[held[number]])
        assert np.array_equal(about["sizes"], sizes[held[number]])
        assert np.all(node.v_threshold == 1.5)
    assert sorted(held) == np.unique(core).tolist()
    found = {}
    for name, node in graph.nodes.items():
        if name.startswith("weights_"):
            s, t = (int(word) for word in name.removeprefix("weights_").split("_to_"))
            assert (f"core_{s}", name) in graph.edges
            assert (name, f"core_{t}") in graph.edges
            for i, j in zip(*np.nonzero(node.weight), strict=True):
                found[int(held[s][j]), int(held[t][i])] = float(node.weight[i, j])
    assert found == pytest.approx(synapses())


def test_nir_refuses_what_is_too_dense(
    out: Path, fails: Fails, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("nir")
    for most in (10, 400):
        monkeypatch.setattr("mapper.exports.nir_graph.MAX_WEIGHTS", most)
        told = fails("export", out, "a.nir", "--threshold", "1")
        assert f"more than {most} numbers" in told


OPTIONS = ("--threshold", "30", "--leak", "3", "--bias", "-2", "--weight-bits", "7")


def test_tables_are_those_of_the_hardware(whole: Path, run: Run) -> None:
    found = run("export", whole, "a.tables.json", *OPTIONS, "--json").json()
    tables = json.loads(Path("a.tables.json").read_text())
    assert (found["neurons"], found["cores"]) == (N, WIDTH * HEIGHT)
    assert (tables["width"], tables["height"], tables["shape"]["weight_bits"]) == (4, 3, 7)
    core = core_of(whole)
    reached: dict[tuple[int, int], float] = {}
    by_axon = {}
    for entry in tables["cores"]:
        assert entry["neurons"] == np.flatnonzero(core == entry["core"]).tolist()
        assert entry["parameters"] == [[30, -2, 3, 0]] * len(entry["neurons"])
        for axon, source in enumerate(entry["axons"]):
            begin, end = entry["synapse_indptr"][axon : axon + 2]
            by_axon[entry["x"], entry["y"], axon] = source
            for local, weight in entry["synapses"][begin:end]:
                reached[source, entry["neurons"][local]] = weight
    assert reached == synapses()
    for entry in tables["cores"]:  # routes lead to the axon of their own neuron
        for local, neuron in enumerate(entry["neurons"]):
            begin, end = entry["route_indptr"][local : local + 2]
            assert {by_axon[tuple(route)] for route in entry["routes"][begin:end]} <= {neuron}


@pytest.mark.parametrize("wide", [False, True])
def test_words_for_the_load_port(wide: bool, whole: Path, run: Run) -> None:
    """Against Amaranth's own constants, word for word; also where a word is beyond 64 bits."""

    more = ("--potential-bits", "32", "--leak-bits", "5") if wide else ()
    assert run("export", whole, "a.tables.json", *OPTIONS, *more).code == 0
    found = json.loads(Path("a.tables.json").read_text())
    shape = CoreShape(**found["shape"])
    assert (shape.load.size > 64) == wide
    assert found["load_port"] == {n: [f.offset, f.width] for n, f in shape.load}
    network = read_spiking(Path("net.bin"), threshold=30, leak=3, bias=-2)
    for entry, part in zip(found["cores"], tables_of(whole, network, shape).cores, strict=True):
        words = [(Table.USED, 0, part.used)]
        for table, (layout, _) in shape.memories.items():
            rows = enumerate(part.rows(table))
            words += [(table, address, word_bits(layout, row)) for address, row in rows]
        fields = ("table", "address", "data")
        expected = [word_bits(shape.load, dict(zip(fields, word, strict=True))) for word in words]
        assert [int(word, 16) for word in entry["load"].split()] == expected
        assert {len(word) for word in entry["load"].split()} == {-(-shape.load.size // 4)}


def test_tables_refuse(whole: Path, fails: Fails) -> None:
    assert "--threshold" in fails("export", whole, "a.tables.json", code=2)
    told = fails("export", whole, "a.tables.json", "--threshold", "1", "--weight-bits", "3")
    assert "3-bit weights of a core" in told
    told = fails("export", whole, "a.tables.json", "--threshold", "1.5")
    assert "whole numbers" in told
    told = fails("export", whole, "a.tables.json", "--threshold", "1", "--synapses", "2")
    assert "its memory of synapses holds 2" in told
    told = fails("export", whole, "a.tables.json", "--threshold", "1", "--routes", "3", code=2)
    assert "power of two" in told


def test_fractions_are_no_weights_of_cores(out: Path, fails: Fails) -> None:
    told = fails("export", out, "a.tables.json", "--threshold", "1")
    assert "cores compute with whole numbers" in told


def test_helpers_are_left_out_or_refused(run: Run, folder: Path) -> None:
    source = np.arange(1, 30)
    with NetworkWriter(folder / "net.bin", 30) as writer:
        writer.add(source, np.zeros(29, np.int64))
        writer.finish()
    chip = ("--chip", "4x4", "--synapses-per-core", "10", "--preset", "fast", "-q")
    assert run("run", "net.bin", *chip, "--split-neurons", "-o", "out").code == 0
    found = run("export", "out", "a.csv")
    assert found.err.endswith("relay neurons of split neurons left out\n")
    assert len(Path("a.csv").read_text().splitlines()) == 31
    assert run("export", "out", "a.noxim").err == ""  # which has their traffic
    before = tree(folder)
    for name in ("a.yaml", "a.nir", "a.tables.json"):
        if name == "a.nir":
            pytest.importorskip("nir")
        told = run("export", "out", name, "--threshold", "1")
        assert (told.code, told.err.count("\n")) == (1, 1)
        assert "without splitting neurons" in told.err
    assert tree(folder) == before


@pytest.mark.parametrize("format", EXPORTS)
def test_errors_leave_nothing(format: str, out: Path, fails: Fails, folder: Path) -> None:
    threshold = ("--threshold", "1") if "threshold" in EXPORTS[format].options else ()
    if format in ("nir", "parquet"):
        pytest.importorskip({"nir": "nir", "parquet": "pyarrow"}[format])
    if format == "tables":  # its weights are refused before
        (folder / "net.bin").unlink()
        NetworkWriter(folder / "net.bin", 3).close()
        told = fails("export", out, "nowhere/a", "--format", format, *threshold)
        assert "net.bin" in told
        return
    told = fails("export", out, "nowhere/a", "--format", format, *threshold)
    assert "nowhere" in told


def test_names_and_options(out: Path, fails: Fails) -> None:
    for exporter in EXPORTS.values():
        for ending in exporter.extensions:
            assert choose_exporter(Path(f"A{ending.upper()}")) is exporter
            assert choose_exporter(Path("a"), exporter.name) is exporter
    assert "unknown format" in fails("export", out, "a.doc", code=2)
    assert "no format of mappings is called 'doc'" in fails(
        "export", out, "a.csv", "--format", "doc", code=2
    )
    told = fails("export", out, "a.csv", "--threshold", "1", code=2)
    assert told.startswith("--threshold is for the formats tables, sanafe, nir, not for csv")
    for name in ("a.json", "a.nir", "a.yaml", "a.tables.json"):
        told = fails("export", "net.bin", name, code=2)
        assert "is not the output folder of a run" in told
    told = fails("export", "net.bin", "a", "--format", "nir", code=2)
    assert "only a mapping can be exported as nir, a network as metis, csv, parquet" in told
    for format in ("onnx", "edgelist", "qaplib"):
        told = fails("export", "net.bin", "a", "--format", format, code=2)
        assert told.startswith(f"{format} files are read, but not written; export a network as ")
    assert "unknown format for networks" in fails("export", "net.bin", "a.dat")
    assert "no format is called 'dot'" in fails("export", "net.bin", "a", "--format", "dot", code=2)
    assert "no format is called 'dot'" in fails("import", "a.csv", "b", "--format", "dot", code=2)
    assert "matrixmarket" not in fails("export", out, "a.npz", "--format", "onnx", code=2)
    told = fails("export", out, "a.mtx", code=2)
    assert "unknown format for mappings" in told
    told = fails("export", "net.bin", "a.csv", "--bias", "3", code=2)
    assert "--bias is for the output folder" in told


def test_another_network_is_refused(out: Path, run: Run, fails: Fails, folder: Path) -> None:
    (folder / "net.bin").rename("moved.bin")
    assert "net.bin" in fails("export", out, "a.csv")
    assert run("export", out, "a.csv", "--network", "moved.bin").code == 0
    with NetworkWriter(folder / "other.bin", 7) as writer:
        writer.finish()
    told = fails("export", out, "b.csv", "--network", "other.bin")
    assert "maps 40 neurons, the network has 7" in told


def test_a_network_without_synapses(run: Run, folder: Path) -> None:
    with NetworkWriter(folder / "net.bin", 1) as writer:
        writer.finish()
    assert run("run", "net.bin", "--chip", "2x1", "-o", "out", "-q").code == 0
    for name in ("a.csv", "a.json", "a.npz", "a.graph", "a.yaml", "a.tables.json"):
        options = ("--threshold", "1") if name == "a.tables.json" else ()
        assert run("export", "out", name, *options).code == 0, name
    assert "  edges: []\n" in Path("a.yaml").read_text()
    with open_run(Path("out")) as opened:
        assert (opened.core.size, opened.relays) == (1, 0)


def test_km1_of_the_hypergraph_is_the_connectivity(out: Path, run: Run) -> None:
    """What partitioners of hypergraphs minimise is what the report calls connectivity."""
    run("export", "net.bin", "a.hgr")
    core = core_of(out)
    lines = [[int(w) for w in line.split()] for line in Path("a.hgr").read_text().splitlines()]
    count, vertices, fmt = lines[0]
    assert (vertices, fmt) == (N, 11)
    km1 = sum((len({int(core[p - 1]) for p in pins}) - 1) * w for w, *pins in lines[1 : 1 + count])
    with NetworkFile(Path("net.bin")) as network:
        unit = network.meta.weight_unit
    report = json.loads((out / "report.json").read_text())
    assert km1 > 0
    assert km1 * unit == pytest.approx(report["metrics"]["multicast"]["connectivity"])
