"""Damaged and impossible files: one line that names the file, exit code 1, no leftover files."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mapper.evaluation.verify import verify_network
from storage.errors import StorageError
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import members_of, random_network, write_network

pytestmark = pytest.mark.usefixtures("light_placement")

Fails = Callable[..., str]
CHIP = ("--chip", "4x4", "--neurons-per-core", "4")


def every_command(network: str | Path) -> list[tuple[str | Path, ...]]:
    return [
        ("run", network, *CHIP, "-o", "out"),
        ("check", network, "--chip", "4x4", "--synapses-per-core", "99"),
        ("score", network, "map.csv", *CHIP),
        ("place", network, *CHIP),
        ("export", network, "out.csv"),
        ("verify", network),
    ]


@pytest.fixture
def network(folder: Path) -> Path:
    (folder / "map.csv").write_text("".join(f"{i // 4}\n" for i in range(16)))
    return random_network(folder / "net.bin", 16, 60, block_size=4)


def test_truncated_anywhere(network: Path, fails: Fails) -> None:
    raw = network.read_bytes()
    for length in (0, 1, 20, len(raw) // 2, len(raw) - 30, len(raw) - 1):
        network.write_bytes(raw[:length])
        for command in every_command(network):
            assert str(network) in fails(*command)


def test_not_a_network(fails: Fails, folder: Path, network: Path) -> None:
    network.write_bytes(b"some text\n" * 50)
    for command in every_command(network):
        assert str(network) in fails(*command)
    with zipfile.ZipFile(network, "w") as archive:
        archive.writestr("hello.txt", "x")
    for command in every_command(network):
        assert str(network) in fails(*command)


def test_missing_files(fails: Fails, network: Path) -> None:
    for command in every_command("none.bin"):
        assert "none.bin" in fails(*command)
    assert "none.graph" in fails("run", "none.graph", *CHIP, "-o", "out")
    assert "none" in fails("info", "none")
    assert "none.csv" in fails("score", network, "none.csv", *CHIP)
    assert "none.toml" in fails("run", network, "--chip", "none.toml", "-o", "out")


def contents(path: Path) -> list[Any]:
    with NetworkFile(path) as network:
        lists = [
            (b.first, b.indptr.tolist(), b.ids.tolist(), b.weights.tolist(), b.incoming.tolist())
            for b in network.blocks()
        ]
        return [lists, network.vertex_sizes().tolist(), network.meta]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_one_flipped_byte_is_never_silent(folder: Path) -> None:
    """Change each byte of the file: an error, or, if the change is harmless, the same network."""
    path = random_network(folder / "net.bin", 9, 30, block_size=5, sizes=[1, 2, 3] * 3)
    raw, sound = path.read_bytes(), contents(path)
    with zipfile.ZipFile(path) as archive:
        block = archive.getinfo("blocks/00000001")
    start = block.header_offset + 30 + len(block.filename)
    data = range(start, start + block.compress_size)
    for position in range(len(raw)):
        for flip in (1, 0xFF):
            path.write_bytes(raw[:position] + bytes([raw[position] ^ flip]) + raw[position + 1 :])
            try:
                assert contents(path) == sound
                assert position not in data
            except StorageError as error:
                assert str(path) in str(error)
                assert "\n" not in str(error)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.parametrize("flip", [1, 0x80])
def test_one_flipped_byte_never_passes_or_crashes_verify(folder: Path, flip: int) -> None:
    from mapper.errors import CheckFailedError

    path = random_network(folder / "net.bin", 9, 30, block_size=5, sizes=[1, 2, 3] * 3)
    raw, sound = path.read_bytes(), verify_network(path)
    for position in range(len(raw)):
        path.write_bytes(raw[:position] + bytes([raw[position] ^ flip]) + raw[position + 1 :])
        try:
            assert verify_network(path) == sound
        except CheckFailedError as error:
            assert str(path) in str(error)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_flipped_bytes_of_a_block_end_every_command(network: Path, fails: Fails) -> None:
    raw = network.read_bytes()
    with zipfile.ZipFile(network) as archive:
        block = archive.getinfo("blocks/00000002")
    start = block.header_offset + 30 + len(block.filename)
    for position in range(start, start + block.compress_size, 7):
        network.write_bytes(raw[:position] + bytes([raw[position] ^ 4]) + raw[position + 1 :])
        for command in every_command(network):
            assert "blocks/00000002" in fails(*command)


def crafted(path: Path, block: bytes) -> Path:
    """Write a network of three neurons and one synapse with the given block bytes and a valid
    CRC.
    """
    write_network(path, [(0, 1)], 3)
    with members_of(path) as members:
        members["blocks/00000000"] = block
    return path


@pytest.mark.parametrize(
    "block",
    [
        b"\x01\x0c\x03\x01\x0d\x00\x00",
        b"\x01\x0c\x80\x80\x80\x80\x10\x00\x00",
        b"\x01\x0c" + b"\x80" * 10 + b"\x01\x00\x00",
        b"\x01\x0c" + b"\xff" * 9 + b"\x7f\x00\x00",
        b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x01\x0e\x01\x00\x00",
        b"\x01\x0c\x01\x01\x0d\x00\x80",
        b"",
    ],
    ids=["id 3 of 3", "id 2^32", "11 bytes", "beyond 2^63", "overlong count", "huge count",
         "gap at the start", "ends inside a number", "empty"],
)  # fmt: skip
def test_crafted_blocks(block: bytes, folder: Path, fails: Fails, network: Path) -> None:
    path = crafted(folder / "crafted.bin", block)
    for command in every_command(path):
        if command[0] != "score":
            assert "crafted.bin" in fails(*command)


def test_a_meta_with_too_large_counts(folder: Path, fails: Fails) -> None:
    path = folder / "net.bin"
    for change in ({"neurons": 0}, {"neurons": 2**31}, {"neurons": 9}, {"block_size": 1}):
        write_network(path, [(0, 1)], 3)
        with members_of(path) as members:
            members["meta.json"] = json.dumps(json.loads(members["meta.json"]) | change).encode()
        for command in every_command(path):
            if command[0] != "score":
                assert "net.bin" in fails(*command)


@pytest.mark.parametrize("name", ["a.h5", "a.csv", "a.mtx", "a.parquet", "a.graphml"])
@pytest.mark.parametrize("synapses", [1, 9])
def test_number_of_synapses_differs_from_the_meta(
    synapses: int, name: str, folder: Path, fails: Fails, run: Run
) -> None:
    """A hub of eight synapses with another count in meta.json."""
    path = write_network(folder / "net.bin", [(0, v) for v in range(1, 9)], 9)
    changes = {"synapses": synapses, "connections": 2 * synapses}
    with members_of(path) as members:
        members["meta.json"] = json.dumps(json.loads(members["meta.json"]) | changes).encode()
    assert f"meta.json states {synapses} synapses" in fails("export", path, name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("3 2\n2\n1 3\n", ""),
        ("3 5\n2\n1 3\n2\n", ""),
        ("3 2\n2 3\n1\n\n", ""),
        ("3 2\n2\n1 4\n2\n", ""),
        ("3 2\n2\n1 x\n2\n", "x"),
        ("3 2 7\n2\n1 3\n2\n", ""),
        ("3 2 1\n2 5\n1 6 3 1\n2 1\n", ""),
        ("3 2 1\n2 -5\n1 -5 3 1\n2 1\n", ""),
        ("0 0\n", ""),
        ("", ""),
    ],
    ids=["line missing", "edges too few", "one direction", "id beyond", "word", "format code",
         "weights differ", "negative", "no vertices", "empty file"],
)  # fmt: skip
def test_metis(text: str, reason: str, fails: Fails, folder: Path) -> None:
    (folder / "g.graph").write_text(text)
    for command in (
        ("run", "g.graph", *CHIP, "-o", "out"),
        ("import", "g.graph", "g.bin"),
        ("place", "g.graph", *CHIP, "-o", "out.npz"),
    ):
        message = fails(*command)
        assert "g.graph" in message
        assert reason in message


@pytest.mark.parametrize("weight", ["nan", "inf", "-inf", "1e999", "x"])
def test_weights(weight: str, fails: Fails, folder: Path) -> None:
    (folder / "e.csv").write_text(f"0,1,2\n1,2,{weight}\n")
    assert "e.csv" in fails("run", "e.csv", *CHIP, "-o", "out")
    assert "e.csv" in fails("import", "e.csv", "e.bin")


def test_an_old_result_survives_a_failed_import(folder: Path, fails: Fails, run: Run) -> None:
    (folder / "good.txt").write_text("0 1\n1 2\n")
    assert run("import", "good.txt", "net.bin").code == 0
    (folder / "bad.csv").write_text("0,1,2\n1,2,nan\n")
    fails("import", "bad.csv", "net.bin")  # compares every byte below the folder
    assert run("verify", "net.bin").code == 0


def test_an_old_result_survives_a_failed_run(network: Path, fails: Fails, run: Run) -> None:
    assert run("run", network, *CHIP, "-o", "out").code == 0
    fails(
        "run", network, "--chip", "2x2", "--neurons-per-core", "3", "-o", "out", "--force", code=3
    )
    assert run("verify", "out").code == 0


def test_mappings_of_another_network(network: Path, fails: Fails, run: Run, folder: Path) -> None:
    def score(name: str) -> str:
        return fails("score", network, name, *CHIP)

    run("run", network, "--chip", "2x8", "--neurons-per-core", "4", "-o", "out")
    assert "2x8" in score("out/mapping.npz")
    for name, text, reason in (
        ("short.csv", "0\n1\n", "maps 2 neurons"),
        ("far.csv", "16\n" + "0\n" * 15, "core 16"),
        ("minus.csv", "header\n-1\n" + "0\n" * 15, "core -1"),
        ("words.csv", "0\n" * 15 + "x\n", "not a csv"),
        ("floats.csv", "0.5\n" * 16, "not a csv"),
        ("twice.csv", "0,0\n" * 16, "once"),
        ("empty.csv", "", "empty.csv"),
        ("header.csv", "neuron,core\n", "header.csv"),
    ):
        (folder / name).write_text(text)
        assert reason in score(name)
    (folder / "binary.csv").write_bytes(struct.pack("<8d", *np.linspace(-9, 9, 8)))
    assert "binary.csv" in score("binary.csv")
    for name, arrays in (
        ("other.npz", {"cores": np.zeros(16, int)}),
        ("float.npz", {"core": np.zeros(16)}),
        ("square.npz", {"core": np.zeros((4, 4), int)}),
        ("wide.npz", {"core": np.zeros(16, int), "width": np.arange(3), "height": 4}),
        ("object.npz", {"core": np.array([{}] * 16, object)}),
        ("half.npz", {"core": np.zeros(16, int), "width": 4}),
    ):
        np.savez(folder / name, **arrays)
        assert name in score(name)
