"""hMETIS files: every fmt, every fault, and connectivity equal to the hypergraph's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.traffic.arrays import measure
from storage.formats import import_network
from storage.formats.text import reader as text_module
from storage.store.network import NetworkFile
from tests.storage.formats.conftest import attributes_of, edges_of

Convert = Callable[..., Path]
Refuse = Callable[..., str]


def naive(text: str) -> tuple[list[tuple[int, list[int]]], list[int]]:
    """Read a correct file in the obvious way: nets as weight and pins from 0, and sizes."""
    lines = [line.split() for line in text.split("\n") if line.strip() and "%" not in line]
    head = [int(word) for word in lines[0]]
    fmt = head[2] if len(head) > 2 else 0
    nets = []
    for line in lines[1 : 1 + head[0]]:
        numbers = [int(word) for word in line]
        weight = numbers.pop(0) if fmt % 10 else 1
        nets.append((weight, sorted({pin - 1 for pin in numbers})))
    sizes = [int(line[0]) for line in lines[1 + head[0] :]] if fmt >= 10 else [1] * head[1]
    return nets, sizes


def most_driven(nets: list[tuple[int, list[int]]]) -> int:
    """Return the most nets of two or more pins that can have a pin as source (augmenting paths)."""
    driven: dict[int, int] = {}

    def augment(net: int, seen: set[int]) -> bool:
        for pin in nets[net][1]:
            if pin not in seen:
                seen.add(pin)
                if pin not in driven or augment(driven[pin], seen):
                    driven[pin] = net
                    return True
        return False

    return sum(augment(e, set()) for e, (_, pins) in enumerate(nets) if len(pins) > 1)


def random_text(fmt: int, rng: np.random.Generator) -> str:
    n, m = int(rng.integers(1, 12)), int(rng.integers(0, 14))
    lines = [f"% a comment\n{m} {n}" + (f" {fmt}" if fmt or rng.random() < 0.5 else "")]
    for _ in range(m):
        pins = rng.integers(1, n + 1, int(rng.integers(1, 6))).tolist()
        lines.append(" ".join(map(str, [*rng.integers(0, 9, fmt % 10).tolist(), *pins])))
        if rng.random() < 0.2:
            lines.append("  % another comment\n\n")
    if fmt >= 10:
        lines += [str(size) for size in rng.integers(0, 5, n).tolist()]
    return "\n".join(lines) + "\n" * int(rng.integers(1, 4))


@pytest.mark.sample(3)
@pytest.mark.parametrize("fmt", [0, 1, 10, 11])
@pytest.mark.parametrize("chunk", [11, 1 << 20])
def test_connectivity_equals_the_hypergraph(
    fmt: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    rng = np.random.default_rng([fmt, chunk])
    chip = Chip(name="tiny", width=3, height=2, neurons=100)
    source, path = tmp_path / "a.hgr", tmp_path / "a.bin"
    for _ in range(25):
        text = random_text(fmt, rng)
        source.write_text(text)
        meta = import_network(source, path)
        nets, sizes = naive(text)
        wide = [(e, weight, pins) for e, (weight, pins) in enumerate(nets) if len(pins) > 1]
        added = len(wide) - most_driven(nets)
        assert meta.provenance["hyperedges"] == len(nets)
        assert meta.provenance["hyperedges_dropped"] == len(nets) - len(wide)
        assert meta.provenance["neurons_added"] == added
        assert meta.neurons == len(sizes) + added
        own = attributes_of(path)
        assert own["size"] == sizes + [0] * added
        assert sorted(e for e in own["hyperedge"] if e) == [e + 1 for e, _, _ in wide]
        core = rng.integers(0, 6, meta.neurons).astype(np.int32)
        expected = 0
        for e, weight, pins in wide:
            driver = own["hyperedge"].index(e + 1)
            assert driver in pins or driver >= len(sizes)
            if driver >= len(sizes):  # a neuron of size 0 is placed with one of its pins
                core[driver] = core[pins[0]]
            expected += weight * (len({int(core[pin]) for pin in pins}) - 1)
        with NetworkFile(path) as network:
            found = measure(chip, core, network.blocks(), sizes=network.vertex_sizes())
        assert found.connectivity == expected


def test_an_example(converted: Convert) -> None:
    net = converted("a.hgr", "3 4 11\n5 1 2 3\n7 2\n2 4 3 3\n1\n2\n3\n4\n")
    assert sorted(edges_of(net).values()) == [2, 5, 5]
    own = attributes_of(net)
    assert own["size"] == [1, 2, 3, 4]
    with NetworkFile(net) as network:
        assert network.meta.provenance["pins_repeated"] == 1
        assert network.meta.provenance["hyperedges_dropped"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty"),
        ("% nothing\n", "no header line"),
        ("3\n", "the header is '3'"),
        ("1 2 3 4\n", "the header is"),
        ("x 2\n", "the header is 'x 2'"),
        ("1 2 5\n1 2\n", "line 1: fmt is '5'"),
        ("1 0\n", "no neurons"),
        ("1 3000000000\n", "at most 2147483647"),
        ("1 2\n1 3\n", "line 2: pin 3 is outside 1..2"),
        ("1 2\n1 0\n", "line 2: pin 0 is outside 1..2"),
        ("2 2\n1 2\n", "1 lines after the header, which declares 2 hyperedges"),
        ("1 2\n1 2\n1 2\n", "2 lines after"),
        ("1 2 10\n1 2\n1\n", "2 lines after the header, which declares 3 hyperedges and vertices"),
        ("1 2 10\n1 2\n1 1\n1\n", "line 3: more than one number"),
        ("1 2\n1 -2\n", "line 2: -2 is negative"),
        ("1 2\n1 1.5\n", "line 2: 1.5 is not a whole number"),
    ],
)
def test_faults(text: str, message: str, refused: Refuse) -> None:
    assert message in refused("a.hgr", text)


def test_no_hyperedges(converted: Convert) -> None:
    with NetworkFile(converted("a.hgr.gz", "0 3\n")) as network:
        assert (network.vertices, network.connections) == (3, 0)
