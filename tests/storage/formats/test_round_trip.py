"""Every exporter keeps its promise: what comes back is the network, or it was said to be lost."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError, WriteError
from storage.formats import EXPORTS, export_network, import_network
from storage.formats.losses import KINDS, Loss
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter

NEEDS = {"parquet": "pyarrow.parquet", "sonata": "h5py"}
EXTRAS = {"parquet": "formats", "sonata": "sonata"}
SEEN = "isolated", "sources", "weights"  # kinds of losses that only the synapses tell
Names = list[int] | list[str]


@pytest.fixture(params=EXPORTS)
def format(request: pytest.FixtureRequest) -> str:
    """Each format that networks are written to, if what it needs is there."""
    name: str = request.param
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return name


@dataclass
class Net:
    """A network as a test draws it.

    edges : (source, target) -> weight in stored units; unit : of the weights
    names : what neurons are called, None for their numbers
    """

    vertices: int
    edges: dict[tuple[int, int], int]
    undirected: bool = False
    unit: float = 1.0
    sizes: list[int] | None = None
    names: Names | None = None
    rates: list[int] | None = None
    population: list[int] | None = None
    block: int | None = None

    def write(self, path: Path) -> Path:
        pairs = np.array([*self.edges], np.int64).reshape(-1, 2)
        weights = np.array([*self.edges.values()], np.int64)
        with NetworkWriter(
            path,
            self.vertices,
            undirected=self.undirected,
            weight_unit=self.unit,
            block_size=self.block,
            threads=1,
        ) as writer:
            writer.add(pairs[:, 0], pairs[:, 1], weights)
            if self.sizes is not None:
                writer.set_attribute("size", np.array(self.sizes))
            if self.rates is not None:
                writer.set_attribute("rate", np.array(self.rates))
            if self.population is not None:
                writer.set_attribute("population", np.array(self.population), ["a", "b"])
            if self.names is not None and isinstance(self.names[0], str):
                labels = [str(name) for name in self.names]
                writer.set_attribute("id", np.arange(self.vertices), labels)
            elif self.names is not None:
                writer.set_attribute("id", np.array(self.names))
            writer.finish()
        return path


@dataclass
class Held:
    """A network by the names of its neurons, so that it does not matter how they are numbered."""

    undirected: bool
    edges: dict[Any, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)


def held(path: Path, by_number: bool = False) -> Held:
    """What a network file holds; neurons are called by their numbers if they have no ids."""
    with NetworkFile(path) as net:
        called = [str(v) for v in range(net.vertices)]
        if "id" in net.meta.attributes and not by_number:
            ids = net.attribute("id")
            called = [str(v) if ids.labels is None else ids.labels[v] for v in ids.stored.tolist()]
        found = Held(net.undirected)
        found.sizes = dict(zip(called, net.vertex_sizes().tolist(), strict=True))
        for name in net.meta.attributes.keys() - {"id", "size"}:
            values = net.attribute(name)
            shown = values.values.tolist()
            if values.labels is not None:
                shown = [values.labels[v] for v in shown]
            found.extras[name] = dict(zip(called, shown, strict=True))
        for block in net.blocks():
            indptr, ids_, weights = block.outgoing()
            for v in range(block.vertices):
                for e in range(indptr[v], indptr[v + 1]):
                    ends: Any = called[block.first + v], called[ids_[e]]
                    ends = frozenset(ends) if net.undirected else ends
                    found.edges[ends] = float(weights[e]) * net.meta.weight_unit
    return found


def lost(losses: list[Loss]) -> dict[str, int]:
    found = {loss.kind: loss.count for loss in losses}
    assert len(found) == len(losses)
    assert all(loss.count > 0 and f"{loss.count:,}" in loss.text for loss in losses
               if loss.kind != "attributes")  # fmt: skip
    return found


def there_and_back(folder: Path, format: str, network: Path) -> tuple[dict[str, int], Path | None]:
    """What the export of a network said to be lost, and the file of its import."""
    path = folder / f"out{EXPORTS[format].extensions[0]}"
    with NetworkFile(network) as net:
        losses = lost(export_network(net, path))
        nothing = net.meta.synapses == 0
    back = folder / "back.bin"
    if nothing and format in ("csv", "parquet"):
        with pytest.raises(BadInputError, match="no neurons"):
            import_network(path, back, threads=1)
        return losses, None
    import_network(path, back, threads=1)
    return losses, back


def compare(losses: dict[str, int], network: Path, back: Path | None, unit: float) -> None:
    """What came back is the network, but for what was said to be lost."""
    anonymous = bool({"ids", "names"} & losses.keys())
    old = held(network, by_number=anonymous)
    alone = set(old.sizes) - {name for ends in old.edges for name in ends}
    assert losses.get("isolated", 0) == (len(alone) if "isolated" in losses else 0)
    if back is None:
        assert len(alone) == len(old.sizes) == losses["isolated"]
        return
    new = held(back, by_number=anonymous)
    kept = set(old.sizes) - alone if "isolated" in losses else set(old.sizes)
    assert set(new.sizes) == kept
    if "sizes" in losses:
        assert losses["sizes"] == sum(size != 1 for size in old.sizes.values())
        assert set(new.sizes.values()) <= {1}
    else:
        assert new.sizes == {name: old.sizes[name] for name in kept}
    scale = unit if "fractions" in losses else 1
    expected = dict(old.edges)
    if "directions" in losses:
        expected = {}
        for ends, weight in old.edges.items():
            expected[frozenset(ends)] = expected.get(frozenset(ends), 0) + weight
        assert new.undirected
    elif "undirected" in losses:
        assert losses["undirected"] == len(old.edges)
        assert not new.undirected
        pairs = {frozenset(ends): weight for ends, weight in new.edges.items()}
        assert pairs == pytest.approx(expected)
        return
    else:
        assert new.undirected == old.undirected or not old.edges
    assert {k: w * scale for k, w in new.edges.items()} == pytest.approx(expected, rel=1e-7)


MOST = 2**24 - 1  # importers round fractions that no decimal holds to 24 bits
UNITS = st.sampled_from([1.0, 0.1, 0.001, 0.25, 2.0**-20])
LETTERS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="\ufeff"),
    max_size=6,
)
# two blanks and marks that csv, XML and SONATA's readers have to get right; no number has a #
NAMES = LETTERS.map(lambda text: f"#{text}, \"'&<]]>;z")


@st.composite
def nets(draw: st.DrawFn) -> Net:
    vertices = draw(st.integers(1, 12))
    ends = st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1))
    drawn = draw(st.dictionaries(ends, st.integers(0, 5) | st.integers(1, MOST), max_size=25))
    undirected = draw(st.booleans())
    edges = {
        (u, v): weight
        for (u, v), weight in drawn.items()
        if u != v and not (undirected and u > v and (v, u) in drawn)
    }
    each = {"min_size": vertices, "max_size": vertices}
    named = st.lists(NAMES, unique=True, **each) | st.lists(
        st.integers(0, 40) | st.integers(0, 2**63 - 1), unique=True, **each
    )
    return Net(
        vertices,
        edges,
        undirected,
        draw(UNITS),
        draw(st.none() | st.lists(st.integers(0, 9), **each)),
        draw(st.none() | named),
        draw(st.none() | st.lists(st.integers(0, 9), **each)),
        draw(st.none() | st.lists(st.integers(0, 1), **each)),
        draw(st.sampled_from([1, 4, None])),
    )


RARE = Net(3, {(0, 2): 2**24, (2, 0): 3}, names=[7, 2**63 - 1, 0], unit=0.001, sizes=[0, 1, 5])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow,
          HealthCheck.function_scoped_fixture])  # fmt: skip
@given(net=nets())
def test_round_trip(format: str, net: Net, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("net")
    network = net.write(folder / "net.bin")
    losses, back = there_and_back(folder, format, network)
    told = set(losses)
    if format == "hmetis":
        check_hyperedges(net, losses, back)
    else:
        compare(losses, network, back, net.unit)
        assert not told & {"sources", "weights"}
    assert told <= (set(KINDS) - set(EXPORTS[format].holds)) | {*SEEN}
    if net.rates is not None and format == "npz" and back is not None:
        assert held(back).extras["rate"] == held(network).extras["rate"]
    if net.population is not None:
        if format == "npz" and back is not None:
            assert held(back).extras["population"] == held(network).extras["population"]
        else:
            assert losses["attributes"] == 1
    if net.rates is not None and format not in ("npz", "hmetis"):
        assert losses["rates"] == net.vertices


def check_hyperedges(net: Net, losses: dict[str, int], back: Path | None) -> None:
    """By the lines of the file: whose axon, which weight, which pins."""
    assert back is not None
    targets: dict[int, dict[int, int]] = {}
    for (u, v), weight in net.edges.items():
        targets.setdefault(u, {})[v] = weight
        if net.undirected:
            targets.setdefault(v, {})[u] = weight
    lines = (back.parent / "out.hgr").read_text().splitlines()
    words = lines[0].split()
    fmt = words[2] if len(words) == 3 else "0"
    assert [int(word) for word in words[:2]] == [len(targets), net.vertices]
    differing = 0
    for line, (u, own) in zip(lines[1:], sorted(targets.items()), strict=False):
        pins = [int(word) for word in line.split()]
        weight = pins.pop(0) if fmt in ("1", "11") else 1
        assert weight == (max(own.values()) if net.rates is None else net.rates[u])
        assert pins == [u + 1, *(v + 1 for v in sorted(own))]
        rate = weight * (net.unit if net.rates is None else 1)
        differing += sum(round(w * net.unit, 12) != round(rate, 12) for w in own.values())
    assert losses.get("weights", 0) == differing
    assert losses.get("sources", 0) == len(targets)
    assert ("fractions" in losses) == (bool(targets) and net.rates is None and net.unit != 1)
    if net.rates is not None:
        assert losses.get("rates", 0) == net.vertices - len(targets)
    assert ("undirected" in losses) == (net.undirected and bool(net.edges))
    sizes = [int(line) for line in lines[1 + len(targets) :]]
    assert sizes == (net.sizes or [])
    with NetworkFile(back) as found:
        # a hyperedge of which nobody is the source before gets a neuron of its own, which is none
        assert found.vertices == net.vertices
        assert found.meta.synapses == sum(len(own) for own in targets.values())


def test_ids_that_need_all_bits(format: str, tmp_path: Path) -> None:
    losses, back = there_and_back(tmp_path, format, RARE.write(tmp_path / "net.bin"))
    if format != "hmetis":
        compare(losses, tmp_path / "net.bin", back, RARE.unit)


@pytest.mark.parametrize("undirected", [False, True])
def test_many_blocks(format: str, undirected: bool, tmp_path: Path) -> None:
    """Some thousand synapses in blocks of seven neurons, weights that no decimal holds."""
    rng = np.random.default_rng(3)
    with NetworkWriter(tmp_path / "net.bin", 200, undirected=undirected, block_size=7) as writer:
        source, target = rng.integers(0, 190, (2, 3000))
        keys = np.unique(np.minimum(source, target) * 200 + np.maximum(source, target))
        writer.add(keys // 200, keys % 200, rng.random(keys.size))
        writer.set_attribute("id", rng.permutation(10**6)[:200])
        writer.set_attribute("size", rng.integers(0, 5, 200))
        meta = writer.finish()
    losses, back = there_and_back(tmp_path, format, tmp_path / "net.bin")
    assert meta.synapses > 2500
    if format != "hmetis":
        compare(losses, tmp_path / "net.bin", back, meta.weight_unit)


def test_one_neuron(format: str, tmp_path: Path) -> None:
    losses, back = there_and_back(tmp_path, format, Net(1, {}).write(tmp_path / "net.bin"))
    assert losses == ({"isolated": 1} if format in ("csv", "parquet") else {})
    if back is not None:
        with NetworkFile(back) as net:
            assert (net.vertices, net.meta.synapses) == (1, 0)


def test_gzip(format: str, tmp_path: Path) -> None:
    """Text is gzipped if the name says so; other formats refuse the name."""
    network = Net(3, {(0, 1): 2, (1, 2): 3}).write(tmp_path / "net.bin")
    ending = EXPORTS[format].extensions[0]
    packed = tmp_path / f"a{ending}.gz"
    with NetworkFile(network) as net:
        if not EXPORTS[format].text:
            with pytest.raises(BadInputError, match=f"{format} files are not gzipped"):
                export_network(net, packed)
            assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]
            return
        export_network(net, packed)
        export_network(net, tmp_path / f"a{ending}")
    assert gzip.decompress(packed.read_bytes()) == (tmp_path / f"a{ending}").read_bytes()
    import_network(packed, tmp_path / "back.bin")


def test_same_bytes_again(format: str, tmp_path: Path) -> None:
    network = Net(3, {(0, 1): 2, (1, 2): 3}, sizes=[1, 2, 3]).write(tmp_path / "net.bin")
    ending = EXPORTS[format].extensions[0]
    with NetworkFile(network) as net:
        for name in ("a", "b"):
            export_network(net, tmp_path / f"{name}{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace", "writing"])
def test_a_full_disk_leaves_nothing(
    format: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Net(3, {(0, 1): 2, (1, 2): 3}).write(tmp_path / "net.bin")
    path = tmp_path / f"a{EXPORTS[format].extensions[0]}"
    with NetworkFile(network) as net:
        if where == "writing":
            if format == "sonata":
                pytest.skip("HDF5 writes by itself; see the test of limits in tests/mapper")

            def refuse(self: Any, data: bytes) -> None:
                raise WriteError(f"{self.path}: cannot write: No space left on device")

            monkeypatch.setattr("storage.files.PartialFile.write", refuse)
        else:
            monkeypatch.setattr(where, fail)
        with pytest.raises(WriteError, match="No space left"):
            export_network(net, path)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_no_such_folder(format: str, tmp_path: Path) -> None:
    network = Net(3, {(0, 1): 2}).write(tmp_path / "net.bin")
    path = tmp_path / "none" / f"a{EXPORTS[format].extensions[0]}"
    with NetworkFile(network) as net, pytest.raises(WriteError, match="none/a"):
        export_network(net, path)
    (tmp_path / "folder.x").mkdir()
    with NetworkFile(network) as net, pytest.raises(WriteError, match="is a folder"):
        export_network(net, tmp_path / "folder.x", format)


@pytest.mark.parametrize("name", NEEDS)
def test_missing_library(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = Net(3, {(0, 1): 2}).write(tmp_path / "net.bin")
    monkeypatch.setitem(sys.modules, NEEDS[name], None)
    with (
        NetworkFile(network) as net,
        pytest.raises(BadInputError, match=rf"pip install 'neuromapper\[{EXTRAS[name]}\]'"),
    ):
        export_network(net, tmp_path / "a", name)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


CALLED = ("csv", "parquet", "graphml", "sonata")  # formats that hold names


@pytest.mark.parametrize("name", CALLED)
def test_two_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    """A file would make one neuron of them."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    for names, shown in ((["x", "y", "x"], "'x'"), ([4, 9, 4], "4")):
        network = Net(3, {(0, 1): 2}, names=names).write(tmp_path / "net.bin")  # type: ignore[arg-type]
        with (
            NetworkFile(network) as net,
            pytest.raises(BadInputError, match=f"two neurons are called {shown}"),
        ):
            export_network(net, tmp_path / "a", name)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]
    with NetworkFile(network) as net:
        export_network(net, tmp_path / "a.npz")
    import_network(tmp_path / "a.npz", tmp_path / "back.bin")
    with NetworkFile(tmp_path / "back.bin") as net:
        assert net.attribute("id").stored.tolist() == [4, 9, 4]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("csv", " x"),
        ("csv", "x\ny"),
        ("csv", ""),
        ("graphml", "\x01"),
        ("sonata", "x\0y"),
        ("npz", "x\0"),
    ],
)
def test_names_that_would_change_are_refused(name: str, wrong: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    network = Net(2, {(0, 1): 2}, names=["a", wrong]).write(tmp_path / "net.bin")
    with NetworkFile(network) as net, pytest.raises(BadInputError) as caught:
        export_network(net, tmp_path / "a", name)
    assert repr(wrong) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["net.bin"]


def test_negative_ids_are_refused(tmp_path: Path) -> None:
    network = Net(2, {(0, 1): 2}, names=[-3, 4]).write(tmp_path / "net.bin")
    with NetworkFile(network) as net, pytest.raises(BadInputError, match="the id -3"):
        export_network(net, tmp_path / "a.csv")


def networkx_of(path: Path) -> dict[Any, float]:
    graph = pytest.importorskip("networkx").read_graphml(path)
    return {(u, v): w for u, v, w in graph.edges(data="weight")}


def scipy_of(path: Path) -> dict[Any, float]:
    read: Callable[[Path], Any] = import_module("scipy.sparse").load_npz
    if path.suffix == ".mtx":
        read = import_module("scipy.io").mmread
    matrix = read(path).tocoo()
    ends = zip(matrix.row.tolist(), matrix.col.tolist(), strict=True)
    pairs = zip(((str(u), str(v)) for u, v in ends), matrix.data.tolist(), strict=True)
    return dict(pairs)


def arrow_of(path: Path) -> dict[Any, float]:
    table = pytest.importorskip("pyarrow.parquet").read_table(path).to_pydict()
    ends = zip(table["source"], table["target"], strict=True)
    return {(str(u), str(v)): w for (u, v), w in zip(ends, table["weight"], strict=True)}


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize(
    ("name", "read"),
    [("a.graphml", networkx_of), ("a.npz", scipy_of), ("a.mtx", scipy_of), ("a.parquet", arrow_of)],
)
def test_others_read_it(
    name: str, read: Callable[[Path], dict[Any, float]], undirected: bool, tmp_path: Path
) -> None:
    if name == "a.parquet":
        pytest.importorskip("pyarrow")
    edges = {(0, 1): 5, (1, 4): 3, (2, 3): 1000}
    network = Net(6, edges, undirected, 0.001, [1, 2, 3, 4, 5, 6]).write(tmp_path / "net.bin")
    with NetworkFile(network) as net:
        export_network(net, tmp_path / name)
    expected = {(str(u), str(v)): w / 1000 for (u, v), w in edges.items()}
    if undirected and read is scipy_of:
        expected |= {(v, u): w for (u, v), w in expected.items()}
    assert read(tmp_path / name) == expected
