"""Synthetic networks: counts, statistics, seeds, and shuffled ids."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.generate import (
    KINDS,
    VERSIONS,
    Cortex,
    Draws,
    GroupCnn,
    GroupDnn,
    Layered,
    Microcircuit,
    NetworkSpec,
    cortex,
    draws,
    generate,
)
from storage.generate.layered import window_starts
from storage.store.network import NetworkFile

Array = np.ndarray[Any, Any]
SMALL: list[NetworkSpec] = [
    Cortex(side=7, fanout=4, sigma=1.5, long_range=0.2),
    Layered(layers="5x4x2,3x4x3,1x1x6", kernel=3),
    Microcircuit(scale=0.002),
    GroupDnn(size=5),
    GroupCnn(size=6),
]
small = pytest.mark.parametrize("spec", SMALL, ids=lambda spec: spec.kind)


version = pytest.mark.parametrize("version", VERSIONS)


def all_edges(
    spec: NetworkSpec, seed: int = 3, version: int = max(VERSIONS)
) -> tuple[Array, Array, Array]:
    chunks = [part() for part in spec.edges(Draws(seed, version))]
    source, target, weight = (np.concatenate(part) for part in zip(*chunks, strict=True))
    return source, target, weight


def contents(path: Path) -> tuple[dict[tuple[int, int], int], dict[str, list[int]]]:
    edges = {}
    with NetworkFile(path) as net:
        for block in net.blocks():
            indptr, ids, weights = block.outgoing()
            for v in range(block.vertices):
                for e in range(indptr[v], indptr[v + 1]):
                    edges[block.first + v, int(ids[e])] = int(weights[e])
        values = {name: net.attribute(name).stored.tolist() for name in net.meta.attributes}
    return edges, values


@small
def test_edges_are_well_formed(spec: NetworkSpec) -> None:
    source, target, weight = all_edges(spec)
    assert np.issubdtype(source.dtype, np.integer)
    assert np.issubdtype(target.dtype, np.integer)
    assert min(source.min(), target.min()) >= 0
    assert max(source.max(), target.max()) < spec.neurons
    assert 0 < source.size <= spec.synapses
    assert weight.min() >= 0


@small
def test_one_stream_is_independent_of_chunks(
    spec: NetworkSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = all_edges(spec, version=1)
    monkeypatch.setattr(draws, "CHUNK", 7)
    chunks = [part() for part in spec.edges(Draws(3, 1))]
    assert max(source.size for source, _, _ in chunks) <= 7
    for one, other in zip(whole, all_edges(spec, version=1), strict=True):
        np.testing.assert_array_equal(one, other)


@small
def test_chunks_are_drawn_in_any_order(spec: NetworkSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "CHUNK", 7)
    whole = all_edges(spec)
    last_first = [part() for part in reversed(list(spec.edges(Draws(3))))]
    for one, chunks in zip(whole, zip(*last_first, strict=True), strict=True):
        np.testing.assert_array_equal(one, np.concatenate(chunks[::-1]))


def test_streams_are_distinct() -> None:
    """Each chunk of each purpose of each seed has distinct, reproducible numbers."""

    def numbers(seed: int, purpose: int, chunk: int) -> tuple[int, ...]:
        return tuple(Draws(seed).stream(purpose).of(chunk).integers(0, 1 << 62, 4).tolist())

    keys = list(np.ndindex(3, 3, 5))
    assert len({number for key in keys for number in numbers(*key)}) == 4 * len(keys)
    assert numbers(1, 2, 3) == numbers(1, 2, 3)
    # definition of Philox: key from seed and purpose, chunk in the upper word of the counter
    key = np.random.SeedSequence(1, spawn_key=(0, 2)).generate_state(2, np.uint64)
    plain = np.random.Philox(key=key, counter=np.array([0, 0, 0, 3], np.uint64))
    expected = np.random.Generator(plain).integers(0, 1 << 62, 4)
    assert numbers(1, 2, 3) == tuple(expected.tolist())


@version
@small
def test_seed_decides(
    spec: NetworkSpec, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "CHUNK", 16)  # several per thread
    files = {name: tmp_path / name for name in "abc"}
    generate(spec, files["a"], seed=1, draws=version, threads=1)
    meta = generate(spec, files["b"], seed=1, draws=version, memory=1 << 28, threads=2)
    assert files["a"].read_bytes() == files["b"].read_bytes()
    generate(spec, files["b"], seed=1, draws=version, memory=1 << 16, threads=2)
    assert files["a"].read_bytes() == files["b"].read_bytes()
    generate(spec, files["c"], seed=2, draws=version)
    assert contents(files["a"]) != contents(files["c"])
    assert meta.neurons == spec.neurons
    provenance = meta.provenance
    assert (provenance["generator"], provenance["seed"], provenance["shuffle"]) == (
        spec.kind, 1, False,
    )  # fmt: skip
    assert provenance.get("draws") == (None if version == 1 else version)
    assert KINDS[spec.kind] is type(spec)


EARLIER = {  # first digits of the SHA-256 of the edges of seed 1 in version 1
    "cortex": "0eb12dfd952e1d2f",
    "layered": "d9478e4a875e7319",
    "microcircuit": "3e381075cf3ff7e7",
    "group-dnn": "c7ee8247c6438d2c",
    "group-cnn": "4c437d16b1076db4",
}


@small
def test_networks_of_earlier_versions(spec: NetworkSpec, tmp_path: Path) -> None:
    """`--draws 1` reproduces them, for any default version."""
    generate(spec, tmp_path / "a", seed=1, draws=1)
    text = json.dumps(sorted(contents(tmp_path / "a")[0].items()))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == EARLIER[spec.kind]


def test_coordinates_of_both_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Cortex(side=11, fanout=6, sigma=30.0, long_range=0.2)
    found = all_edges(spec)
    monkeypatch.setattr(cortex, "NARROW", 0)
    for one, other in zip(found, all_edges(spec), strict=True):
        np.testing.assert_array_equal(one, other)


@small
def test_shuffle_renames(spec: NetworkSpec, tmp_path: Path) -> None:
    generate(spec, tmp_path / "a", seed=5)
    meta = generate(spec, tmp_path / "b", seed=5, shuffle=True)
    assert meta.provenance["shuffle"]
    (edges, values), (renamed, moved) = contents(tmp_path / "a"), contents(tmp_path / "b")
    names = Draws(5).names(spec.neurons).tolist()
    assert sorted(names) == list(range(spec.neurons)) != names
    assert {(names[u], names[v]): w for (u, v), w in edges.items()} == renamed
    for name, column in values.items():
        assert [moved[name][names[v]] for v in range(spec.neurons)] == column


def test_progress(tmp_path: Path) -> None:
    seen: list[float] = []
    generate(GroupDnn(size=4), tmp_path / "a", progress=seen.append)
    assert seen[-1] == 1.0
    with pytest.raises(BadInputError, match="seed is -1"):
        generate(GroupDnn(size=4), tmp_path / "b", seed=-1)
    with pytest.raises(BadInputError, match="draws is 3"):
        generate(GroupDnn(size=4), tmp_path / "b", draws=3)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_cortex_statistics() -> None:
    spec = Cortex(side=60, fanout=20, sigma=3.0, long_range=0.1)
    source, target, weight = all_edges(spec)
    assert (np.bincount(source) == 20).all()
    assert (source != target).all()
    offset = np.stack([target % 60 - source % 60, target // 60 - source // 60])
    offset = (offset + 30) % 60 - 30
    near = np.abs(offset).max(axis=0) <= 12
    far_share = 1 - 25**2 / 60**2  # fraction of uniform targets farther than four sigma
    assert (~near).mean() == pytest.approx(0.1 * far_share, rel=0.05)
    assert all_edges(Cortex(60, 20, 3.0, 0.0))[0].size == 60 * 60 * 20
    local = all_edges(Cortex(60, 20, 3.0, 0.0))
    steps = (local[1] % 60 - local[0] % 60 + 30) % 60 - 30
    assert steps.std() == pytest.approx(3.0, rel=0.02)
    assert weight.min() == 1
    # floor of an exponential of mean m: 1 / (exp(1/m) - 1)
    assert weight.mean() == pytest.approx(1 + 1 / np.expm1(1 / 3), rel=0.02)


def test_cortex_self_targets_move_to_the_next_id() -> None:
    source, target, _ = all_edges(Cortex(side=4, fanout=2, sigma=0.0, long_range=0.0))
    np.testing.assert_array_equal(target, (source + 1) % 16)


def test_cortex_coordinates() -> None:
    values = Cortex(side=3, fanout=1).attributes(Draws(0))
    assert values["x"][0].tolist() == [0, 1, 2] * 3
    assert values["y"][0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def naive_layered(shapes: list[tuple[int, int, int]], kernel: int) -> set[tuple[int, int]]:
    """Return all pairs by definition, one at a time."""
    pairs = set()
    start = 0
    for (h, w, c), (h2, w2, c2) in pairwise(shapes):
        for target in range(h2 * w2 * c2):
            y, x = divmod(target // c2, w2)
            top = (2 * y + 1) * h // (2 * h2) - kernel // 2
            left = (2 * x + 1) * w // (2 * w2) - kernel // 2
            for source in range(h * w * c):
                row, column = divmod(source // c, w)
                seen = 0 <= row - top < kernel and 0 <= column - left < kernel
                if seen or h2 == w2 == 1:
                    pairs.add((start + source, start + h * w * c + target))
        start += h * w * c
    return pairs


@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("shapes", [
    [(4, 4, 2), (4, 4, 3)], [(6, 5, 1), (3, 2, 2), (1, 1, 4)], [(2, 3, 2), (5, 7, 1)],
    [(1, 1, 3), (2, 2, 2)], [(7, 1, 2), (3, 1, 2)], [(1, 1, 5), (1, 1, 4)],
])  # fmt: skip
def test_layered_windows(kernel: int, shapes: list[tuple[int, int, int]]) -> None:
    spec = Layered(",".join("x".join(map(str, shape)) for shape in shapes), kernel)
    source, target, weight = all_edges(spec)
    expected = naive_layered(shapes, kernel)
    assert source.size == len(expected) <= spec.synapses
    assert set(zip(source.tolist(), target.tolist(), strict=True)) == expected
    attributes = spec.attributes(Draws(3))
    np.testing.assert_array_equal(weight, attributes["rate"][0][source])
    assert attributes["layer"][1] == [f"layer{i} {h}x{w}x{c}" for i, (h, w, c) in enumerate(shapes)]


def test_window_starts() -> None:
    assert window_starts(4, 4, 3).tolist() == [-1, 0, 1, 2]
    assert window_starts(4, 2, 2).tolist() == [0, 2]
    assert window_starts(8, 4, 3).tolist() == [0, 2, 4, 6]


def test_layered_rates() -> None:
    rate = Layered("50x50x4,1x1x1").attributes(Draws(1))["rate"][0]
    assert rate.min() == 1
    assert rate.mean() == pytest.approx(1 + 1 / np.expm1(1 / 4), rel=0.03)


def test_microcircuit_counts() -> None:
    full = Microcircuit()
    assert full.neurons == 77_169
    assert full.synapses == pytest.approx(299e6, rel=0.01)
    spec = Microcircuit(scale=0.01)
    source, target, weight = all_edges(spec)
    starts = np.append(0, np.cumsum(spec.sizes))
    found = np.zeros((8, 8), np.int64)
    into = np.searchsorted(starts, target, side="right") - 1
    onto = np.searchsorted(starts, source, side="right") - 1
    np.add.at(found, (into, onto), 1)
    np.testing.assert_array_equal(found, spec.counts)
    values = spec.attributes(Draws(3))
    assert values["population"][1][0] == "L2/3E"
    np.testing.assert_array_equal(values["population"][0][source], onto)
    np.testing.assert_array_equal(values["rate"][0][source], weight)


@pytest.mark.jit
def test_microcircuit_probability() -> None:
    """A pair within L4I is connected at least once with probability 0.1597."""
    spec = Microcircuit(scale=0.1)
    assert spec.neurons == pytest.approx(7717, abs=4)
    source, target, _ = all_edges(spec)
    starts = np.append(0, np.cumsum(spec.sizes))
    inside = (source >= starts[3]) & (source < starts[4])
    inside &= (target >= starts[3]) & (target < starts[4])
    pairs = np.unique(source[inside] * spec.neurons + target[inside]).size
    assert pairs / spec.sizes[3] ** 2 == pytest.approx(0.1597, rel=0.01)


def test_microcircuit_unit(tmp_path: Path) -> None:
    meta = generate(Microcircuit(scale=0.002), tmp_path / "a")
    assert (meta.weight_unit, meta.attributes["rate"].unit) == (0.001, 0.001)


def test_tiny_microcircuit() -> None:
    assert Microcircuit(scale=1e-9).neurons == 8
    assert Microcircuit(scale=1e-9).synapses == 0


def test_grouped_edges() -> None:
    for size in (3, 5, 8):
        dnn = {(i * size + j, (i + 1) * size + k)
               for i in range(size - 2) for j in range(size) for k in range(size)}  # fmt: skip
        cnn = {(u, v) for u, v in dnn if 0 <= v % size - u % size <= 3}
        for spec, expected in ((GroupDnn(size), dnn), (GroupCnn(size), cnn)):
            source, target, _ = all_edges(spec)
            assert source.size == len(expected)
            assert set(zip(source.tolist(), target.tolist(), strict=True)) == expected
    weight = all_edges(GroupDnn(20))[2]
    assert weight.mean() == pytest.approx(0.5, abs=0.02)
    assert weight.max() < 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cortex(side=1), "cortex: side is 1; it must be 2 or more"),
        (lambda: Cortex(side=50_000), "cortex: has 2500000000 neurons; change"),
        (lambda: Cortex(side=9, fanout=0), "cortex: fanout is 0"),
        (lambda: Cortex(side=9, sigma=-1.0), "cortex: sigma is -1.0; it must be >= 0"),
        (lambda: Cortex(side=9, sigma=float("nan")), "cortex: sigma is nan"),
        (lambda: Cortex(side=9, long_range=1.5), "cortex: long_range is 1.5; it must be 0 to 1"),
        (lambda: Layered("4x4x1"), "layered: layers is '4x4x1'; it must be two or more"),
        (lambda: Layered("4x4x1,4x4"), "layered: layer 1 is '4x4'; it must be HEIGHTxWIDTHx"),
        (lambda: Layered("4x4x0,4x4x1"), "layered: layer 0 is '4x4x0'"),
        (lambda: Layered("4x4x1,4x4x1", kernel=0), "layered: kernel is 0"),
        (lambda: Microcircuit(scale=0.0), "microcircuit: scale is 0.0; it must be above 0"),
        (lambda: Microcircuit(scale=float("nan")), "microcircuit: scale is nan"),
        (lambda: GroupDnn(size=2), "group-dnn: size is 2; it must be 3 or more"),
        (lambda: GroupCnn(size=10**6), "group-cnn: has 1000000000000 neurons"),
    ],
)
def test_bad_settings(make: Any, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
