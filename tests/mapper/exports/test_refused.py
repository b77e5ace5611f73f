"""Networks that no format accepts, and names and options of the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.exports import EXPORTS, choose_exporter, open_run
from storage.store.writer import NetworkWriter
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

Fails = Callable[..., str]


@pytest.mark.sample(3)
@pytest.mark.parametrize("format", EXPORTS)
def test_errors_leave_no_files(format: str, out: Path, fails: Fails, folder: Path) -> None:
    threshold = ("--threshold", "1") if "threshold" in EXPORTS[format].options else ()
    if format in ("nir", "parquet"):
        pytest.importorskip({"nir": "nir", "parquet": "pyarrow"}[format])
    if format == "tables":  # its weights are refused first
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
    assert "unknown mapping format 'doc'" in fails(
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
        assert told.startswith(f"{format} files can be read but not written; export a network as ")
    assert "unknown format for networks" in fails("export", "net.bin", "a.dat")
    assert "unknown format 'dot'" in fails("export", "net.bin", "a", "--format", "dot", code=2)
    assert "unknown format 'dot'" in fails("import", "a.csv", "b", "--format", "dot", code=2)
    assert "matrixmarket" not in fails("export", out, "a.npz", "--format", "onnx", code=2)
    told = fails("export", out, "a.mtx", code=2)
    assert "unknown format for mappings" in told
    told = fails("export", "net.bin", "a.csv", "--bias", "3", code=2)
    assert "--bias is for output folders" in told


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
