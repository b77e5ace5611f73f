"""Mutate files by the libraries that write them: ONNX models, HDF5 files and Parquet tables."""

from __future__ import annotations

import io
import warnings
from random import Random
from typing import Any

import numpy as np

from scripts.fuzz_structure import NUMBERS, Change


def onnx(data: bytes, random: Random, change: Change) -> bytes:
    """Damage the graph of an ONNX model."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    from scripts.fuzz_damages import damage_model

    if random.random() < 0.1:
        return change(data)
    try:
        model = ModelProto.FromString(data)
        return damage_model(model, np.random.default_rng(random.getrandbits(32)))[0]
    except (DecodeError, ValueError, TypeError, OverflowError, AttributeError):
        return change(data)


def hdf5(data: bytes, random: Random, change: Change) -> bytes:
    """Replace, drop, copy or add a dataset, a group or an attribute of an HDF5 file."""
    import h5py

    buffer = io.BytesIO(data)
    try:  # bytes are not changed: the HDF5 library has endless loops on damaged headers
        with h5py.File(buffer, "r+") as file:
            places: list[str] = []
            file.visit(places.append)
            _change_hdf5(file, places, random, change)
    except Exception:  # h5py raises many kinds for changes that it refuses
        return data
    return buffer.getvalue()


def _change_hdf5(file: Any, places: list[str], random: Random, change: Change) -> None:
    import h5py

    name = random.choice(places or ["/"])
    one, way = file[name], random.random()
    if way < 0.15:
        del file[name]
    elif way < 0.25:
        file.move(name, random.choice((f"{name}x", "x", "node", "edges/e", random.choice(places))))
    elif way < 0.45:
        attributes = list(one.attrs)
        key = random.choice(attributes) if attributes else random.choice(("version", "magic", "x"))
        one.attrs[key] = _array(random)
    elif way < 0.5:
        file[f"{name}_copy"] = h5py.SoftLink(random.choice(("/", f"/{name}", "/absent")))
    elif isinstance(one, h5py.Dataset):
        old = one[()]
        del file[name]
        file[name] = _changed_array(old, random, change) if way < 0.85 else _array(random)
    else:
        file[f"{name}/{random.choice(('x', 'type', 'edges', 'nodes', '0', 'weight'))}"] = _array(
            random
        )


def _changed_array(old: Any, random: Random, change: Change) -> Any:
    if isinstance(old, bytes):
        return random.choice(
            (b"LIF", b"Linear", b"Input", b"Flatten", b"NIRGraph", change(old)[:40])
        )
    values = np.array(old)
    if values.dtype.kind not in "iuf" or random.random() < 0.3:
        kept = values.reshape(-1)[: random.randint(0, 3)]
        return kept if values.dtype.kind != "O" else [bytes(one) for one in kept]
    flat = values.reshape(-1).copy()
    if flat.size:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picked = np.array(random.choice((*NUMBERS[:17], np.nan, np.inf)), np.float64)
            flat[random.randrange(flat.size)] = picked.astype(flat.dtype)
    return flat.reshape(values.shape)


def _array(random: Random) -> Any:
    shape = random.choice(((), (0,), (1,), (2,), (3,), (2, 2), (2, 0), (1, 2, 1, 1)))
    kind = random.choice(("i8", "i4", "u8", "f8", "f4", "u1", "S", "b"))
    value = random.choice((0, 1, -1, 2, 3, 5, 100))
    if kind == "S":
        return random.choice((b"", b"LIF", b"x", b"Conv2d", b"\xff", "\n"))
    return np.full(shape, value).astype({"b": "?"}.get(kind, kind))


KINDS = (
    None, None, "int64", "int32", "uint64", "double", "float", "string", "bool", "dictionary",
    "list", "binary", "date32", "halffloat",
)  # fmt: skip


def parquet(data: bytes, random: Random, change: Change) -> bytes:
    """Write a random table of edges; sometimes change bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if random.random() < 0.3:
        return change(data)
    count, table = random.randint(0, 5), {}
    for name in ("source", "target", *random.choice(((), ("weight",), ("weight", "x")))):
        name = random.choice(("pre", "", "a\nb", "source")) if random.random() < 0.05 else name
        values: list[Any] = [random.choice((0, 1, 2, 3, 4, 9)) for _ in range(count)]
        if values and random.random() < 0.3:
            values[0] = random.choice((*NUMBERS[:14], None, 0.5, float("nan"), float("inf")))
        table[name] = _column(values, random.choice(KINDS))
    out = io.BytesIO()
    pq.write_table(pa.table(table), out, compression=random.choice(("none", "snappy", "zstd")))
    return out.getvalue()


def _column(values: list[Any], kind: str | None) -> Any:
    import pyarrow as pa

    try:
        if kind == "dictionary":
            return pa.array([str(one) for one in values]).dictionary_encode()
        if kind == "list":
            return pa.array([[one] for one in values])
        if kind in ("string", "binary"):
            return pa.array([str(one) for one in values]).cast(kind)
        return pa.array(values) if kind is None else pa.array(values).cast(kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([str(one) for one in values])
