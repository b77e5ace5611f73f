"""A reader written only from docs/format.md finds the same content as `NetworkFile`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.reference import storage as naive
from tests.storage import stranger
from tests.storage.strategies import NetCase, networks, random_edges


def compare(path: Path) -> None:
    found = stranger.read(str(path))
    with NetworkFile(path) as net:
        unit = net.meta.weight_unit
        assert found["meta"] == json.loads(net.meta.to_json())
        assert found["lists"] == [
            [(link.other, bool(link.incoming), link.size, link.weight * unit) for link in record]
            for record in naive.flatten(net.blocks())
        ]
        assert list(found["attributes"]) == list(net.meta.attributes)
        for name, values in found["attributes"].items():
            about = net.attribute(name)
            expected = about.values.tolist()
            if about.labels is not None:
                expected = [about.labels[value] for value in expected]
            assert values == expected


def test_it_is_short() -> None:
    lines = Path(stranger.__file__).read_text().splitlines()
    assert len(lines) <= 65
    imported = {line.split()[1] for line in lines if line.startswith(("import", "from"))}
    assert imported <= {"__future__", "json", "struct", "zipfile", "typing"}


@pytest.mark.heavy
@settings(max_examples=60)
@given(networks())
def test_random_networks(case: NetCase) -> None:
    with tempfile.TemporaryDirectory() as folder:
        case.write(Path(folder) / "net.bin")
        compare(Path(folder) / "net.bin")


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("weight", ["none", "whole", "decimal", "real"])
def test_everything_at_once(weight: str, undirected: bool, tmp_path: Path) -> None:
    """Several blocks, repeated synapses, sizes, rates and all kinds of attributes."""
    path, rng = tmp_path / "net.bin", np.random.default_rng(4)
    source, target, whole = naive.columns(random_edges(50, 600, 9))
    weights: dict[str, Any] = {
        "none": None,
        "whole": whole,
        "decimal": whole / 100,
        "real": rng.random(600),
    }
    with NetworkWriter(path, 50, undirected=undirected, block_size=8) as writer:
        writer.add(source, target, weights[weight])
        writer.set_attribute("size", np.arange(50) % 7 * 100)
        writer.set_attribute("rate", rng.random(50))
        writer.set_attribute("x", rng.normal(size=50))
        writer.set_attribute("depth", np.arange(-25, 25))
        writer.set_attribute("layer", np.arange(50) % 3, ["in", "hidden", "out"])
        meta = writer.finish()
    compare(path)
    found = stranger.read(str(path))
    triples = stranger.synapses(found)
    assert len(triples) == meta.synapses
    total = meta.total_weight * meta.weight_unit
    assert sum(weight for *_, weight in triples) == pytest.approx(total)
    assert sum(found["attributes"]["size"]) == meta.total_size
    given_weights = np.ones(600) if weights[weight] is None else weights[weight]
    edges = zip(source.tolist(), target.tolist(), given_weights, strict=True)
    pairs = {(s, t) if not undirected else (min(s, t), max(s, t)) for s, t, _ in edges if s != t}
    assert {(s, t) for s, t, _ in triples} == pairs


def test_chunks_of_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.store.writer.ATTRIBUTE_BLOCK", 4)
    with NetworkWriter(tmp_path / "net.bin", 11) as writer:
        writer.set_attribute("x", np.arange(11) * 1000)
        writer.finish()
    compare(tmp_path / "net.bin")
