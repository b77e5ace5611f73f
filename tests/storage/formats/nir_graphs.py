"""NIR test files, written with h5py alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

h5py = pytest.importorskip("h5py", reason="NIR files need h5py")

Parameters = dict[str, Any]
Weights = Any


def node(kind: str, **parameters: Any) -> Parameters:
    return {"type": kind, **parameters}


def lif(shape: tuple[int, ...] = ()) -> Parameters:
    return node("LIF", **{name: np.ones(shape) for name in ("tau", "r", "v_leak", "v_threshold")})


def linear(weight: Weights) -> Parameters:
    return node("Linear", weight=np.asarray(weight))


def given(*shape: int) -> Parameters:
    return node("Input", shape=np.array(shape))


def conv(weight: Weights, **more: Any) -> Parameters:
    axes = weight.ndim - 2
    numbers = {name: np.ones(axes, int) for name in ("stride", "dilation")}
    plain = {"padding": np.zeros(axes, int), "groups": 1, "bias": np.zeros(len(weight))}
    return node(f"Conv{axes}d", weight=weight, **{**numbers, **plain, **more})


def pool(kind: str, kernel: Sequence[int], stride: Sequence[int]) -> Parameters:
    numbers = {"kernel_size": np.array(kernel), "stride": np.array(stride)}
    return node(kind, **numbers, padding=np.zeros(2, int))


def graph(nodes: dict[str, Parameters], edges: Sequence[tuple[str, str]]) -> Parameters:
    pairs = np.array([[a.encode(), b.encode()] for a, b in edges], object).reshape(-1, 2)
    return {"type": "NIRGraph", "nodes": nodes, "edges": pairs}


def chain(*nodes: Parameters) -> Parameters:
    """Return nodes named a, b, c, ..., each connected to the next."""
    names = [chr(ord("a") + index) for index in range(len(nodes))]
    edges = list(pairwise(names))
    return graph(dict(zip(names, nodes, strict=True)), edges)


def nir_bytes(root: Parameters, version: str | None = "1.0.8") -> bytes:
    """Return a NIR file, written with h5py alone."""

    def put(group: Any, members: Parameters) -> None:
        for name, value in members.items():
            if isinstance(value, dict):
                put(group.create_group(name), value)
            elif isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype == "O"):
                group.create_dataset(name, data=value, dtype=h5py.string_dtype())
            else:
                group.create_dataset(name, data=value)

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        put(file, {"node": root} | ({} if version is None else {"version": version}))
    return buffer.getvalue()
