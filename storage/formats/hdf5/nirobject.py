"""NIR graphs in memory, as created by the package nir and the frameworks that export to it.

The graph is converted to the tree of groups and datasets of its file, so one reader serves both.
No file is written: `nir.write` refuses graphs whose parameters are tensors (Norse), None or tuples
(sinabs), and copies all weights.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.formats.hdf5.nirgraph import DEEPEST

_GRAPH = "NIRGraph"
_TYPES = {"Input": ("input_type", "input", "shape"), "Output": ("output_type", "output", "shape"),
          "Flatten": ("input_type", "input", "input_type")}  # fmt: skip
"""Nodes that also store a shape: field, key in it, and name of the dataset in a file."""
_NO_PARAMETERS = ("input_type", "output_type", "metadata", "nodes", "edges")


class Group(dict[str, Any]):
    """Stand-in for an HDF5 group: members by name, in the order of a file."""

    def __init__(self, name: str, members: Iterator[tuple[str, Any]]) -> None:
        super().__init__(sorted(members, key=lambda member: member[0].encode()))
        self.name = name


def tree(graph: Any) -> Group:
    """Return the tree of a `nir.NIRGraph`; raise `BadInputError` that names a faulty node."""
    return Group("/", iter([("version", _text("1")), ("node", _group(graph, "/node", ""))]))


def file_bytes(graph: Any) -> bytes:
    """Return a NIR file with a `nir.NIRGraph`, also with tensors; see `tree` for errors."""
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        _write(file, tree(graph))
    return buffer.getvalue()


def _write(into: Any, group: Group) -> None:
    for name, member in group.items():
        if isinstance(member, Group):
            _write(into.create_group(name), member)
        else:
            into.create_dataset(name, data=member)


def _group(node: Any, name: str, path: str) -> Group:
    """path : names of the enclosing graphs and the node itself"""
    if path.count("/") > DEEPEST:
        raise BadInputError(f"more than {DEEPEST} nested graphs; does one contain itself?")
    kind = type(node).__name__
    members: dict[str, Any] = {"type": _text(kind)}
    if kind == _GRAPH:
        inside = ((str(key), child) for key, child in node.nodes.items())
        groups = (
            (key, _group(child, f"{name}/nodes/{key}", f"{path}/{key}" if path else key))
            for key, child in inside
        )
        members["nodes"] = Group(f"{name}/nodes", groups)
        members["edges"] = _edges(node.edges)
        step = (getattr(node, "metadata", None) or {}).get("dt")
        if step is not None:
            about = {"dt": _dataset(step, "dt of the metadata")}
            members["metadata"] = Group(f"{name}/metadata", iter(about.items()))
        return Group(name, iter(members.items()))
    if not dataclasses.is_dataclass(node):
        raise BadInputError(f"node {path!r}: is a {kind}, not a NIR node; convert it first")
    given = {each.name: getattr(node, each.name, None) for each in dataclasses.fields(node)}
    parameters = {key: value for key, value in given.items() if key not in _NO_PARAMETERS}
    if kind in _TYPES:
        field, key, dataset = _TYPES[kind]
        parameters[dataset] = (getattr(node, field, None) or {}).get(key)
    for key, value in parameters.items():
        if value is not None:
            members[key] = _dataset(value, f"node {path!r} ({kind}): {key}")
    return Group(name, iter(members.items()))


def _edges(edges: Any) -> NDArray[Any]:
    try:
        pairs = [(str(a).encode(), str(b).encode()) for a, b in edges]
    except (TypeError, ValueError) as error:
        raise BadInputError("edges must be pairs of node names") from error
    return np.array(pairs, np.bytes_).reshape(-1, 2)


def _dataset(value: Any, where: str) -> NDArray[Any]:
    """Return a parameter as array; PyTorch tensors are read without a copy."""
    if isinstance(value, str):
        return _text(value)
    for step in ("detach", "cpu"):
        if hasattr(value, step):
            value = getattr(value, step)()
    try:
        found = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"{where} is a {type(value).__name__}; give an array") from error
    if found.dtype.kind not in "biufS":
        raise BadInputError(f"{where} holds {found.dtype}; it must hold numbers")
    return found


def _text(value: str) -> NDArray[Any]:
    return np.asarray(value.encode())
