"""Networks in several files hold the same as one file; damage is detected."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mapper.errors import CheckFailedError
from mapper.evaluation.verify import verify_network
from storage.address import path_of
from storage.errors import BadInputError, CorruptError, StorageError, WriteError
from storage.store import sharded
from storage.store.network import NetworkFile
from storage.store.resharding import write_joined, write_sharded
from storage.store.sharded import is_sharded
from storage.store.writer import NetworkWriter
from tests.objects import put, s3_server
from tests.reference import storage as naive
from tests.storage.strategies import NetCase, networks, random_edges


def write(path: Path) -> None:
    """Write blocks, weights, integer and real attributes; chunks do not align with blocks."""
    with NetworkWriter(path, 90, block_size=4, weights="synapse") as writer:
        writer.add(*naive.columns(random_edges(90, 900, 5)))
        writer.set_attribute("size", np.arange(90) % 7)
        writer.set_attribute("layer", np.arange(90) % 2, ["in", "out"])
        writer.set_real("tau", np.arange(90) / 3)
        writer.finish({"from": "a test"})


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("storage.store.writer.ATTRIBUTE_BLOCK", 10)
    write(tmp_path / "net.bin")
    return tmp_path / "net.bin"


def everything(path: Path) -> Any:
    with NetworkFile(path) as net:
        attributes = {name: net.attribute(name) for name in net.meta.attributes}
        weights = [
            [column.tolist() for column in net.read_synapses(i)]
            for i in range(net.block_count if net.meta.synaptic else 0)
        ]
        net.check()
        return (
            net.meta,
            naive.flatten(net.blocks(threads=2)),
            {name: (a.values.tolist(), a.labels) for name, a in attributes.items()},
            weights,
        )


@pytest.mark.sample(5)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 23, 1000])
def test_cut_and_joined(count: int, network: Path, tmp_path: Path) -> None:
    folder, back = tmp_path / "net.shards", tmp_path / "back.bin"
    with NetworkFile(network) as net:
        write_sharded(net, folder, count, threads=2)
    assert is_sharded(folder)
    assert not is_sharded(network)
    assert not is_sharded(tmp_path)
    assert len(list(folder.iterdir())) == min(count, 23) + 1
    assert everything(folder) == everything(network)
    assert verify_network(folder) == verify_network(network)
    with NetworkFile(folder) as net:
        write_joined(net, back)
    assert back.read_bytes() == network.read_bytes()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@settings(max_examples=40)
@given(networks(), st.integers(1, 5))
def test_any_network(case: NetCase, count: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        path, folder, back = (Path(name) / each for each in ("net.bin", "net", "back.bin"))
        case.write(path)
        with NetworkFile(path) as net:
            write_sharded(net, folder, count)
        assert everything(folder) == everything(path)
        with NetworkFile(folder) as net:
            write_joined(net, back)
        assert back.read_bytes() == path.read_bytes()


def test_more_files_than_the_open_limit(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharded, "FILES_HELD", 5)
    folder = network.with_name("net.shards")
    with NetworkFile(network) as net:
        write_sharded(net, folder, 20)
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.is_dir() else 0
    with NetworkFile(folder) as net:
        if before:
            assert len(list(descriptors.iterdir())) == before
        with NetworkFile(network) as whole:
            assert (net.meta, net.stored_bytes()) == (whole.meta, whole.stored_bytes())
    assert everything(folder) == everything(network)


def change(**new: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        place = folder / "network.json"
        place.write_text(json.dumps(json.loads(place.read_text()) | new))

    return edit


def files(edit: Callable[[list[Any]], None]) -> Callable[[Path], None]:
    def work(folder: Path) -> None:
        said = json.loads((folder / "network.json").read_text())["files"]
        edit(said)
        change(files=said)(folder)

    return work


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "part-00001.bin").unlink(),
            "part-00001.bin: cannot read: No such",
        ),
        (
            lambda folder: (folder / "part-00001.bin").write_bytes(b"no"),
            "part-00001.bin: not a com",
        ),
        (
            lambda folder: shutil.copy(folder / "part-00000.bin", folder / "part-00001.bin"),
            "part-00001.bin: member blocks/00000007 is missing",
        ),
        (change(files=5), "network.json: files is 5, not a list"),
        (change(files=[]), "its files have 0 blocks, but the network has 23"),
        (change(neurons=200), "its files have 23 blocks, but the network has 50"),
        (change(format="else"), "not a mapper-network"),
        (files(lambda said: said.reverse()), "part-00002.bin starts with block 15, expected 0"),
        (files(lambda said: said[1].update(blocks=0)), r"files\[1\].blocks is 0"),
        (files(lambda said: said[1].update(first=8)), "starts with block 8, expected 7"),
        (
            files(lambda said: said[1].update(file="../x")),
            "'../x' is not a plain file name",
        ),
        (files(lambda said: said[1].update(file="part-00000.bin")), "lists a file twice"),
        (lambda folder: (folder / "network.json").write_text("{"), "network.json: "),
    ],
)
def test_damage(damage: Callable[[Path], Any], message: str, network: Path) -> None:
    folder = network.with_name("net.shards")
    with NetworkFile(network) as net:
        write_sharded(net, folder, 3)
    damage(folder)
    with pytest.raises(BadInputError, match=message) as told:
        everything(folder)
    assert "\n" not in str(told.value)
    with pytest.raises(CheckFailedError) as slowly:
        verify_network(folder)
    assert "\n" not in str(slowly.value)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_every_flipped_byte(network: Path) -> None:
    folder = network.with_name("net.shards")
    with NetworkFile(network) as net:
        write_sharded(net, folder, 2)
    expected = everything(folder)
    noticed = 0
    for path in sorted(folder.iterdir()):
        good = path.read_bytes()
        for place in range(0, len(good), 13):
            damaged = bytearray(good)
            damaged[place] ^= 0x81
            path.write_bytes(damaged)
            try:
                found = everything(folder)
            except StorageError as error:
                assert str(error).startswith(str(folder)), error
                assert "\n" not in str(error)
                noticed += 1
            else:
                # the description has no checksum
                assert found == expected or path.name == "network.json"
        path.write_bytes(good)
    assert noticed > 100


def test_not_written(network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NetworkFile(network) as net:
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "mine").touch()
        with pytest.raises(WriteError, match="full: is not empty; choose another place"):
            write_sharded(net, tmp_path / "full", 3)
        assert [one.name for one in (tmp_path / "full").iterdir()] == ["mine"]
        with pytest.raises(WriteError, match="cannot write: No such file"):
            write_sharded(net, tmp_path / "none" / "folder", 3)

        def fails(*_: object) -> bytes:
            raise CorruptError("damaged")

        monkeypatch.setattr(NetworkFile, "member", fails)
        with pytest.raises(CorruptError):
            write_sharded(net, tmp_path / "new", 3)
        assert not (tmp_path / "new").exists()


@pytest.mark.heavy
@pytest.mark.filterwarnings("default")  # warnings of moto
def test_in_a_store(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = network.with_name("net.shards")
    with NetworkFile(network) as net:
        write_sharded(net, folder, 3)
    with s3_server(monkeypatch) as endpoint:
        for path in folder.iterdir():
            put(f"{endpoint}/lab/some/net.shards/{path.name}", path.read_bytes())
        address = path_of("s3://lab/some/net.shards")
        assert everything(address) == everything(network)
        assert verify_network(address) == verify_network(network)
        for none in ("s3://lab/some/other", "s3://lab/some/net.bin"):
            with pytest.raises(BadInputError, match=f"^{none}: no such object"):
                NetworkFile(path_of(none))
