"""Helpers of the format tests: write a text, import it, read the network."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.errors import BadInputError
from storage.formats import EXPORTS, import_network
from storage.store.meta import NetworkMeta
from storage.store.network import NetworkFile
from tests.storage.formats.nets import NEEDS

Edges = dict[tuple[int, int], float]


def edges_of(path: Path) -> Edges:
    """Return (source, target) -> weight in real units; undirected edges once, smaller id first."""
    found: Edges = {}
    with NetworkFile(path) as net:
        for block in net.blocks():
            indptr, ids, weights = block.outgoing()
            for v in range(block.vertices):
                for e in range(indptr[v], indptr[v + 1]):
                    pair = (block.first + v, int(ids[e]))
                    if not net.undirected or pair[0] < pair[1]:
                        found[pair] = float(weights[e] * net.meta.weight_unit)
    return found


def attributes_of(path: Path) -> dict[str, list[Any]]:
    with NetworkFile(path) as net:
        return {name: net.attribute(name).values.tolist() for name in net.meta.attributes}


def meta_of(path: Path) -> NetworkMeta:
    with NetworkFile(path) as net:
        return net.meta


def labels_of(path: Path) -> list[str]:
    """Return the names of the populations."""
    with NetworkFile(path) as net:
        return net.attribute("population").labels or []


@pytest.fixture
def converted(tmp_path: Path) -> Callable[..., Path]:
    """Write text to a file of the given name, import it, and return the network's path.

    The weights are the traffic, unless the options state otherwise.
    """

    def convert(name: str, content: str | bytes, **options: Any) -> Path:
        source, destination = tmp_path / name, tmp_path / "net.bin"
        put(source, content)
        import_network(source, destination, **{"traffic": "weights", **options})
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted([name, "net.bin"])
        return destination

    return convert


def put(path: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., str]:
    """Import a faulty file, check that no file remains, and return the message."""

    def refuse(name: str, content: str | bytes, **options: Any) -> str:
        source = tmp_path / name
        put(source, content)
        with pytest.raises(BadInputError) as caught:
            import_network(source, tmp_path / "net.bin", **options)
        message = str(caught.value)
        assert message.startswith(str(source))
        assert "\n" not in message
        assert [p.name for p in tmp_path.iterdir()] == [name]
        return message.removeprefix(str(source))

    return refuse


@pytest.fixture(params=EXPORTS)
def format(request: pytest.FixtureRequest) -> str:
    """Each export format whose library is installed."""
    name: str = request.param
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    return name
