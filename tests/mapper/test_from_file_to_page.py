"""Real networks of several formats: import, run, verify, report, export, and re-import
unchanged.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from storage.store.network import NetworkFile
from tests.mapper.conftest import Run

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

NEEDS = {".nir": "h5py", ".h5": "h5py", ".onnx": "onnx"}
WORM = "herm_full_edgelist.csv"
CASES = [
    ("nir/cnn_sinabs.nir", ("--chip", "loihi"), 11_282, 1_122_848),
    ("nir/braille_noDelay_bias_zero.nir", ("--chip", "4x4", "--neurons-per-core", "8"), 57, 2128),
    (
        "sonata/300_pointneurons_internal_edges.h5",
        ("--chip", "6x6", "--neurons-per-core", "16"),
        300,
        27_502,
    ),
    ("models/mnist-8.onnx", ("--chip", "loihi"), 12_026, 679_072),
    (WORM, ("--chip", "8x8", "--neurons-per-core", "16"), 448, None),
]


def connections(path: Path) -> Iterator[list[list[float]]]:
    """Yield target offsets, targets and weights of the synapses of each block."""
    with NetworkFile(path) as net:
        for index in range(net.block_count):
            indptr, ids, weights = net.read_outgoing(index)
            yield [indptr.tolist(), ids.tolist(), (weights * net.meta.weight_unit).tolist()]


def found_file(name: str, data_dir: Path) -> Path:
    if name != WORM:
        return data_dir / name
    package = importlib.util.find_spec("cect")
    if package is None or package.origin is None:
        pytest.skip("no connectome of C. elegans: pip install cect")
    return Path(package.origin).parent / "data" / name


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize(
    ("name", "chip", "neurons", "synapses"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_the_complete_workflow(
    name: str, chip: tuple[str, ...], neurons: int, synapses: int | None,
    data_dir: Path, folder: Path, run: Run,
) -> None:  # fmt: skip
    source = found_file(name, data_dir)
    if source.suffix in NEEDS:
        pytest.importorskip(NEEDS[source.suffix])
    told = run("import", source, "net.bin", "-q", "--json").json()
    assert told["neurons"] == neurons
    assert synapses in (None, told["synapses"])
    mapped = run("run", "net.bin", *chip, "--preset", "fast", "-o", "out", "--json", "-q").json()
    assert run("verify", "out").code == 0
    assert run("report", "out", "-o", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert f"{neurons:,}" in page
    for mapping in ("m.csv", "m.npz"):
        assert run("export", "out", mapping).code == 0
        scored = run("score", "net.bin", mapping, *chip, "--json", "-q").json()
        assert scored["metrics"]["hops_total"] == mapped["metrics"]["hops_total"]
    before = list(connections(Path("net.bin")))
    for copy in ("a.npz", "a.mtx", "a.graphml", "a.h5"):
        assert run("export", "net.bin", copy).code == 0
        assert run("import", copy, "back.bin", "-q").code == 0
        assert list(connections(Path("back.bin"))) == before, copy
    if source.suffix == ".nir":
        assert run("export", "out", "mapped.nir", "--graph", source).code == 0
        assert run("import", "mapped.nir", "back.bin", "-q").code == 0
        assert list(connections(Path("back.bin"))) == before
        h5py = pytest.importorskip("h5py")
        with h5py.File("mapped.nir", "r") as file, np.load("out/mapping.npz") as placed:
            core = file["node/nodes/input/metadata/core"][()].ravel()
            assert np.array_equal(core, placed["core"][: core.size])
