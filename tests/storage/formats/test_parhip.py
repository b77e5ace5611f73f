"""ParHIP binary graphs: compared with METIS text and with a writer in the test; faults."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.formats import import_network
from storage.formats.columnar import parhip
from tests.storage.formats.conftest import attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]
Edge = tuple[int, int, int]


def written(n: int, edges: list[Edge], sizes: list[int] | None, weighted: bool = True) -> bytes:
    """Return a ParHIP file, written list by list."""
    lists: list[list[tuple[int, int]]] = [[] for _ in range(n)]
    for u, v, w in edges:
        lists[u].append((v, w))
        lists[v].append((u, w))
    entries = [entry for own in lists for entry in own]
    starts = 24 + 8 * (n + 1) + 8 * np.cumsum([0, *(len(own) for own in lists)])
    version = (0 if weighted else 1) + (0 if sizes else 2)
    words = [version, n, len(entries), *starts.tolist(), *(v for v, _ in entries)]
    words += sizes or []
    words += [w for _, w in entries] if weighted else []
    return struct.pack(f"<{len(words)}Q", *words)


EDGES = [(0, 1, 2), (1, 2, 5), (0, 3, 1)]


@pytest.mark.parametrize("sizes", [None, [1, 2, 3, 4, 9]])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", ["a.bgf", "a.strange"])
def test_parts(name: str, weighted: bool, sizes: list[int] | None, converted: Convert) -> None:
    path = converted(name, written(5, EDGES, sizes, weighted))
    assert edges_of(path) == {(u, v): w if weighted else 1 for u, v, w in EDGES}
    assert attributes_of(path) == ({"size": sizes} if sizes else {})


@settings(max_examples=30)
@given(st.dictionaries(st.tuples(st.integers(0, 8), st.integers(0, 8)), st.integers(0, 99)))
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, weights: dict[tuple[int, int], int]
) -> None:
    edges = [(u, v, w) for (u, v), w in weights.items() if u < v]
    folder = tmp_path_factory.mktemp("parhip")
    (folder / "a.bgf").write_bytes(written(9, edges, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parhip, "LISTS", 2)
        patch.setattr(parhip, "ENTRIES", 3)
        meta = import_network(folder / "a.bgf", folder / "net.bin", threads=1)
    assert edges_of(folder / "net.bin") == {(u, v): w for u, v, w in edges}
    assert (meta.synapses, meta.undirected) == (len(edges), True)


def test_repeats_split_at_one_end(converted: Convert) -> None:
    """An edge of weight 5 is listed as 2 + 3 at one end."""
    words = [2, 2, 3, 48, 64, 72, 1, 1, 0, 2, 3, 5]
    assert edges_of(converted("a.bgf", struct.pack("<12Q", *words))) == {(0, 1): 5}


def changed(place: int, value: int) -> bytes:
    content = bytearray(written(4, EDGES, None))
    struct.pack_into("<Q", content, 8 * place, value)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": is empty"),
        (bytes(23), ": has 23 bytes; a ParHIP header alone has 24"),
        (written(4, EDGES, None)[:-8], "need 160; is the file complete?"),
        (written(4, EDGES, None) + b"more", "need 160; is the file complete?"),
        (changed(0, 7), "header: version is 7; it must be 0 to 3"),
        (changed(1, 0), "header: 0 vertices"),
        (changed(1, 2**40), "header: 1099511627776 vertices"),
        (changed(2, 5), "is the file complete?"),
        (changed(3, 72), "list of vertex 0 (from 0): from byte 72 to"),
        (changed(5, 77), "list of vertex 1 (from 0): from byte 80 to 77"),
        (changed(5, 97), "list of vertex 1 (from 0): from byte 80 to 97"),
        (changed(7, 104), "list of vertex 3 (from 0): from byte 104 to 104"),
        (changed(7, 2**50), "start of list 4 (from 0): 1125899906842624 is outside"),
        (changed(8, 4), "entry 0 (from 0): 4 is outside 0..3"),
        (changed(8, 2), "vertex 1 lists 0, but 0 does not list 1"),
        (changed(14, 3), "edge 0 1 weighs 3 at 0 and 2 at 1"),
        (changed(14, 2**63), "weight of entry 0 (from 0): 9223372036854775808 is outside"),
    ],
)
def test_faults(content: bytes, message: str, refused: Refuse) -> None:
    assert message in refused("a.bgf", content, format="parhip")


def test_altered_bytes(tmp_path: Path) -> None:
    """Any changed byte leads to a network or to a one-line error."""
    rng = np.random.default_rng(4)
    content = written(4, EDGES, [1, 2, 3, 4])
    source, destination = tmp_path / "a.bgf", tmp_path / "net.bin"
    refusals = 0
    for _ in range(80):
        altered = bytearray(content)
        altered[rng.integers(len(content))] = rng.integers(256)
        source.write_bytes(altered)
        try:
            import_network(source, destination, "parhip", threads=1)
        except ValueError as error:
            refusals += 1
            assert "\n" not in str(error)
            assert [path.name for path in tmp_path.iterdir()] == ["a.bgf"]
        destination.unlink(missing_ok=True)
    assert refusals > 20


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_rgg_equals_its_metis_form(data_dir: Path, tmp_path: Path) -> None:
    folder = data_dir / "graphs"
    binary = import_network(folder / "rgg_n_2_15_s0.bgf", tmp_path / "a.bin")
    text = import_network(folder / "rgg_n_2_15_s0.graph", tmp_path / "b.bin")
    assert (binary.neurons, binary.synapses) == (text.neurons, text.synapses) == (32768, 160240)
    assert edges_of(tmp_path / "a.bin") == edges_of(tmp_path / "b.bin")
