"""Exporters: digits compared with Python's, files compared with their networks."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.formats import export_network, import_network
from storage.formats.objects import NeuronProperties, write_edges
from storage.formats.text.render import decimals_of, render_edges, render_lists
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.storage.formats.conftest import attributes_of, edges_of
from tests.storage.formats.test_namedtable import NAME

Array = np.ndarray[Any, Any]


def shown(value: int, decimals: int) -> str:
    whole, rest = divmod(value, 10**decimals)
    digits = f"{rest:0{decimals}d}".rstrip("0") if decimals else ""
    return f"{whole}.{digits}" if digits else str(whole)


@pytest.mark.parametrize("decimals", [0, 1, 3, 6])
def test_edges_against_python(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    source = rng.integers(0, 2**62, 80) >> rng.integers(0, 63, 80)
    target = rng.integers(0, 2**62, 80) >> rng.integers(0, 63, 80)
    stored = rng.integers(0, 2**62, 80) >> rng.integers(0, 63, 80)
    source[0] = target[1] = 2**63 - 1
    stored[:4] = 0, 1, 10, 2**62
    text = render_edges(source, target, stored, float(f"1e-{decimals}")).decode()
    expected = [
        f"{s},{t},{shown(w, decimals)}\n"
        for s, t, w in zip(source.tolist(), target.tolist(), stored.tolist(), strict=True)
    ]
    assert text == "".join(expected)


def test_other_units_keep_their_value() -> None:
    stored = np.array([0, 1, 3, 2**24 - 1, 5 << 40])
    unit = 2.0**-23
    ends = np.arange(5)
    rows = render_edges(ends, ends, stored, unit).decode().splitlines()
    assert [float(row.split(",")[2]) for row in rows] == (stored * unit).tolist()
    assert decimals_of(unit) is None
    assert decimals_of(1e-3) == 3
    assert render_edges(ends[:0], ends[:0], ends[:0], unit) == b""


@pytest.mark.parametrize("own_columns", [0, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_lists_against_python(own_columns: int, weighted: bool) -> None:
    rng = np.random.default_rng(own_columns)
    counts = rng.integers(0, 4, 30)
    indptr = np.append(0, np.cumsum(counts))
    ids = rng.integers(0, 2**31 - 1, indptr[-1]).astype(np.int32)
    weights = rng.integers(0, 2**40, indptr[-1]) if weighted else None
    own = rng.integers(0, 1000, (30, own_columns))
    expected = []
    for v in range(30):
        words = own[v].tolist()
        for e in range(indptr[v], indptr[v + 1]):
            words += [int(ids[e]) + 1] + ([] if weights is None else [int(weights[e])])
        expected.append(" ".join(map(str, words)) + "\n")
    assert render_lists(own, indptr, ids, weights).decode() == "".join(expected)


def write(path: Path, *, undirected: bool = False, weight: Array | None = None) -> None:
    source, target = np.array([0, 1, 2, 4]), np.array([1, 0, 4, 1])
    if undirected:
        source = np.array([0, 3, 2, 4])
    with NetworkWriter(path, 6, undirected=undirected, block_size=2) as writer:
        writer.add(source, target, weight)
        writer.set_attribute("rate", np.arange(6))
        writer.finish()


WEIGHTS = [None, np.array([3, 4, 5, 6]), np.array([0.5, 1.25, 3, 0.0]), np.array([np.pi, 1, 2, 3])]


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_round_trip(undirected: bool, weight: Array | None, name: str, tmp_path: Path) -> None:
    write(tmp_path / "net.bin", undirected=undirected, weight=weight)
    with NetworkFile(tmp_path / "net.bin") as net:
        export_network(net, tmp_path / name)
    import_network(tmp_path / name, tmp_path / "back.bin")
    ids = attributes_of(tmp_path / "back.bin")["id"]
    back = {(ids[u], ids[v]): w for (u, v), w in edges_of(tmp_path / "back.bin").items()}
    assert back == pytest.approx(edges_of(tmp_path / "net.bin"), rel=1e-6)


def test_csv_uses_original_ids(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,target,weight\n7,900,0.5\n900,7,12\n")
    import_network(tmp_path / "a.csv", tmp_path / "net.bin")
    with NetworkFile(tmp_path / "net.bin") as net:
        export_network(net, tmp_path / "b.csv")
        export_network(net, tmp_path / "c", "csv")
        export_network(net, tmp_path / "d.csv.gz")
    text = (tmp_path / "a.csv").read_bytes()
    assert (tmp_path / "b.csv").read_bytes() == text
    assert (tmp_path / "c").read_bytes() == text
    assert gzip.decompress((tmp_path / "d.csv.gz").read_bytes()) == text


def test_metis_of_a_directed_network(tmp_path: Path) -> None:
    """Directions are added, weights are in stored units, the attribute `rate` is dropped."""
    write(tmp_path / "net.bin", weight=np.array([0.5, 1.25, 3, 1]))
    with NetworkFile(tmp_path / "net.bin") as net:
        export_network(net, tmp_path / "a.graph")
    text = (tmp_path / "a.graph").read_text()
    assert text == "6 3 001\n2 175\n1 175 5 100\n5 300\n\n2 100 3 300\n\n"


def test_metis_without_weights(tmp_path: Path) -> None:
    write(tmp_path / "net.bin", undirected=True)
    with NetworkFile(tmp_path / "net.bin") as net:
        export_network(net, tmp_path / "a.graph.gz")
    text = gzip.decompress((tmp_path / "a.graph.gz").read_bytes()).decode()
    assert text == "6 4\n2 4\n1 5\n5\n1\n2 3\n\n"


@pytest.mark.heavy
@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            NAME.map("#{}".format),
            NAME,
            st.integers(1, 99) | st.integers(1, 99).map(lambda w: w / 8),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_names_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, float]]
) -> None:
    """Names with commas and quotes survive export and import."""
    folder = tmp_path_factory.mktemp("names")
    rows = [("x", "y", 1.0), *(row for row in rows if row[0] != row[1])]
    names = list(dict.fromkeys(end for row in rows for end in row[:2]))
    ends = ([names.index(row[k]) for row in rows] for k in range(2))
    write_edges(
        folder / "a.bin",
        *ends,
        weight=[row[2] for row in rows],
        neurons=NeuronProperties(names=names),
    )
    with NetworkFile(folder / "a.bin") as net:
        export_network(net, folder / "a.csv")
    import_network(folder / "a.csv", folder / "b.bin", threads=1)

    def named(path: Path) -> dict[tuple[str, str], float]:
        with NetworkFile(path) as net:
            labels = net.attribute("id").labels
        assert labels is not None
        return {(labels[u], labels[v]): w for (u, v), w in edges_of(path).items()}

    assert named(folder / "b.bin") == named(folder / "a.bin")
