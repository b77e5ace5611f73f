"""Networks for round trips through files, and the comparison of the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import BadInputError
from storage.formats import EXPORTS, export_network, import_network
from storage.formats.losses import Loss
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter

NEEDS = {"parquet": "pyarrow.parquet", "sonata": "h5py"}
Names = list[int] | list[str]


@dataclass
class Net:
    """A network drawn by a test.

    edges : (source, target) -> weight in stored units; unit : of the weights
    names : identifiers of neurons, None for their numbers
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
    """A network by the names of its neurons, independent of their numbering."""

    undirected: bool
    edges: dict[Any, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)


def held(path: Path, by_number: bool = False) -> Held:
    """Return the content of a network file; neurons without ids are named by their numbers."""
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
    """Return the losses reported by an export of a network, and the file of its import."""
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
    """Check that the imported network equals the original except for the reported losses."""
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
