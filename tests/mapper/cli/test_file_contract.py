"""Other input files (rates, chips, constraints, mappings): damage gives one plain error line.

Networks are tested in `test_bad_files`, other file formats in `tests/storage/formats`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.file import chip_toml
from chipsim.chip.model import Chip
from chipsim.chip.presets import parse_chip
from chipsim.errors import ChipError
from mapper.errors import MapperError
from mapper.extend.contract import unclear
from mapper.extend.formats import variants
from mapper.limits.combined_constraints import read_constraints
from mapper.limits.constraints import ConstraintFile
from mapper.limits.split_neurons import RelayNeurons
from mapper.results.mapping_file import load_mapping, load_relays, save_csv, save_mapping
from storage.errors import StorageError
from storage.formats.rates import read_rates
from storage.store.network import NetworkFile
from tests.mapper.helpers import write_network

NEURONS = 6
CHIP = Chip(name="small", width=3, height=2, neurons=4, unavailable=(5,))
CONSTRAINTS = """\
# a comment
[[pin]]
neurons = [0, 5]
core = "1,0"

[[together]]
range = [1, 3]

[[region]]
neurons = [4]
rectangle = [0, 1, 1, 1]
exclusive = true

[[apart]]
groups = [[0], [2]]
"""


@dataclass(frozen=True)
class Kind:
    """name : file name; make : function that returns its content; read : its reader"""

    name: str
    make: Callable[[Path], bytes]
    read: Callable[[Path, NetworkFile], Any]


def text(content: str) -> Callable[[Path], bytes]:
    return lambda folder: content.encode()


def rates_npz(folder: Path) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, rate=np.arange(NEURONS) / 2)
    return buffer.getvalue()


def spikes(folder: Path) -> bytes:
    h5py = pytest.importorskip("h5py", reason="spike reports need h5py")
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        group = file.create_group("spikes/all")
        group["node_ids"] = np.array([0, 1, 1, 5], np.uint64)
        group["timestamps"] = np.array([1.5, 2, 30, 40])
    return buffer.getvalue()


def saved(save: Callable[[Path], None]) -> Callable[[Path], bytes]:
    def make(folder: Path) -> bytes:
        save(folder / "made")
        content = (folder / "made").read_bytes()
        (folder / "made").unlink()
        return content

    return make


def split_mapping(path: Path) -> None:
    one = np.array([2], np.int64)
    relays = RelayNeurons(one, one * 0, one)
    save_mapping(path, np.array([0, 0, 1, 1, 2, 4, 3], np.int32), CHIP, relays)


def mapping(path: Path, network: NetworkFile) -> None:
    load_mapping(path, NEURONS, CHIP)
    load_relays(path, CHIP, NEURONS, 99)


def constraints(path: Path, network: NetworkFile) -> None:
    read_constraints(ConstraintFile.read(path), CHIP, network)


CORE = np.array([0, 0, 1, 1, 2, 4], np.int32)
RATES = "neuron,rate\n0,1.5\n1,0\n2,3e1\n3,4\n4,5\n5,0.25\n"
KINDS = [
    Kind("rates.csv", text(RATES), read_rates),
    Kind("rates.npz", rates_npz, read_rates),
    Kind("spikes.h5", spikes, read_rates),
    Kind("chip.toml", text(chip_toml(CHIP)), lambda path, _: parse_chip(str(path))),
    Kind("constraints.toml", text(CONSTRAINTS), constraints),
    Kind("mapping.npz", saved(lambda path: save_mapping(path, CORE, CHIP)), mapping),
    Kind("split.npz", saved(split_mapping), mapping),
    Kind("mapping.csv", saved(lambda path: save_csv(path, CORE)), mapping),
]


def wrong(error: Exception, path: Path) -> str:
    """Return the fault of a message, or ""; messages on chips put two words before the path."""
    message = str(error).removeprefix("chip file ").replace(f"{path} ", f"{path}: ", 1)
    return unclear(message, path)


@pytest.fixture
def network(tmp_path: Path) -> NetworkFile:
    return NetworkFile(write_network(tmp_path / "net.bin", [(0, 1), (4, 5)], NEURONS))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damage_ends_in_one_line(kind: Kind, tmp_path: Path, network: NetworkFile) -> None:
    whole, path = kind.make(tmp_path), tmp_path / kind.name
    path.write_bytes(whole)
    with network:
        kind.read(path, network)
        given = [*variants(whole, seed=3), ("UTF-16", "a = 1\n".encode("utf-16"))]
        given += [("nothing", b""), ("zeros", bytes(99)), ("noise", b"\xff\n" * 999)]
        bad = []
        for what, data in given:
            path.write_bytes(data)
            try:
                kind.read(path, network)
            except (StorageError, MapperError, ChipError) as error:
                bad += [f"{what}: {fault}" for fault in [wrong(error, path)] if fault]
            except Exception as error:
                bad.append(f"{what}: {type(error).__name__}: {error}")
        assert bad == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_unreadable_files(kind: Kind, tmp_path: Path, network: NetworkFile) -> None:
    with network:
        for name, reason in (
            ("none", "[Nn]o such file|does not exist"),
            ("folder.d", "[Ii]s a directory"),
        ):
            path = (tmp_path / name).with_suffix(Path(kind.name).suffix)
            if name != "none":
                path.mkdir()
            with pytest.raises((StorageError, MapperError, ChipError), match=reason) as caught:
                kind.read(path, network)
            assert wrong(caught.value, path) == ""
