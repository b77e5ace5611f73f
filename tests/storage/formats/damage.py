"""Damage the samples of a format in every way, and report those not refused with one line.

    python -W error -m tests.storage.formats.damage FORMAT FOLDER

Runs as a separate process: a crash of the interpreter or an endless loop ends only this process,
and the system refuses excessive memory.
"""

from __future__ import annotations

import gzip
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from storage.errors import StorageError
from storage.formats import import_network
from storage.store.network import NetworkFile
from tests.storage.formats.samples import SAMPLES, Sample

CUTS = 40  # truncations of a file
CHANGES = 60  # changes of single bytes
MEMORY = 1 << 30  # bytes in addition to the interpreter and its libraries
MOST_SAID = 300  # most characters of a message without the path
Variant = tuple[str, bytes]


def variants(data: bytes, seed: int) -> Iterator[Variant]:
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


def read_whole(path: Path) -> tuple[int, int]:
    """Return neurons and synapses of a network file, all of which is read."""
    with NetworkFile(path) as net:
        for block in net.blocks():
            block.outgoing()
        for name in net.meta.attributes:
            net.attribute(name)
        return net.meta.neurons, net.meta.synapses


def outcome(source: Path, data: bytes, out: Path, format: str | None) -> str:
    """Return the fault of an import, "" for a network or a one-line error naming the file."""
    source.write_bytes(data)
    network = out / "net.bin"
    wrong = ""
    try:
        import_network(source, network, format, threads=1)
    except StorageError as error:
        wrong = unclear(str(error), source)
    except BaseException as error:
        wrong = f"{type(error).__name__}: {error}"
    else:
        read_whole(network)
        network.unlink()
    left = [path.name for path in out.iterdir()]
    return wrong or (f"leftover files {left}" if left else "")


def unclear(message: str, source: Path) -> str:
    """Return why a message is unclear, or ""."""
    said = message.removeprefix(f"{source}: ")
    if said == message:
        return f"does not start with the file: {message}"
    if not said.isprintable() or len(said) > MOST_SAID or len(said.split()) < 2:
        return f"is not one plain line: {said!r}"
    return ""


def faults(format: str, sample: Sample, folder: Path) -> Iterator[str]:
    """Yield all damage to a sample that is not handled properly."""
    out = folder / f"out-{sample.name}"
    out.mkdir()
    whole = sample.make(folder)
    packed = gzip.compress(whole, mtime=0)
    files = [(sample.name, variant) for variant in variants(whole, seed=1)]
    files += [(f"{sample.name}.gz", variant) for variant in variants(packed, seed=2)]
    for name, (what, data) in files:
        for chosen in (None, format):  # detected, or named
            found = outcome(folder / name, data, out, chosen)
            if found:
                yield f"{name}, {what}, format {chosen}: {found}"
        (folder / name).unlink()


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def main(format: str, folder: Path) -> int:
    """Print all damage that is not handled properly; return its count."""
    out = folder / "valid"
    out.mkdir()
    for sample in SAMPLES[format]:
        # before memory is limited: loads libraries and compiles kernels
        found = outcome(folder / sample.name, sample.make(folder), out, None)
        if found:
            sys.exit(f"{sample.name}: {found}")
    limit_memory()
    bad = [fault for sample in SAMPLES[format] for fault in faults(format, sample, folder)]
    for fault in bad:
        print(fault)  # noqa: T201
    return len(bad)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1], Path(sys.argv[2])) else 0)
