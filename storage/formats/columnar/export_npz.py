"""Export to NumPy archives: a matrix for `scipy.sparse.load_npz`, and the neurons.

The matrix has the format `csr`, row = source, column = target, weights in real units. The matrix of
an undirected network is symmetric, and the array `undirected` is set. Each neuron attribute NAME is
the array ``neuron/NAME``, which scipy ignores; if its values index labels, these are in
``neuron/NAME/labels``. `scipynpz` reads all of it back.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import BadInputError
from storage.files import PartialFile
from storage.formats.columnar.npzneurons import LABELS, PREFIX, UNDIRECTED
from storage.formats.edges import real_weights
from storage.formats.losses import Loss
from storage.formats.sinks import Stream
from storage.store.network import NetworkFile

LABEL_BYTES = 1 << 24  # bytes of labels converted at a time

Array = NDArray[Any]


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    """Write the arrays one by one, in two passes over the network."""
    entries = net.meta.synapses * (2 if net.undirected else 1)
    degrees = np.zeros(net.vertices + 1, np.int64 if entries >= 2**31 else np.int32)
    whole = net.meta.weight_unit == 1
    with (
        PartialFile(destination) as file,
        Stream(file) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        _dropped_after_errors(archive),
    ):
        for name, value in _scalars(net):
            _add(archive, name, value.dtype, value.shape, [value])
        _add(archive, "indices", np.dtype(np.int32), (entries,), _indices(net, degrees))
        indptr = np.cumsum(degrees, dtype=degrees.dtype)
        _add(archive, "indptr", indptr.dtype, indptr.shape, [indptr])
        kind = np.dtype(np.int64 if whole else np.float64)
        _add(archive, "data", kind, (entries,), _data(net))
        for name in net.meta.attributes:
            _add_attribute(archive, net, name)
        archive.close()
        file.commit()
    return []


@contextmanager
def _dropped_after_errors(archive: zipfile.ZipFile) -> Iterator[None]:
    """Forget the file of an archive after an error: zipfile can close no archive whose member was
    begun and is not complete, not even in its destructor."""
    try:
        yield
    except BaseException:
        archive.fp = None
        raise


def _scalars(net: NetworkFile) -> Iterator[tuple[str, Array]]:
    yield "format", np.array(b"csr")
    yield "_is_array", np.array(True)
    yield "shape", np.array([net.vertices, net.vertices])
    if net.undirected:
        yield UNDIRECTED, np.array(True)


def _indices(net: NetworkFile, degrees: Array) -> Iterator[Array]:
    """Yield the targets; set degrees[v + 1] to the number of targets of neuron v."""
    for block in net.blocks():
        indptr, ids, _ = block.outgoing()
        degrees[block.first + 1 : block.first + indptr.size] = np.diff(indptr)
        yield ids


def _data(net: NetworkFile) -> Iterator[Array]:
    for block in net.blocks():
        yield real_weights(block.outgoing()[2], net.meta.weight_unit)


def _add_attribute(archive: zipfile.ZipFile, net: NetworkFile, name: str) -> None:
    attribute = net.attribute(name)
    values = real_weights(attribute.stored, attribute.unit)
    _add(archive, PREFIX + name, values.dtype, values.shape, [values])
    labels = attribute.labels
    if labels is None:
        return
    cut = next((label for label in labels if label.endswith("\0")), None)
    if cut is not None:
        raise BadInputError(
            f"{net.path}: {name}: {cut[:40]!r} ends with a zero character, which NumPy drops"
        )
    kind = np.dtype(f"<U{max(1, *map(len, labels))}" if labels else "<U1")
    step = max(1, LABEL_BYTES // kind.itemsize)
    parts = (np.array(labels[i : i + step], kind) for i in range(0, len(labels), step))
    _add(archive, PREFIX + name + LABELS, kind, (len(labels),), parts)


def _add(
    archive: zipfile.ZipFile, name: str, kind: np.dtype[Any], shape: tuple[int, ...], parts: Any
) -> None:
    """Write an array from its consecutive parts."""
    about = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, about)
        for part in parts:
            member.write(np.ascontiguousarray(part, kind).tobytes())
