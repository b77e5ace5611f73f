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

from mapper.extend.contract import unclear
from mapper.extend.formats import read_whole, variants
from storage.errors import StorageError
from storage.formats import import_network
from tests.storage.formats.samples import SAMPLES, Sample

MEMORY = 1 << 30  # bytes in addition to the interpreter and its libraries


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
