"""Hardware tables, and the words that load them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hw.core.shape import CoreShape, DestinationTable
from hw.run import word_bits
from mapper.exports.hardware_network import read_spiking, tables_of
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run, tree
from tests.mapper.exports.mapped import HEIGHT, WIDTH, N, core_of, synapses

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]


OPTIONS = ("--threshold", "30", "--leak", "3", "--bias", "-2", "--weight-bits", "7")


def test_tables_match_the_hardware(whole: Path, run: Run) -> None:
    found = run("export", whole, "a.tables.json", *OPTIONS, "--json").json()
    tables = json.loads(Path("a.tables.json").read_text())
    assert (found["neurons"], found["cores"]) == (N, WIDTH * HEIGHT)
    assert (tables["width"], tables["height"], tables["shape"]["weight_bits"]) == (4, 3, 7)
    core = core_of(whole)
    reached: dict[tuple[int, int], float] = {}
    by_axon = {}
    for entry in tables["cores"]:
        assert entry["neurons"] == np.flatnonzero(core == entry["core"]).tolist()
        assert entry["parameters"] == [[0, 30, 0, 0, -2]] * len(entry["neurons"])
        assert entry["profiles"] == [[0, 4096 - 512, 0, 0, 0, 0]][: len(entry["neurons"])]
        for axon, source in enumerate(entry["axons"]):
            begin, count, base = entry["lists"][axon]
            by_axon[entry["x"], entry["y"], axon] = source
            for local, weight, delay in entry["synapses"][begin : begin + count]:
                assert delay == 0
                reached[source, entry["neurons"][base + local]] = weight
    assert reached == synapses()
    for entry in tables["cores"]:  # routes lead to the axon of their own neuron
        for local, neuron in enumerate(entry["neurons"]):
            begin, end = entry["route_indptr"][local : local + 2]
            assert {by_axon[tuple(route)] for route in entry["routes"][begin:end]} <= {neuron}


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("wide", [False, True])
def test_words_for_the_load_port(wide: bool, whole: Path, run: Run) -> None:
    """Compared with Amaranth's constants word for word, also for words of more than 64 bits."""

    more = () if wide else ("--state-bits", "8")
    assert run("export", whole, "a.tables.json", *OPTIONS, *more).code == 0
    found = json.loads(Path("a.tables.json").read_text())
    shape = CoreShape(**found["shape"])
    assert (shape.load.size > 64) == wide
    assert found["load_port"] == {n: [f.offset, f.width] for n, f in shape.load}
    network = read_spiking(
        Path("net.bin"), threshold=30, potential_decay=4096 - 512, potential_bias=-2
    )
    for entry, part in zip(found["cores"], tables_of(whole, network, shape).cores, strict=True):
        words = [(DestinationTable.USED, 0, part.used)]
        for table, (layout, _) in shape.memories.items():
            if table == DestinationTable.SUMS:
                words += [
                    (table, s * shape.neurons + n, 0) for s in (0, 1) for n in range(part.used)
                ]
                continue
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
    assert "its memory for synapses holds 2" in told
    told = fails("export", whole, "a.tables.json", "--threshold", "1", "--routes", "3", code=2)
    assert "power of two" in told


def test_fractional_weights_are_refused(out: Path, fails: Fails) -> None:
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
    assert run("export", "out", "a.noxim").err == ""  # which includes their traffic
    before = tree(folder)
    for name in ("a.yaml", "a.nir", "a.tables.json"):
        if name == "a.nir":
            pytest.importorskip("nir")
        told = run("export", "out", name, "--threshold", "1")
        assert (told.code, told.err.count("\n")) == (1, 1)
        assert "without splitting neurons" in told.err
    assert tree(folder) == before


def test_tables_keep_to_their_schema(whole: Path, run: Run) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    assert run("export", whole, "a.tables.json", *OPTIONS).code == 0
    found = json.loads(Path("a.tables.json").read_text())
    path = Path(__file__).parents[3] / "docs" / "schemas" / "tables.schema.json"
    schema = json.loads(path.read_text())
    validator = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in validator.iter_errors(found)] == []
    named = {name: about["properties"] for name, about in schema["$defs"].items()}
    assert found.keys() == named["Tables"].keys() - {"input_packets", "host"}
    keys = {key for core in found["cores"] for key in core}
    assert keys == named["CoreTable"].keys() - {"scales"}
    for core in found["cores"]:
        assert core["exponents"] == [0] * len(core["neurons"])  # unchanged
    found["cores"][0]["synapses"] = [[0]]
    assert [error.message for error in validator.iter_errors(found)] != []
