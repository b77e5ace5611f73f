"""Damage of a network file is detected, unless it is in unused bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.errors import CorruptError, StorageError
from storage.scratch.scratch import Scratch
from storage.store.network import NetworkFile
from storage.store.writer import NetworkWriter
from tests.reference import storage as naive


@pytest.fixture(params=[0xFFFFFFFF, 0], ids=["zip", "zip64"])
def network(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "net.bin"
    with NetworkWriter(path, 6, block_size=4) as writer:
        writer.add(
            np.array([0, 0, 4, 5, 5]), np.array([1, 3, 2, 0, 0]), np.array([1, 2, 300, 4, 5])
        )
        writer.set_attribute("size", np.array([1, 2, 3, 4, 5, 6]))
        writer.set_attribute("layer", np.array([0, 1, 0, 1, 0, 1]), ["in", "out"])
        writer._archive._limit = request.param
        writer.finish({"from": "a test"})
    return path


def everything(path: Path) -> Any:
    with NetworkFile(path) as net:
        attributes = {name: net.attribute(name) for name in net.meta.attributes}
        return (
            net.meta,
            naive.flatten(net.blocks()),
            net.vertex_sizes().tolist(),
            {name: (a.values.tolist(), a.labels) for name, a in attributes.items()},
        )


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_flipped_byte(mask: int, network: Path) -> None:
    good, expected = network.read_bytes(), everything(network)
    noticed = 0
    for place in range(len(good)):
        damaged = bytearray(good)
        damaged[place] ^= mask
        network.write_bytes(damaged)
        try:
            found = everything(network)
        except StorageError as error:
            assert str(error).startswith(str(network)), error
            assert "\n" not in str(error)
            noticed += 1
        else:
            assert found == expected, place
    assert noticed > len(good) // 2


def test_every_truncation(network: Path) -> None:
    good = network.read_bytes()
    for length in range(len(good)):
        network.write_bytes(good[:length])
        with pytest.raises(StorageError, match="recreate the network"):
            everything(network)


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_removed_and_inserted_bytes(network: Path) -> None:
    """Shifted content is detected, or found through the archive's directory."""
    good, expected = network.read_bytes(), everything(network)
    for place in range(0, len(good), 3):
        for damaged in (good[:place] + good[place + 5 :], good[:place] + b"\0" + good[place:]):
            network.write_bytes(damaged)
            try:
                assert everything(network) == expected, place
            except StorageError as error:
                assert str(error).startswith(str(network)), error


def test_closed_after_a_failure(network: Path) -> None:
    """A failed open leaves no open descriptor."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        pytest.skip("no /proc here")
    network.write_bytes(network.read_bytes().replace(b"meta.json", b"META.json"))
    before = len(list(descriptors.iterdir()))
    for _ in range(3):
        with pytest.raises(CorruptError, match=r"a zip archive without meta\.json"):
            NetworkFile(network)
    assert len(list(descriptors.iterdir())) == before


def test_damaged_scratch(tmp_path: Path) -> None:
    with Scratch(tmp_path / "scratch") as scratch:
        scratch.put("a", b"x" * 1000)
        packed = bytearray(scratch._log.get("a"))
        for place in range(len(packed)):
            damaged = packed.copy()
            damaged[place] ^= 0xFF
            scratch.put_compressed([(f"b{place}", bytes(damaged))])
        for place in range(len(packed)):
            try:
                assert scratch.get(f"b{place}") == b"x" * 1000
            except CorruptError as error:
                assert str(error).endswith("; run again")
