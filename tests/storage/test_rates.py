"""Networks with firing rates: weights, records and metadata, compared with a slow computation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.errors import BadInputError, WriteError
from storage.store.network import NetworkFile
from storage.store.rates import write_rated
from storage.store.traffic import ROUNDED
from storage.store.writer import NetworkWriter
from tests.storage.formats.conftest import attributes_of, edges_of

N = 7
Pairs = list[tuple[int, int]]


def make(path: Path, pairs: Pairs, undirected: bool = False, block_size: int = 2) -> None:
    with NetworkWriter(path, N, undirected=undirected, block_size=block_size) as writer:
        ends = np.array(pairs, np.int64).reshape(-1, 2).T
        writer.add(ends[0], ends[1], np.full(len(pairs), 0.75))
        writer.set_attribute("rate", np.full(N, 9))
        writer.set_attribute("kind", np.arange(N) % 2, ["a", "b"])
        writer.finish()


RATE = st.integers(0, 40).map(lambda value: value / 8) | st.floats(0, 1e6)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), max_size=40),
    st.lists(RATE, min_size=N, max_size=N),
    st.booleans(),
    st.integers(1, 2),
)
def test_synapses_carry_the_rate_of_their_source(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: Pairs,
    rates: list[float],
    undirected: bool,
    threads: int,
) -> None:
    folder = tmp_path_factory.mktemp("rates")
    make(folder / "a.bin", pairs, undirected)
    with NetworkFile(folder / "a.bin") as network:
        before = network.meta
        meta = write_rated(network, folder / "b.bin", np.array(rates), source="r", threads=threads)
    unit = meta.weight_unit
    stored = [max(round(rate / unit), 1 if rate > 0 else 0) for rate in rates]
    expected: dict[tuple[int, int], float] = {}
    for u, v in pairs:
        if u == v:
            continue
        pair = (min(u, v), max(u, v)) if undirected else (u, v)
        own = stored[u] + stored[v] if undirected else stored[u]
        expected[pair] = expected.get(pair, 0) + own * unit
    assert edges_of(folder / "b.bin") == pytest.approx(expected, abs=0)
    assert attributes_of(folder / "b.bin") == {
        "kind": [v % 2 for v in range(N)],
        "rate": [value * unit for value in stored],
    }
    assert np.allclose(attributes_of(folder / "b.bin")["rate"], rates, rtol=1e-6, atol=unit)
    assert meta.total_weight * unit == pytest.approx(sum(expected.values()))
    for name in ("neurons", "synapses", "synapses_read", "repeated", "self_loops", "undirected"):
        assert getattr(meta, name) == getattr(before, name)
    provenance = {name: fact for name, fact in meta.provenance.items() if name not in ROUNDED}
    assert provenance == {"traffic": {"source": "rates", "file": "r"}}


def test_whole_rates_keep_the_unit_one(tmp_path: Path) -> None:
    make(tmp_path / "a.bin", [(0, 1), (0, 1), (2, 0)])
    with NetworkFile(tmp_path / "a.bin") as network:
        meta = write_rated(network, tmp_path / "a.bin", np.arange(N) + 5)  # overwrites its source
    assert (meta.weight_unit, meta.total_weight, meta.weights_are_rates) == (1, 17, True)
    assert edges_of(tmp_path / "a.bin") == {(0, 1): 10, (2, 0): 7}


def test_bytes_do_not_depend_on_threads(tmp_path: Path) -> None:
    make(tmp_path / "a.bin", [(i % N, (i * 3 + 1) % N) for i in range(50)])
    with NetworkFile(tmp_path / "a.bin") as network:
        for threads in (1, 3):
            rates = np.linspace(0, 3, N)
            write_rated(network, tmp_path / f"{threads}.bin", rates, threads=threads)
    assert (tmp_path / "1.bin").read_bytes() == (tmp_path / "3.bin").read_bytes()


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([1, 2], "r: rates have shape 2; the network has 7 neurons"),
        (np.ones((N, 1)), "r: rates have shape 7 x 1; the network has 7 neurons"),
        (3, "r: rates have shape (); the network has"),
        (["x"] * N, "r: rates are <U1; give numbers"),
        ([1, 2, np.nan, 4, 5, 6, 7], "r: rate of neuron 2 (from 0): nan is not finite"),
        ([1, 2, 3, np.inf, 5, 6, 7], "r: rate of neuron 3 (from 0): inf is not finite"),
        ([1, -0.5, 3, 4, 5, 6, 7], "r: rate of neuron 1 (from 0): -0.5 is negative"),
    ],
)
def test_faults(rates: Any, message: str, tmp_path: Path) -> None:
    make(tmp_path / "a.bin", [(0, 1)])
    with NetworkFile(tmp_path / "a.bin") as network, pytest.raises(BadInputError) as caught:
        write_rated(network, tmp_path / "b.bin", np.asarray(rates), source="r")
    assert message in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_traffic_that_readers_refuse(tmp_path: Path) -> None:
    make(tmp_path / "a.bin", [(0, 1), (1, 2), (2, 3)])
    with (
        NetworkFile(tmp_path / "a.bin") as network,
        pytest.raises(BadInputError, match=r"^r: the sum of weights exceeds 1e\+304"),
    ):
        write_rated(network, tmp_path / "b.bin", np.full(N, 4e303), source="r")
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_traffic_beyond_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a.bin", [(0, 1), (1, 2)])
    with NetworkFile(tmp_path / "a.bin") as network:
        monkeypatch.setattr("storage.store.rates.MAX_TOTAL", 20.0)
        write_rated(network, tmp_path / "b.bin", np.full(N, 4))
        with pytest.raises(BadInputError, match="rate: the total traffic exceeds"):
            write_rated(network, tmp_path / "c.bin", np.full(N, 5))
    assert not (tmp_path / "c.bin").exists()


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    make(tmp_path / "a.bin", [(0, 1)])
    with NetworkFile(tmp_path / "a.bin") as network, pytest.raises(WriteError):
        write_rated(network, tmp_path / "none" / "b.bin", np.ones(N))


def test_rates_replace_rounded_weights(tmp_path: Path) -> None:
    """The recorded error of the weights is replaced by the error of the rates."""
    with NetworkWriter(tmp_path / "a.bin", 3) as writer:
        writer.add(np.array([0, 1]), np.array([1, 2]), np.array([1e12, 1e-12]))
        meta = writer.finish({"format": "arrays"})
    assert meta.provenance["weights_rounded"] == 2
    with NetworkFile(tmp_path / "a.bin") as network:
        meta = write_rated(network, tmp_path / "b.bin", np.array([1, 2, 3]))
    assert meta.provenance == {"format": "arrays", "traffic": {"source": "rates"}}


def test_rounded_rates_are_counted(tmp_path: Path) -> None:
    """Rates from a file, and rates in the network."""
    rates = np.array([1e12, 1e-12, 0.0])
    with NetworkWriter(tmp_path / "a.bin", 3) as writer:
        writer.add(np.array([0, 1]), np.array([1, 2]))
        writer.set_attribute("rate", rates)
        first = writer.finish()
    with NetworkFile(tmp_path / "a.bin") as network:
        second = write_rated(network, tmp_path / "b.bin", rates)
    with NetworkFile(tmp_path / "b.bin") as network:
        third = write_rated(network, tmp_path / "c.bin", np.array([1, 2, 3]))
    for meta in (first, second):
        assert meta.provenance["rates_rounded"] == 2
        assert meta.provenance["rates_error"] == pytest.approx(65536e12)
    assert "rates_rounded" not in third.provenance
