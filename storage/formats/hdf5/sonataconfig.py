"""SONATA circuit configurations: the files of a circuit.

A configuration is JSON with `networks`, lists of `nodes` and `edges` files, whose paths may contain
variables of its `manifest` (``$NAME`` or ``${NAME}``). The configuration of a simulation, whose
`network` names the circuit configuration, is also accepted. Relative paths start from the folder of
the configuration, which is also ``$configdir``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage.errors import BadInputError
from storage.files import open_input, read_input
from storage.jsontext import parse_json, shown

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MOST_BYTES = 16 << 20  # bytes of a configuration
MOST_NESTED = 32  # nesting limit of variables
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True)
class EdgesFile:
    """An edges file, and the table of its edge types if there is one."""

    path: Path
    types: Path | None = None


@dataclass(frozen=True, slots=True)
class Circuit:
    """The files of a circuit, in their order. Without nodes, ids determine the node counts."""

    edges: list[EdgesFile]
    nodes: list[Path] = field(default_factory=list)


def find_circuit(source: Path, nodes: Path | None = None) -> Circuit:
    """Return the circuit given by a configuration or a single edges file.

    nodes : nodes file, replaces the configured ones. Without one, the nodes of an edges file are
        searched next to it, see `nodes_beside`
    """
    with open_input(source) as file:
        is_hdf5 = file.read(len(HDF5_MAGIC)) == HDF5_MAGIC
    if is_hdf5:
        beside = nodes_beside(source)
        if nodes is None and beside.is_file():
            nodes = beside
        return Circuit([EdgesFile(source)], [] if nodes is None else [nodes])
    circuit = _read_config(source)
    return circuit if nodes is None else Circuit(circuit.edges, [nodes])


def nodes_beside(edges: Path) -> Path:
    """Return the nodes path of an edges file: last `edges` becomes `nodes`, or NAME_nodes.h5."""
    stem, found, ending = edges.name.rpartition("edges")
    name = f"{stem}nodes{ending}" if found else f"{edges.stem}_nodes{edges.suffix}"
    return edges.with_name(name)


def _read_config(path: Path, depth: int = 0) -> Circuit:
    config = _read_json(path)
    manifest = {
        str(name).strip("${}"): str(value)
        for name, value in _object(config.get("manifest", {}), "manifest", path).items()
    }
    manifest.setdefault("configdir", ".")

    def resolved(value: Any, place: str) -> Path | None:
        if value in (None, "", "NULL"):
            return None
        if not isinstance(value, str):
            raise BadInputError(f"{path}: {place} is {shown(value)}; it must be a path")
        return path.parent / _expand(value, manifest, f"{path}: {place}")

    if "networks" not in config:
        other = resolved(config.get("network"), "network")
        if other is None or depth:
            raise BadInputError(f"{path}: no `networks`; give a SONATA circuit configuration")
        if not other.is_file():
            raise BadInputError(f"{path}: network: {other} does not exist")
        return _read_config(other, depth + 1)
    networks = _object(config["networks"], "networks", path)
    found: dict[str, list[tuple[Path, Path | None]]] = {}
    for kind in ("nodes", "edges"):
        found[kind] = []
        entries = networks.get(kind, [])
        if not isinstance(entries, list):
            raise BadInputError(f"{path}: networks.{kind} must be a list")
        for i, entry in enumerate(entries):
            place = f"networks.{kind}[{i}]"
            entry = _object(entry, place, path)
            file = resolved(entry.get(f"{kind}_file"), f"{place}.{kind}_file")
            name = f"{kind[:-1]}_types_file"
            types = resolved(entry.get(name), f"{place}.{name}")
            for other in (file, types if kind == "edges" else None):
                if other is not None and not other.is_file():
                    raise BadInputError(f"{path}: {place}: {other} does not exist")
            if file is not None:
                found[kind].append((file, types))
    if not found["edges"] and not found["nodes"]:
        raise BadInputError(f"{path}: networks lists no files; a network needs nodes and edges")
    edges = [EdgesFile(file, types) for file, types in found["edges"]]
    return Circuit(edges, [file for file, _ in found["nodes"]])


def _read_json(path: Path) -> dict[str, Any]:
    raw = read_input(path, MOST_BYTES)
    try:
        config = parse_json(raw)
    except ValueError as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInputError(f"{path}: neither HDF5 nor valid JSON ({reason})") from error
    return _object(config, "the configuration", path)


def _object(value: Any, place: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInputError(f"{path}: {place} must be a JSON object")
    return value


def _expand(text: str, manifest: dict[str, str], where: str) -> str:
    """Return a path with all variables expanded, including nested ones."""
    for _ in range(MOST_NESTED):
        match = _VARIABLE.search(text)
        if match is None:
            return text
        name = match[1] or match[2]
        if name not in manifest:
            raise BadInputError(f"{where}: the manifest has no ${name}")
        text = text[: match.start()] + manifest[name] + text[match.end() :]
    raise BadInputError(f"{where}: the manifest's variables refer to each other in a cycle")
