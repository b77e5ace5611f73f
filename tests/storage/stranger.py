"""Reader of `net.bin` written only from docs/format.md: slow, simple, no dependencies."""

from __future__ import annotations

import json
import struct
import zipfile
from typing import Any


def numbers(data: bytes) -> list[int]:
    """Decode all varints of a member; a flag is below 128, so it is also a varint."""
    found, value, shift = [], 0, 0
    for byte in data:
        value += (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    return found


def read(path: str) -> dict[str, Any]:
    """Return meta: the metadata; lists: per vertex (other, incoming, size, weight); attributes."""
    with zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json"))
        assert (meta["format"], meta["version"] in (1, 2)) == ("mapper-network", True)
        lists: list[list[tuple[int, bool, int, float]]] = []
        for block in range(-(-meta["neurons"] // meta["block_size"])):
            stream = iter(numbers(archive.read(f"blocks/{block:08d}")))
            for _ in range(min(meta["block_size"], meta["neurons"] - len(lists))):
                record: list[tuple[int, bool, int, float]] = []
                for _ in range(next(stream)):
                    flag, other = next(stream), next(stream)
                    if flag & 2:
                        other += record[-1][0]
                    size = meta["default_size"] if flag & 4 else next(stream)
                    weight = meta["default_weight"] if flag & 8 else next(stream)
                    record.append((other, bool(flag & 1), size, weight * meta["weight_unit"]))
                lists.append(record)
            assert next(stream, None) is None
        attributes = {}
        for name, about in meta["attributes"].items():
            values: list[Any] = []
            for chunk in range(-(-meta["neurons"] // meta["attribute_block_size"])):
                if about.get("real"):
                    raw = archive.read(f"attributes/{name}/{chunk:08d}")
                    values += struct.unpack(f"<{len(raw) // 8}d", raw)
                    continue
                for number in numbers(archive.read(f"attributes/{name}/{chunk:08d}")):
                    value = (number + about["offset"]) * about["unit"]
                    values.append(about["labels"][int(value)] if about["labels"] else value)
            attributes[name] = values
    return {"meta": meta, "lists": lists, "attributes": attributes}


def synapses(network: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Return (source, target, weight) per synapse; an undirected edge once, smaller id first."""
    undirected = network["meta"]["undirected"]
    return [
        (vertex, other, weight)
        for vertex, record in enumerate(network["lists"])
        for other, incoming, _, weight in record
        if not incoming and not (undirected and other < vertex)
    ]
