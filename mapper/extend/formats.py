"""Contracts of readers and writers of networks."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from mapper.extend.contract import contents, own_folder, require, unclear
from storage.errors import BadInputError, StorageError
from storage.formats.added import fault_of_extensions
from storage.formats.base import HEAD_BYTES, Exporter, Importer, ImportJob
from storage.formats.losses import KINDS, Loss
from storage.store.network import ID, SIZE, NetworkFile
from storage.store.writer import NetworkWriter

CUTS = 40  # truncations of a file
CHANGES = 60  # changes of single bytes
NETWORK = "net.bin"


def check_importer(importer: Importer, samples: Mapping[str, bytes]) -> None:
    """Check the reader of a format: samples are read, damaged ones end in one line.

    Parameters
    ----------
    importer : the reader
    samples : contents of valid files by name, at least one; small, as each is damaged in 100 ways

    Raises
    ------
    ContractError
        If a sample is not recognised or not read, if two imports differ, or if a damaged file gives
        anything but a network or a `BadInputError` of one line that begins with its path.
    """
    fault = fault_of_extensions(importer.extensions)
    require(not fault, f"{importer.name}: {fault}")
    require(bool(samples), f"{importer.name}: has no samples")
    for name, content in samples.items():
        with own_folder() as folder:
            _check_sample(importer, folder, name, content)
        with own_folder() as folder:
            for what, damaged in [("no content", b""), *variants(content, seed=1)]:
                found = outcome(importer, folder / name, damaged)
                require(not found, f"{importer.name}: {name}, {what}: {found}")


def _check_sample(importer: Importer, folder: Path, name: str, content: bytes) -> None:
    """Check that a valid file is recognised, and read the same way each time."""
    files = {name: content}
    if importer.gzip:
        files[f"{name}.gz"] = gzip.compress(content, mtime=0)
    made: list[bytes] = []
    for called, data in files.items():
        source = folder / called
        source.write_bytes(data)
        require(
            importer.sniff(content[:HEAD_BYTES], source),
            f"{importer.name}: {called} is not recognised",
        )
        for threads in (1, 2):
            out = folder / f"{called}-{threads}"
            out.mkdir()
            fractions: list[float] = []
            job = ImportJob(source, out / NETWORK, threads=threads, progress=fractions.append)
            extra = {"traffic": "weights"} if "traffic" in importer.takes else {}
            meta = importer.load(job, extra)
            require(list(contents(out)) == [NETWORK], f"{importer.name}: files remain next to it")
            read = read_whole(out / NETWORK)
            require(
                read == (meta.neurons, meta.synapses),
                f"{importer.name}: {called}: returns other counts than the network has",
            )
            require(
                all(0 <= each <= 1 for each in fractions),
                f"{importer.name}: progress is not a fraction from 0 to 1",
            )
            made.append(_without_name(out / NETWORK))
    require(len(set(made)) == 1, f"{importer.name}: {name}: two imports of the file differ")


def _without_name(network: Path) -> bytes:
    """Return the connections and attributes of a network, whose provenance may name its file."""
    parts: list[bytes] = []
    with NetworkFile(network) as net:
        for block in net.blocks():
            parts += [array.tobytes() for array in block.outgoing()]
        for name in net.meta.attributes:
            parts += [name.encode(), net.attribute(name).stored.tobytes()]
    return b"".join(parts)


def variants(data: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies of a file with a description, reproducible by seed."""
    for length in sorted({len(data) * i // CUTS for i in range(CUTS)} | {len(data) - 1}):
        yield f"cut at {length}", data[:length]
    rng = np.random.default_rng(seed)
    for i in range(CHANGES):
        at, byte = int(rng.integers(len(data))), int(rng.integers(256))
        if i % 3 == 0:
            changed = data[:at] + bytes([data[at] ^ (byte or 1)]) + data[at + 1 :]
            yield f"byte {at} changed by {byte or 1}", changed
        elif i % 3 == 1:
            yield f"{byte} inserted at {at}", data[:at] + bytes([byte]) + data[at:]
        else:
            yield f"byte {at} removed", data[:at] + data[at + 1 :]


def outcome(importer: Importer, source: Path, data: bytes) -> str:
    """Return the fault of an import, "" for a network or a one-line error naming the file."""
    source.write_bytes(data)
    out = source.parent / "out"
    out.mkdir(exist_ok=True)
    wrong = ""
    try:
        importer.load(ImportJob(source, out / NETWORK, threads=1))
    except StorageError as error:
        wrong = unclear(str(error), source)
        if not wrong and type(error).__name__ == "PluginError":
            wrong = str(error)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    else:
        read_whole(out / NETWORK)
        (out / NETWORK).unlink()
    left = list(contents(out))
    return wrong or (f"leftover files {left}" if left else "")


def read_whole(path: Path) -> tuple[int, int]:
    """Return neurons and synapses of a network file, all of which is read."""
    with NetworkFile(path) as net:
        for block in net.blocks():
            block.outgoing()
        for name in net.meta.attributes:
            net.attribute(name)
        return net.meta.neurons, net.meta.synapses


def check_exporter(exporter: Exporter) -> None:
    """Check the writer of a format, with networks of all kinds: directed or not, with attributes.

    Raises
    ------
    ContractError
        If two exports differ, files remain next to an export or after an error, a loss is of a kind
        that the format declares to hold, or a name that ends in .gz is neither gzipped nor refused.
    """
    fault = fault_of_extensions(exporter.extensions)
    require(not fault, f"{exporter.name}: {fault}")
    for part in (*exporter.holds, *exporter.partly):
        require(part in KINDS, f"{exporter.name}: {part} is not one of {', '.join(KINDS)}")
    for undirected in (False, True):
        with own_folder() as folder:
            network = _network(folder / NETWORK, undirected)
            _check_export(exporter, network, folder)


def _network(path: Path, undirected: bool) -> Path:
    """Write a network with fractional weights, ids with gaps, and sizes."""
    source, target = np.array([0, 1, 2, 4, 3]), np.array([1, 2, 3, 0, 1])
    with NetworkWriter(path, 6, undirected=undirected) as writer:
        writer.add(source, target, np.array([0.5, 1, 2.25, 3, 1]))
        writer.set_attribute(ID, np.array([3, 5, 7, 100, 101, 200]))
        writer.set_attribute(SIZE, np.array([1, 2, 1, 1, 3, 1]))
        writer.finish()
    return path


def _check_export(exporter: Exporter, network: Path, folder: Path) -> None:
    """Check the exports of a network."""
    name, ending = exporter.name, exporter.extensions[0]
    with NetworkFile(network) as net:
        written = []
        for attempt in ("first", "second"):
            (folder / attempt).mkdir()
            losses = _saved(exporter, net, folder / attempt / f"a{ending}")
            if losses is None:
                require(not contents(folder / attempt), f"{name}: files remain after an error")
                return
            lost = sorted({loss.kind for loss in losses} & set(exporter.holds))
            require(not lost, f"{name}: loses parts that it declares to hold: {', '.join(lost)}")
            written.append(contents(folder / attempt))
        require(written[0] == written[1], f"{name}: two exports of a network differ")
        require(f"a{ending}" in written[0], f"{name}: the file does not have the given name")
        most = 1 + exporter.nodes
        require(len(written[0]) <= most, f"{name}: other files remain: {', '.join(written[0])}")
        nowhere = folder / "nowhere" / f"a{ending}"
        require(_saved(exporter, net, nowhere) is None, f"{name}: writes into a missing folder")
        packed = folder / "first" / f"b{ending}.gz"
        losses = _saved(exporter, net, packed)
        require(exporter.text == (losses is not None), f"{name}: a name in .gz needs text=True")
        if losses is not None:
            require(_unpacked(packed) == written[0][f"a{ending}"], f"{name}: .gz differs")


def _unpacked(path: Path) -> bytes | None:
    try:
        return gzip.decompress(path.read_bytes())
    except OSError:
        return None


def _saved(exporter: Exporter, net: NetworkFile, path: Path) -> list[Loss] | None:
    """Write a file; return None after an error of one line, with its path."""
    try:
        return exporter.save(net, path)
    except StorageError as error:
        fault = unclear(str(error), path) if isinstance(error, BadInputError) else ""
        require(not fault, f"{exporter.name}: an error {fault}")
        require(not path.exists(), f"{exporter.name}: a file remains after an error")
        return None
