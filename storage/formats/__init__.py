"""Import and export of networks in external formats.

::

    meta = import_network(Path("4elt.graph"), Path("4elt.bin"))
    with NetworkFile(Path("4elt.bin")) as net:
        export_network(net, Path("4elt.csv.gz"))
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.errors import BadInputError
from storage.files import open_input
from storage.formats.added import added_formats, find_reader, find_writer
from storage.formats.base import (
    DEFAULT_MEMORY,
    GZIP_MAGIC,
    HEAD_BYTES,
    UTF16,
    Exporter,
    FileFormat,
    Importer,
    ImportJob,
    Progress,
    plain_suffix,
)
from storage.formats.importers import FORMATS
from storage.formats.probes import is_pickle
from storage.plugins import FORMATS as ADDED
from storage.plugins import blaming, known_names, skipping

if TYPE_CHECKING:
    from storage.formats.losses import Loss
    from storage.store.meta import NetworkMeta
    from storage.store.network import NetworkFile


_DIRECTED = ("directions", "fractions")
_ANY = (*_DIRECTED, "undirected")

EXPORTS: dict[str, Exporter] = {
    exporter.name: exporter
    for exporter in (
        Exporter(
            "metis",
            "METIS graph, undirected",
            (".graph", ".mgraph", ".metis"),
            "storage.formats.text.export_metis",
            ("sizes", "undirected"),
            partly=("rates", "attributes"),
            text=True,
        ),
        Exporter(
            "csv",
            "text, one line source,target,weight per synapse",
            (".csv",),
            "storage.formats.text.export_csv",
            ("ids", "names", *_DIRECTED),
            text=True,
        ),
        Exporter(
            "parquet",
            "the same table as Parquet (needs pyarrow)",
            (".parquet", ".pq"),
            "storage.formats.columnar.export_parquet",
            ("ids", "names", *_ANY),
        ),
        Exporter(
            "npz",
            "NumPy archive: a scipy.sparse matrix and all neuron attributes",
            (".npz",),
            "storage.formats.columnar.export_npz",
            ("ids", "names", "sizes", "rates", "attributes", *_ANY),
        ),
        Exporter(
            "matrixmarket",
            "Matrix Market, symmetric if the network is undirected",
            (".mtx", ".mm"),
            "storage.formats.text.export_matrixmarket",
            _ANY,
            text=True,
        ),
        Exporter(
            "graphml",
            "GraphML, directed or not, with sizes",
            (".graphml", ".xml"),
            "storage.formats.text.export_graphml",
            ("ids", "names", "sizes", *_ANY),
            text=True,
        ),
        Exporter(
            "parhip",
            "ParHIP binary graph, undirected",
            (".bgf", ".parhip"),
            "storage.formats.columnar.export_parhip",
            ("sizes", "undirected"),
        ),
        Exporter(
            "hmetis",
            "hMETIS hypergraph; the axon of a neuron is a hyperedge",
            (".hgr",),
            "storage.formats.text.export_hmetis",
            ("sizes",),
            partly=("rates", "directions", "undirected", "fractions"),
            text=True,
        ),
        Exporter(
            "sonata",
            "SONATA edges, HDF5, and the nodes in a second file (needs h5py)",
            (".h5", ".hdf5", ".sonata"),
            "storage.formats.hdf5.export_sonata",
            ("ids", "names", "sizes", *_DIRECTED),
            nodes=True,
        ),
    )
}


def recognise(path: Path, name: str | None = None, *, table: bool = False) -> Importer:
    """Return the importer called `name`, or detect it from the file's content and name.

    table : the user names columns, so the layout of a text does not make it a matrix
    Raises `BadInputError` if the file cannot be read, is already a network file, or has an unknown
    format.
    """
    head = _head(path)
    if head.startswith(b"PK") and _is_network(path):
        raise BadInputError(f"{path}: already a network file; use it without importing it")
    if name is not None:
        return find_importer(name)
    for importer in FORMATS.values():
        if not (table and importer.shape) and importer.sniff(head, path):
            return importer
    added = _added_importer(head, path)
    if added is not None:
        return added
    if is_pickle(head):
        raise BadInputError(
            f"{path}: is a pickle, which may run any program and is not read; write the graph with "
            "Graph.write_graphml (igraph), or pass it to mapper.map_network in Python"
        )
    for importer in FORMATS.values():  # its own error names the fault
        if (importer.magic or importer.probe) and plain_suffix(path) in importer.extensions:
            return importer
    if head.startswith(UTF16):
        raise BadInputError(f"{path}: is UTF-16 text; save it as UTF-8")
    known = known_names(ADDED, FORMATS)
    raise BadInputError(f"{path}: unknown format; choose one with --format ({known})")


def find_importer(name: str) -> Importer:
    """Return the importer of a format, also of other packages.

    Raises `BadInputError` that lists all formats if there is none.
    """
    found = FORMATS.get(name) or find_reader(name)
    if found is None:
        known = known_names(ADDED, FORMATS)
        raise BadInputError(f"unknown format {name!r}; choose one of {known}")
    return found


def _added_importer(head: bytes, path: Path) -> Importer | None:
    """Return the importer of another package that recognises a file."""
    for importer in added_importers():
        with skipping(), blaming(importer.package, f"format {importer.name}"):
            if importer.sniff(head, path):
                return importer
    return None


def added_importers() -> Iterator[Importer]:
    """Yield the importers of other packages; broken packages are reported as warnings."""
    for found in added_formats():
        if found.reader is not None and found.reader.name not in FORMATS:
            yield found.reader


def added_exporters() -> Iterator[Exporter]:
    """Yield the exporters of other packages; broken packages are reported as warnings."""
    for found in added_formats():
        if found.writer is not None and found.writer.name not in EXPORTS:
            yield found.writer


def import_network(
    source: Path,
    destination: Path,
    format: str | None = None,
    *,
    memory: int = DEFAULT_MEMORY,
    threads: int | None = None,
    progress: Progress | None = None,
    traffic: str | None = None,
    weights_are: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> NetworkMeta:
    """Convert a file to a network file; return the metadata written.

    format : a key of `FORMATS`; None: detected
    memory : bytes for sorting; vertex attributes, and the ids of sparse ones, are additional
    traffic : for formats with synaptic weights (NIR, ONNX, SONATA): `traffic.UNIFORM`, every
        neuron fires at rate 1, or `traffic.WEIGHTS`, the weight magnitudes are the traffic; None:
        `UNIFORM`, unless the file states that its weights are traffic
    weights_are : meaning of the file's number per synapse: "rate", its traffic, or "synapse", its
        weight, stored with its sign; None: the meaning defined by the format
        (`Importer.weights_are`)
    extra : options of individual formats, None if not given: `columns` (`columns.ColumnNames`) of
        tables and GraphML, `nodes` (path) of SONATA
    Raises `BadInputError` with the place of the fault; then no output file remains.
    """
    columns = None if extra is None else extra.get("columns")
    importer = recognise(source, format, table=columns is not None)
    weights, traffic = importer.kept_weights(weights_are, traffic)
    if "traffic" in importer.takes:
        extra = {**(extra or {}), "traffic": traffic}
    job = ImportJob(source, destination, memory, threads, weights=weights)
    return importer.load(job if progress is None else job._replace(progress=progress), extra)


def choose_exporter(destination: Path, format: str | None = None) -> Exporter:
    """Return the exporter called `format`, a key of `EXPORTS`, or chosen by extension if None.

    Raises `BadInputError` if there is none.
    """
    if format is not None:
        found = EXPORTS.get(format) or find_writer(format)
        if found is None:
            known = known_names(ADDED, EXPORTS)
            raise BadInputError(f"unknown format {format!r}; choose one of {known}")
        return found
    for exporter in chain(EXPORTS.values(), added_exporters()):
        if plain_suffix(destination) in exporter.extensions:
            return exporter
    known = known_names(ADDED, EXPORTS)
    raise BadInputError(
        f"{destination}: unknown format for networks; choose one with --format ({known})"
    )


def export_network(net: NetworkFile, destination: Path, format: str | None = None) -> list[Loss]:
    """Write a network in another format, see `choose_exporter`.

    Returns the parts of the network that the file does not hold. Raises `BadInputError` if the
    format cannot hold the network, `WriteError` if the file cannot be written; no file remains
    then.
    """
    return choose_exporter(destination, format).save(net, destination)


def _head(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed if it is gzipped."""
    with open_input(path) as file:
        head = file.read(HEAD_BYTES)
    if head.startswith(GZIP_MAGIC):
        try:
            head = zlib.decompressobj(31).decompress(head, HEAD_BYTES)
        except zlib.error as error:
            raise BadInputError(f"{path}: the gzip data is damaged; download it again") from error
    if not head:
        raise BadInputError(f"{path}: is empty; download or save it again")
    return head.removeprefix(b"\xef\xbb\xbf")


def _is_network(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return "meta.json" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        return False


__all__ = [
    "EXPORTS",
    "FORMATS",
    "Exporter",
    "FileFormat",
    "Importer",
    "added_exporters",
    "added_importers",
    "choose_exporter",
    "export_network",
    "find_importer",
    "import_network",
    "recognise",
]
