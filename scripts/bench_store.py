"""Speed and size of the network file, and of other codecs for it.

    python scripts/bench_store.py [NET] [--repeat 3]

Prints two tables, medians of the repeats. Without NET, a cortical sheet of 100,000 neurons and
5 million synapses is generated first. The first table is the store in its present form; the second
compresses and decompresses the blocks of the same network with other codecs on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import zstandard
from isal import isal_zlib
from rich.console import Console

from mapper.results.tables import columns
from storage.generate import Cortex, generate
from storage.store.archive import ArchiveReader
from storage.store.codec import decode_block, encode_block
from storage.store.network import NetworkFile, block_member


def isal(raw: bytes, window_bits: int) -> bytes:
    compressor = isal_zlib.compressobj(2, isal_zlib.DEFLATED, window_bits)
    packed: bytes = compressor.compress(raw) + compressor.flush()
    return packed


Codec = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]
CODECS: dict[str, Codec] = {
    "ISA-L 2, 512 bytes (net.bin)": (lambda raw: isal(raw, 9), isal_zlib.decompress),
    "ISA-L 2, 32 KiB": (lambda raw: isal(raw, 15), isal_zlib.decompress),
    "zlib 1": (lambda raw: zlib.compress(raw, 1), zlib.decompress),
    "zlib 6": (lambda raw: zlib.compress(raw, 6), zlib.decompress),
    "zstd 1 (used for scratch)": (
        zstandard.ZstdCompressor(level=1).compress,
        zstandard.ZstdDecompressor().decompress,
    ),
}


def seconds(work: Callable[[], object], repeat: int) -> float:
    """Return the median time of several runs; a first run, which may compile or read, is not
    counted.
    """
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def store_rows(path: Path, repeat: int) -> list[tuple[str, str, str]]:
    """Measure reading the whole network, in the forms that passes use."""
    with NetworkFile(path) as net:
        entries = net.connections

        def read(threads: int) -> int:
            return sum(block.connections for block in net.blocks(threads=threads))

        def undirected(threads: int) -> int:
            return sum(lists[1].size for _, lists in net.undirected_blocks(threads=threads))

        works: dict[str, Callable[[], object]] = {
            "inflate and decode, 1 thread": lambda: read(1),
            "inflate and decode, 2 threads": lambda: read(2),
            "inflate, decode, neighbour lists, 1 thread": lambda: undirected(1),
            "inflate, decode, neighbour lists, 2 threads": lambda: undirected(2),
        }
        rows = []
        for name, work in works.items():
            taken = seconds(work, repeat)
            rows.append((name, f"{taken:.3f}", f"{entries / taken / 1e6:.1f}"))
        blocks = list(net.blocks())
        encode = seconds(lambda: [encode_block(block) for block in blocks], repeat)
        rows.append(("encode, 1 thread", f"{encode:.3f}", f"{entries / encode / 1e6:.1f}"))
        raw = [encode_block(block) for block in blocks]
        pairs = list(zip(raw, blocks, strict=True))
        decode = seconds(
            lambda: [decode_block(r, b.first, b.vertices, net.vertices) for r, b in pairs], repeat
        )
        rows.append(("decode, 1 thread", f"{decode:.3f}", f"{entries / decode / 1e6:.1f}"))
    return rows


def codec_rows(path: Path, repeat: int) -> list[tuple[str, str, str, str]]:
    """Measure every codec on the blocks of the network."""
    with NetworkFile(path) as net, ArchiveReader(path) as archive:
        raw = [archive.read(block_member(index)) for index in range(net.block_count)]
        entries = net.connections
    total = sum(map(len, raw))
    rows = [("none", "-", "-", f"{total / entries:.2f}")]
    for name, (compress, inflate) in CODECS.items():
        packed = [compress(block) for block in raw]
        write = seconds(lambda c=compress: [c(block) for block in raw], repeat)  # type: ignore[misc]
        read = seconds(lambda i=inflate, p=packed: [i(b) for b in p], repeat)  # type: ignore[misc]
        size = sum(map(len, packed)) / entries
        rows.append((name, f"{write:.3f}", f"{read:.3f}", f"{size:.2f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", nargs="?", type=Path, metavar="NET")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        path = options.network
        if path is None:
            path = Path(folder) / "cortex.bin"
            generate(Cortex(side=316, fanout=50, sigma=6.0, long_range=0.1), path, seed=1)
        heads = ("reading", "seconds", "million connections/s")
        console.print(columns("store", heads, store_rows(path, options.repeat)))
        names = ("codec", "write, s", "read, s", "bytes per connection")
        console.print(columns("codecs on its blocks", names, codec_rows(path, options.repeat)))


if __name__ == "__main__":
    main()
