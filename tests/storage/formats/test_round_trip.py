"""Round trips of every exporter: the network is unchanged except for the reported losses."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError
from storage.formats import EXPORTS, export_network, import_network
from storage.formats.losses import KINDS
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.storage.formats.nets import Net, compare, held, there_and_back

SEEN = "isolated", "sources", "weights"  # kinds of losses found only in the synapses


MOST = 2**24 - 1  # importers round non-decimal fractions to 24 bits
UNITS = st.sampled_from([1.0, 0.1, 0.001, 0.25, 2.0**-20])
LETTERS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="\ufeff"),
    max_size=6,
)
# blanks and marks that are special in csv, XML and SONATA; numbers have no #
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


@pytest.mark.heavy
@pytest.mark.sample(1)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow,
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
    """Check the lines of the file: source, weight and pins of each hyperedge."""
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
        # no hyperedge needs an additional source neuron
        assert found.vertices == net.vertices
        assert found.meta.synapses == sum(len(own) for own in targets.values())


def test_ids_that_need_all_bits(format: str, tmp_path: Path) -> None:
    losses, back = there_and_back(tmp_path, format, RARE.write(tmp_path / "net.bin"))
    if format != "hmetis":
        compare(losses, tmp_path / "net.bin", back, RARE.unit)


@pytest.mark.sample(6)
@pytest.mark.parametrize("undirected", [False, True])
def test_many_blocks(format: str, undirected: bool, tmp_path: Path) -> None:
    """Some thousand synapses in blocks of seven neurons, with non-decimal weights."""
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
    """Text is gzipped if the name ends in .gz; other formats refuse the name."""
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


def test_output_is_reproducible(format: str, tmp_path: Path) -> None:
    network = Net(3, {(0, 1): 2, (1, 2): 3}, sizes=[1, 2, 3]).write(tmp_path / "net.bin")
    ending = EXPORTS[format].extensions[0]
    with NetworkFile(network) as net:
        for name in ("a", "b"):
            export_network(net, tmp_path / f"{name}{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
