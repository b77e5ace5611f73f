"""SONATA test files, and the networks that they describe, computed edge by edge."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

VERSION = {"magic": np.uint32(0x0A7A), "version": np.array([0, 1], np.uint32)}


@dataclass
class Edges:
    """An edge population: rows of (source, target, group, weight, nsyns, type); None: omitted."""

    source: str
    target: str
    rows: list[tuple[int, int, int, float | None, int | None, int]] = field(default_factory=list)


def write_nodes(path: Path, counts: dict[str, int]) -> None:
    with pytest.importorskip("h5py").File(path, "w") as file:
        file.attrs.update(VERSION)
        for name, count in counts.items():
            group = file.create_group(f"nodes/{name}")
            group["node_type_id"] = np.full(count, 100)
            group["node_id"] = np.arange(count, dtype=np.uint64)
            group["node_group_id"] = np.zeros(count, np.uint32)
            group["node_group_index"] = np.arange(count)


def write_edges_file(path: Path, populations: dict[str, Edges], grouped: bool = True) -> None:
    """Write edges; all rows of an edge group have a weight, or none has; the same for nsyns."""
    with pytest.importorskip("h5py").File(path, "w") as file:
        file.attrs.update(VERSION)
        for name, edges in populations.items():
            group = file.create_group(f"edges/{name}")
            rows = edges.rows
            for k, (end, onto) in enumerate((("source", edges.source), ("target", edges.target))):
                ids = np.array([row[k] for row in rows], np.uint64)
                group[f"{end}_node_id"] = ids
                group[f"{end}_node_id"].attrs["node_population"] = onto
            group["edge_type_id"] = np.array([row[5] for row in rows], np.uint32)
            index = []
            for number in {row[2] for row in rows}:
                own = group.create_group(str(number))
                mine = [row for row in rows if row[2] == number]
                for k, factor in ((3, "syn_weight"), (4, "nsyns")):
                    if mine[0][k] is not None:
                        own[factor] = np.array([row[k] for row in mine])
            counts: dict[int, int] = {}
            for row in rows:
                index.append(counts.get(row[2], 0))
                counts[row[2]] = index[-1] + 1
            if grouped:
                group["edge_group_id"] = np.array([row[2] for row in rows], np.uint16)
                group["edge_group_index"] = np.array(index, np.uint32)


def expected(
    counts: dict[str, int],
    populations: dict[str, Edges],
    types: dict[int, tuple[float | None, int | None]] | None = None,
) -> dict[tuple[int, int], float]:
    """Return (source, target) -> weight of neurons, as documented in `sonata`."""
    first, total = {}, 0
    for name, count in counts.items():
        first[name], total = total, total + count
    found: dict[tuple[int, int], float] = {}
    for edges in populations.values():
        for source, target, _, weight, nsyns, kind in edges.rows:
            theirs = (types or {}).get(kind, (None, None))
            product = 1.0
            for own, other in ((weight, theirs[0]), (nsyns, theirs[1])):
                value = own if own is not None else other
                product *= 1 if value is None else abs(value)
            pair = first[edges.source] + source, first[edges.target] + target
            if pair[0] != pair[1]:
                found[pair] = found.get(pair, 0) + product
    return found


def write_config(path: Path, **networks: Any) -> None:
    manifest = {"$BASE": ".", "$NET": "${BASE}/network"}
    path.write_text(json.dumps({"manifest": manifest, "networks": networks}))
