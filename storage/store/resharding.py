"""Write a network in one file as a network in several files, and the reverse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

from storage.files import PartialFolder, write_file
from storage.parallel import map_ordered
from storage.store.archive import ArchiveWriter, pack
from storage.store.index import numbered
from storage.store.meta import MEMBER
from storage.store.network import NetworkFile
from storage.store.sharded import BLOCKS, DESCRIPTION, WEIGHTS, Layout


def write_sharded(network: NetworkFile, folder: Path, count: int, threads: int = 1) -> None:
    """Write a network as a folder of `count` files, at most one per block.

    The folder gets its name when it is complete. Raises the errors of `PartialFolder`.
    """
    meta = network.meta
    layout = Layout.cut(count, meta.neurons, meta.block_size, meta.attribute_block_size)
    with PartialFolder(folder) as new:
        members = _members_of(network)
        owned: list[list[str]] = [[] for _ in layout.files]
        for name in members:
            owned[layout.part_of(name)].append(name)
        for part, names in zip(layout.files, owned, strict=True):
            _write_members(network, new.partial / part.file, names, threads)
        said = json.loads(meta.to_json()) | {"files": msgspec.to_builtins(layout.files)}
        write_file(new.partial / DESCRIPTION, json.dumps(said, indent=1).encode())
        new.commit()


def write_joined(network: NetworkFile, path: Path, threads: int = 1) -> None:
    """Write a network as one file, identical to the file it was split from if mapper wrote that
    file."""
    _write_members(network, path, list(_members_of(network)), threads, network.meta.to_json())


def _members_of(network: NetworkFile) -> Iterator[str]:
    """Yield all members except the description, in the order of writing."""
    meta, blocks = network.meta, range(network.block_count)
    yield from (numbered(BLOCKS, i) for i in blocks)
    if meta.synaptic is not None:
        yield from (numbered(WEIGHTS, i) for i in blocks)
    for name in meta.attributes:
        for i in range(-(-meta.neurons // meta.attribute_block_size)):
            yield numbered(f"attributes/{name}/", i)


def _write_members(
    network: NetworkFile, path: Path, names: list[str], threads: int, meta: bytes | None = None
) -> None:
    with ArchiveWriter(path) as archive:
        packed = map_ordered(lambda name: pack(name, network.member(name)), names, threads)
        for one in packed:
            archive.add(one)
        if meta is not None:
            archive.add(pack(MEMBER, meta))
        archive.commit()
