"""Networks with synaptic weights: version 2 of net.bin."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.evaluation.verify import verify_network
from storage.errors import BadInputError, CorruptError
from storage.store.network import NetworkFile, weights_member
from storage.store.rates import write_rated
from storage.store.weights import DOUBLE, SINGLE, WHOLE
from storage.store.writer import NetworkWriter
from tests.storage import stranger
from tests.storage.stranger_weights import read_weights

Pairs = dict[tuple[int, int], float]
WEIGHTS: dict[str, Any] = {
    "whole": st.integers(-(2**52), 2**52),
    "small": st.integers(-3, 3),
    "decimal": st.decimals(-1000, 1000, places=3).map(float),
    "single": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "real": st.floats(-1e300, 1e300),
}


def summed(edges: list[tuple[int, int, float]], undirected: bool) -> Pairs:
    """Return the expected column: undirected in both directions, sums in input order."""
    found: Pairs = {}
    for s, t, w in edges:
        for pair in {(s, t), (t, s)} if undirected else {(s, t)}:
            found[pair] = found.get(pair, 0.0) + w
    return found


def write(path: Path, neurons: int, edges: list[Any], **options: Any) -> Any:
    step = options.pop("step", 7)
    with NetworkWriter(path, neurons, weights="synapse", **options) as writer:
        for first in range(0, len(edges), step):
            part = edges[first : first + step]
            source, target = (np.array([e[k] for e in part], np.int64) for k in (0, 1))
            writer.add(source, target, np.array([e[2] for e in part]))
        return writer.finish()


def column(path: Path) -> Pairs:
    with NetworkFile(path) as network:
        parts = [network.read_synapses(index) for index in range(network.block_count)]
    rows = [row for part in parts for row in zip(*(a.tolist() for a in part), strict=True)]
    assert [row[:2] for row in rows] == sorted({row[:2] for row in rows})
    return {(s, t): w for s, t, w in rows}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=60)
@given(data=st.data())
def test_random_networks(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    neurons = data.draw(st.integers(1, 9))
    neuron = st.integers(0, neurons - 1)
    weight = WEIGHTS[data.draw(st.sampled_from(sorted(WEIGHTS)))]
    edges = data.draw(st.lists(st.tuples(neuron, neuron, weight), max_size=30))
    undirected, path = data.draw(st.booleans()), tmp_path_factory.mktemp("net") / "net.bin"
    how = {"threads": data.draw(st.integers(1, 2)), "step": data.draw(st.integers(1, 30))}
    how["block_size"] = data.draw(st.integers(1, neurons + 1))
    meta = write(path, neurons, edges, undirected=undirected, **how)
    expected = summed(edges, undirected)
    assert column(path) == expected
    assert read_weights(str(path)) == expected
    assert verify_network(path)["neurons"] == neurons
    about = meta.synaptic
    assert about.self_loops == sum(s == t for s, t in expected)
    assert about.negative == sum(w < 0 for w in expected.values())
    assert about.zeros == sum(w == 0 for w in expected.values())
    assert (about.least, about.largest) == (
        min(expected.values(), default=0),
        max(expected.values(), default=0),
    )
    # without rates each neuron fires once: an edge carries the spikes of both ends
    assert meta.total_weight == sum(s != t for s, t, _ in edges) * (1 + undirected)


@pytest.mark.parametrize(
    ("weights", "kind"),
    [
        ([-(2**53) + 1, 0, 5], WHOLE),
        ([-0.5, 2.0**100, 0.0], SINGLE),
        ([0.1, 1, 2], DOUBLE),
    ],
)
def test_weights_use_the_smallest_lossless_encoding(
    weights: list[float], kind: int, tmp_path: Path
) -> None:
    path = tmp_path / "net.bin"
    edges = [(k, (k + 1) % 3, w) for k, w in enumerate(weights)]
    write(path, 3, edges)
    with zipfile.ZipFile(path) as archive:
        assert archive.read(weights_member(0))[0] == kind
    assert column(path) == summed(edges, False)


def test_memory_and_threads_change_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = zip(
        *rng.integers(0, 40, (2, 3000)).tolist(), rng.normal(size=3000).tolist(), strict=True
    )
    edges, found = list(rows), []
    for name, how in {"a": {"memory": 1, "threads": 2}, "b": {"threads": 1, "step": 999}}.items():
        write(tmp_path / name, 40, edges, block_size=8, **how)
        with zipfile.ZipFile(tmp_path / name) as archive:
            found.append({m: archive.read(m) for m in archive.namelist()})
    assert found[0] == found[1]
    assert column(tmp_path / "a") == summed(edges, False)


def test_traffic_is_the_rate_of_the_source(tmp_path: Path) -> None:
    edges = [(0, 1, -5), (0, 1, 2), (1, 2, 0), (2, 2, 7), (2, 0, 4)]
    write(tmp_path / "net.bin", 3, edges)
    rates = np.array([2.5, 0.0, 3.0])
    with NetworkFile(tmp_path / "net.bin") as network:
        meta = write_rated(network, tmp_path / "rated.bin", rates)
    assert meta.synaptic is not None
    assert meta.version == 2
    assert column(tmp_path / "rated.bin") == summed(edges, False)
    assert stranger.synapses(stranger.read(str(tmp_path / "rated.bin"))) == [
        (0, 1, 5.0), (1, 2, 0.0), (2, 0, 3.0),
    ]  # fmt: skip
    with NetworkWriter(tmp_path / "known.bin", 3, weights="synapse") as writer:
        source, target, weight = (np.array(row) for row in zip(*edges, strict=True))
        writer.add(source, target, weight)
        writer.set_attribute("rate", rates)
        writer.finish()
    read = [stranger.read(str(tmp_path / name)) for name in ("known.bin", "rated.bin")]
    assert read[0]["lists"] == read[1]["lists"]


def test_both(tmp_path: Path) -> None:
    """On request the magnitude is the traffic; the signed weight is also stored."""
    with NetworkWriter(tmp_path / "net.bin", 2, weights="both") as writer:
        writer.add(np.array([0, 1]), np.array([1, 0]), np.array([-3, 2]))
        meta = writer.finish()
    assert meta.total_weight == 5
    assert column(tmp_path / "net.bin") == {(0, 1): -3.0, (1, 0): 2.0}


def test_without_weights_it_is_version_1(tmp_path: Path) -> None:
    with NetworkWriter(tmp_path / "net.bin", 2) as writer:
        writer.add(np.array([0]), np.array([1]), np.array([3]))
        writer.finish()
    with zipfile.ZipFile(tmp_path / "net.bin") as archive:
        meta = json.loads(archive.read("meta.json"))
        assert not [name for name in archive.namelist() if name.startswith("weights/")]
    assert meta["version"] == 1
    assert "synaptic" not in meta
    with NetworkFile(tmp_path / "net.bin") as network, pytest.raises(KeyError):
        network.read_synapses(0)


def test_real_attributes(tmp_path: Path) -> None:
    values = np.array([0.1, -1e-300, 1 / 3])
    with NetworkWriter(tmp_path / "net.bin", 3) as writer:
        writer.set_real("v_threshold", values)
        assert writer.finish().needed_version == 2
    with NetworkFile(tmp_path / "net.bin") as network:
        assert np.array_equal(network.attribute("v_threshold").values, values)
    assert stranger.read(str(tmp_path / "net.bin"))["attributes"] == {"v_threshold": [*values]}
    assert verify_network(tmp_path / "net.bin")["neurons"] == 3
    with NetworkWriter(tmp_path / "no.bin", 3) as writer:
        with pytest.raises(BadInputError, match="not finite"):
            writer.set_real("v_threshold", np.array([1, np.inf, 2]))
        with pytest.raises(BadInputError, match="2 values for 3 neurons"):
            writer.set_real("v_threshold", np.ones(2))


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        (np.array([np.nan]), "weight nan is not finite"),
        (np.array([-np.inf]), "weight -inf is not finite"),
        (np.array([-(2**53)]), "exceeds 2^53"),
    ],
)
def test_weights_that_cannot_be_stored(weight: Any, told: str, tmp_path: Path) -> None:
    with (
        NetworkWriter(tmp_path / "net.bin", 2, weights="synapse") as writer,
        pytest.raises(BadInputError) as caught,
    ):
        writer.add(np.array([0]), np.array([1]), weight)
    assert told in str(caught.value)
    assert not (tmp_path / "net.bin").exists()


def test_sums_beyond_float64(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="exceeds 1e308"):
        write(tmp_path / "net.bin", 2, [(0, 1, 1.2e308), (0, 1, 1.2e308)])


def test_damage_is_detected(tmp_path: Path) -> None:
    """Any content of a member of weights is read as weights or refused in one line."""
    path = tmp_path / "net.bin"
    write(path, 4, [(0, 1, -5), (1, 1, 0.25), (2, 3, 7), (3, 3, 1)])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    good, refused = members["weights/00000000"], 0
    assert verify_network(path)["synapses"] == 2
    for place in range(len(good)):
        for value in (0, 1, 3, 127, 128, 255):
            raw = good[:place] + bytes([value]) + good[place + 1 :]
            damaged = tmp_path / "damaged.bin"
            with zipfile.ZipFile(damaged, "w") as archive:
                for name, data in members.items():
                    archive.writestr(name, raw if name == "weights/00000000" else data)
            try:
                with NetworkFile(damaged) as network:
                    network.read_synapses(0)
            except CorruptError as error:
                assert "weights/00000000" in str(error)
                refused += 1
    assert refused > 10
