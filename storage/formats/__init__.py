"""Import and export of networks in external formats.

::

    meta = import_network(Path("4elt.graph"), Path("4elt.bin"))
    with NetworkFile(Path("4elt.bin")) as net:
        export_network(net, Path("4elt.csv.gz"))
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.errors import BadInputError
from storage.files import open_input
from storage.formats.base import (
    DEFAULT_MEMORY,
    GZIP_MAGIC,
    HEAD_BYTES,
    UTF16,
    Exporter,
    Importer,
    ImportJob,
    Progress,
    named,
    plain_suffix,
)
from storage.formats.text.heading import names_columns

if TYPE_CHECKING:
    from storage.formats.losses import Loss
    from storage.store.meta import NetworkMeta
    from storage.store.network import NetworkFile


HDF5 = b"\x89HDF\r\n\x1a\n"


def _is_graphml(head: bytes) -> bool:
    return b"<graphml" in head


def _is_nir(path: Path) -> bool | None:
    """Return whether an HDF5 file is NIR (group `node`) or SONATA (`edges`, `nodes`)."""
    from storage.formats.hdf5 import file as hdf5  # deferred: it imports numpy

    names = hdf5.members(path)
    if names is None or not names & {"node", "nodes", "edges"}:
        return None
    return not names & {"nodes", "edges"}


def _is_parhip(head: bytes) -> bool:
    """Return whether the list of vertex 0 begins right after the starts of all lists."""
    if len(head) < 32:
        return False
    version, vertices, _, first = struct.unpack_from("<4Q", head)
    return version < 64 and bool(first == 8 * (4 + vertices))


FORMATS: dict[str, Importer] = {
    importer.name: importer
    for importer in (  # formats with a magic number first: a name can mislead
        Importer(
            "matrixmarket",
            "Matrix Market; entry (i, j) is a synapse from i to j",
            (".mtx", ".mm"),
            "storage.formats.text.matrixmarket",
            b"%%MatrixMarket",
            gzip=True,
        ),
        Importer(
            "parquet",
            "Parquet table of edges (needs pyarrow)",
            (".parquet", ".pq"),
            "storage.formats.columnar.parquet",
            b"PAR1",
            takes=("columns",),
        ),
        Importer(
            "nir",
            "NIR graph of spiking layers, HDF5 (needs h5py)",
            (".nir",),
            "storage.formats.hdf5.nirfile",
            HDF5,
            inside=_is_nir,
            takes=("traffic",),
        ),
        Importer(
            "npz",
            "NumPy archive: a scipy.sparse matrix, or arrays source, target[, weight]",
            (".npz",),
            "storage.formats.columnar.scipynpz",
            b"PK\3\4",
            takes=("columns",),
        ),
        Importer(
            "onnx",
            "ONNX model of a feed-forward network (needs onnx)",
            (".onnx",),
            "storage.formats.layers.onnxfile",
            binary=True,
            takes=("traffic",),
        ),
        Importer(
            "sonata",
            "SONATA edges (HDF5) or circuit configuration (JSON; needs h5py)",
            (".h5", ".hdf5", ".sonata", ".json"),
            "storage.formats.hdf5.sonata",
            HDF5,
            takes=("nodes", "traffic"),
        ),
        Importer(
            "graphml",
            "GraphML, directed or not; nodes are numbered in order of appearance",
            (".graphml", ".xml"),
            "storage.formats.text.graphml",
            probe=_is_graphml,
            takes=("columns",),
            gzip=True,
        ),
        Importer(
            "parhip",
            "ParHIP binary graph, with sizes and weights (undirected)",
            (".bgf", ".parhip"),
            "storage.formats.columnar.parhip",
            probe=_is_parhip,
        ),
        Importer(
            "metis",
            "METIS graph, with sizes and weights (undirected)",
            (".graph", ".mgraph", ".metis"),
            "storage.formats.text.metis",
            gzip=True,
        ),
        Importer(
            "hmetis",
            "hMETIS hypergraph; a hyperedge is the axon of one neuron",
            (".hgr",),
            "storage.formats.text.hmetis",
            gzip=True,
        ),
        Importer(
            "edgelist",
            "text, one line `source target [weight]` or named columns per synapse",
            (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el"),
            "storage.formats.text.edgelist",
            heading=names_columns,
            takes=("columns",),
            gzip=True,
        ),
        Importer(
            "qaplib",
            "QAPLIB instance on a grid: its flows (undirected if symmetric)",
            (".dat",),
            "storage.formats.text.qaplib",
            gzip=True,
        ),
    )
}

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


def recognise(path: Path, name: str | None = None) -> Importer:
    """Return the importer called `name`, or detect it from the file's content and name.

    Raises `BadInputError` if the file cannot be read, is already a network file, or has an unknown
    format.
    """
    head = _head(path)
    if head.startswith(b"PK") and _is_network(path):
        raise BadInputError(f"{path}: already a network file; use it without importing it")
    if name is not None:
        importer: Importer = named(FORMATS, name)
        return importer
    for importer in FORMATS.values():
        if importer.sniff(head, path):
            return importer
    for importer in FORMATS.values():  # its own error names the fault
        if (importer.magic or importer.probe) and plain_suffix(path) in importer.extensions:
            return importer
    if head.startswith(UTF16):
        raise BadInputError(f"{path}: is UTF-16 text; save it as UTF-8")
    raise BadInputError(f"{path}: unknown format; choose one with --format ({', '.join(FORMATS)})")


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
    importer = recognise(source, format)
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
        exporter: Exporter = named(EXPORTS, format)
        return exporter
    for exporter in EXPORTS.values():
        if plain_suffix(destination) in exporter.extensions:
            return exporter
    raise BadInputError(
        f"{destination}: unknown format for networks; "
        f"choose one with --format ({', '.join(EXPORTS)})"
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
    "Importer",
    "choose_exporter",
    "export_network",
    "import_network",
    "recognise",
]
