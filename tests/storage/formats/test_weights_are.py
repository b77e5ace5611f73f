"""Meaning of a file's number per synapse: its traffic, or its weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from storage.formats import FORMATS, import_network
from storage.formats.base import ImportJob
from storage.store.network import NetworkFile
from storage.store.traffic import traffic_of

SIGNED = {(0, 1): -3.0, (1, 2): 0.5, (2, 2): 4.0, (2, 0): 0.0, (3, 1): 2.0}
"""A self-loop, a zero, a sign, a fraction."""
UNDIRECTED = {(0, 1): 2.0, (1, 2): 5.0}
Pairs = dict[tuple[int, int], float]


def _csv(path: Path) -> None:
    path.write_text("".join(f"{s},{t},{w:g}\n" for (s, t), w in SIGNED.items()))


def _mtx(path: Path) -> None:
    rows = "".join(f"{s + 1} {t + 1} {w:g}\n" for (s, t), w in SIGNED.items())
    path.write_text(f"%%MatrixMarket matrix coordinate real general\n4 4 5\n{rows}")


def _npz(path: Path) -> None:
    ends, weights = zip(*SIGNED, strict=True), list(SIGNED.values())
    matrix = scipy.sparse.coo_array((weights, tuple(map(np.array, ends))), shape=(4, 4))
    scipy.sparse.save_npz(path, matrix)


def _graphml(path: Path) -> None:
    nodes = "".join(f'<node id="{n}"/>' for n in range(4))
    edges = "".join(
        f'<edge source="{s}" target="{t}"><data key="w">{w:g}</data></edge>'
        for (s, t), w in SIGNED.items()
    )
    key = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
    path.write_text(f'<graphml>{key}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>')


def _parquet(path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    source, target = zip(*SIGNED, strict=True)
    columns = {"source": source, "target": target, "weight": list(SIGNED.values())}
    pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), path)


def _metis(path: Path) -> None:
    path.write_text("3 2 001\n2 2\n1 2 3 5\n2 5\n")


def _qaplib(path: Path) -> None:
    path.write_text("3\n0 1 2\n1 0 1\n2 1 0\n0 2 0\n2 0 5\n0 5 0\n")


FILES: dict[str, tuple[Any, Pairs]] = {
    "a.csv": (_csv, SIGNED),
    "a.mtx": (_mtx, SIGNED),
    "a.npz": (_npz, SIGNED),
    "a.graphml": (_graphml, SIGNED),
    "a.parquet": (_parquet, SIGNED),
    "a.graph": (_metis, UNDIRECTED | {(t, s): w for (s, t), w in UNDIRECTED.items()}),
    "a.dat": (_qaplib, UNDIRECTED | {(t, s): w for (s, t), w in UNDIRECTED.items()}),
}


def weights(path: Path) -> Pairs:
    with NetworkFile(path) as network:
        parts = [network.read_synapses(index) for index in range(network.block_count)]
    return {(s, t): w for part in parts for s, t, w in zip(*map(list, part), strict=True)}


@pytest.mark.parametrize("name", FILES)
def test_synaptic_weights_are_kept(name: str, tmp_path: Path) -> None:
    write, expected = FILES[name]
    source, made = tmp_path / name, tmp_path / "net.bin"
    write(source)
    meta = import_network(source, made, weights_are="synapse")
    assert weights(made) == expected
    assert meta.synaptic is not None
    assert traffic_of(meta)["source"] == "uniform"
    both = 2 if meta.undirected else 1  # an edge carries the spikes of both ends
    assert meta.total_weight == both * meta.synapses
    meta = import_network(source, made, weights_are="synapse", traffic="weights")
    assert weights(made) == expected
    assert traffic_of(meta)["source"] == "weights"
    total = sum(abs(w) for (s, t), w in expected.items() if s != t)
    assert meta.total_weight * meta.weight_unit == pytest.approx(total / both)


@pytest.mark.parametrize("name", FILES)
def test_default_is_traffic(name: str, tmp_path: Path) -> None:
    source, made = tmp_path / name, [tmp_path / "a.bin", tmp_path / "b.bin"]
    FILES[name][0](source)
    for path, said in zip(made, (None, "rate"), strict=True):
        meta = import_network(source, path, weights_are=said)
        assert (meta.synaptic, meta.needed_version) == (None, 1)
    assert made[0].read_bytes() == made[1].read_bytes()


@pytest.mark.parametrize("name", ["nir", "onnx", "sonata"])
def test_models_have_synaptic_weights(name: str) -> None:
    importer = FORMATS[name]
    assert importer.weights_are == "synapse"
    assert importer.kept_weights(None, None) == ("synapse", None)
    assert importer.kept_weights(None, "weights") == ("both", "weights")
    assert importer.kept_weights("rate", None) == ("rate", "weights")


def test_rates_of_the_file_are_the_traffic(tmp_path: Path) -> None:
    source, made = tmp_path / "a.npz", tmp_path / "net.bin"
    ends, values = zip(*SIGNED, strict=True), list(SIGNED.values())
    matrix = scipy.sparse.coo_array((values, tuple(map(np.array, ends))), shape=(4, 4)).tocsr()
    arrays = {"format": b"csr", "shape": (4, 4), "data": matrix.data, "indices": matrix.indices}
    rates = np.array([2.0, 0.0, 1.5, 7.0])
    np.savez(source, **arrays, indptr=matrix.indptr, **{"neuron/rate": rates})
    meta = import_network(source, made, weights_are="synapse")
    assert weights(made) == SIGNED
    assert traffic_of(meta)["source"] == "rates"
    assert meta.total_weight * meta.weight_unit == sum(rates[s] for s, t in SIGNED if s != t)


def test_sonata(tmp_path: Path) -> None:
    """A file with synaptic weights keeps them; an exported file, whose weights are traffic, not."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "edges.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("edges/p")
        for end, column in zip(("source", "target"), zip(*SIGNED, strict=True), strict=True):
            group[f"{end}_node_id"] = np.array(column)
            group[f"{end}_node_id"].attrs["node_population"] = "cells"
        group["edge_type_id"] = np.zeros(len(SIGNED), int)
        group["0/syn_weight"] = np.array(list(SIGNED.values()))
    meta = import_network(path, tmp_path / "net.bin")
    assert weights(tmp_path / "net.bin") == SIGNED
    assert (meta.total_weight, meta.self_loops) == (4, 1)
    with h5py.File(path, "r+") as file:
        file["edges/p"].attrs["mapper_traffic"] = "weights"
    meta = import_network(path, tmp_path / "own.bin")
    assert meta.synaptic is None
    meta = import_network(path, tmp_path / "own.bin", weights_are="synapse")
    assert meta.synaptic is not None


def test_weights_of_a_job(tmp_path: Path) -> None:
    job = ImportJob(tmp_path / "a.csv", tmp_path / "net.bin")
    assert not job.keeps_weights
    assert job._replace(weights="both").keeps_weights
