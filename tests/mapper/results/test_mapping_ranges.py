"""Mappings in one file and in ranges: all readers accept both."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from chipsim.chip.model import Chip
from mapper.errors import MapperError
from mapper.limits.split_neurons import RelayNeurons
from mapper.results import mapping_ranges
from mapper.results.mapping_file import (
    load_mapping,
    load_relays,
    mapping_in,
    save_mapping,
    save_mapping_in,
)
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

CHIP = Chip("c", 6, 4, neurons=9)
CORE = np.random.default_rng(2).integers(0, 24, 50).astype(np.int32)
RELAYS = RelayNeurons(np.array([3, 3, 7]), np.array([0, 5, 0]), np.array([4, 9, 9]))
CHIP_OPTIONS = ("--chip", "6x4", "--neurons-per-core", "9")
Change = Callable[[Any], None]


@pytest.fixture
def ranged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store mappings of more than 20 neurons in ranges of 16."""
    monkeypatch.setattr(mapping_ranges, "MOST_IN_ONE", 20)
    monkeypatch.setattr(mapping_ranges, "RANGE", 16)
    monkeypatch.setattr(mapping_ranges, "WRITTEN_NEURONS", 5)


@pytest.fixture(params=["one file", "ranges"])
def form(request: pytest.FixtureRequest) -> str:
    if request.param == "ranges":
        request.getfixturevalue("ranged")
    return str(request.param)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("relays", [None, RELAYS])
def test_a_saved_mapping_is_loaded(form: str, relays: RelayNeurons | None, tmp_path: Path) -> None:
    neurons = CORE.size - (0 if relays is None else relays.count)
    save_mapping_in(tmp_path, CORE, CHIP, relays)
    path = mapping_in(tmp_path)
    assert path.name == {"one file": "mapping.npz", "ranges": "mapping.json"}[form]
    assert load_mapping(path, neurons, CHIP).tolist() == CORE[:neurons].tolist()
    assert load_mapping(path, neurons, CHIP).dtype == np.int32
    found = load_relays(path, CHIP, neurons, 99)
    if relays is None:
        assert found is None
    else:
        assert found is not None
        for name in ("neuron", "first", "last"):
            assert getattr(found[0], name).tolist() == getattr(relays, name).tolist()
        assert found[1].tolist() == CORE[neurons:].tolist()
    before = files(tmp_path)
    save_mapping_in(tmp_path, CORE, CHIP, relays)
    assert files(tmp_path) == before
    with pytest.raises(MapperError, match=f"maps {neurons} neurons, the network has 12; use"):
        load_mapping(path, 12, CHIP)
    with pytest.raises(MapperError, match="made for a 6x4 chip, not for 4x6"):
        load_mapping(path, neurons, Chip("d", 4, 6))
    save_mapping_in(tmp_path, CORE + 3, CHIP, relays)
    with pytest.raises(MapperError, match=r"is on core 2[4-9], chip c has cores 0\.\.23"):
        load_mapping(path, neurons, CHIP)


@pytest.mark.usefixtures("ranged")
def test_where_ranges_end(tmp_path: Path) -> None:
    for neurons, ends in ((20, None), (21, [16, 5]), (32, [16, 16]), (33, [16, 16, 1])):
        folder = tmp_path / str(neurons)
        folder.mkdir()
        save_mapping_in(folder, CORE[:neurons], CHIP)
        if ends is None:
            assert list(files(folder)) == ["mapping.npz"]
            continue
        names = [f"core/{index:05d}.npy" for index in range(len(ends))]
        assert list(files(folder)) == [*names, "mapping.json"]
        parts = [np.load(folder / name) for name in names]  # with plain numpy
        assert [part.size for part in parts] == ends
        assert np.concatenate(parts).tolist() == CORE[:neurons].tolist()
        about = json.loads((folder / "mapping.json").read_text())
        assert (about["neurons"], about["range"], about["helpers"]) == (neurons, 16, 0)


def test_a_folder_has_one_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last saved mapping counts; mapping.json exists only when all ranges do."""
    save_mapping_in(tmp_path, CORE, CHIP)
    with monkeypatch.context() as small:
        small.setattr(mapping_ranges, "MOST_IN_ONE", 20)
        small.setattr(mapping_ranges, "RANGE", 16)
        save_mapping_in(tmp_path, CORE[::-1], CHIP)
        assert not (tmp_path / "mapping.npz").exists()
        assert load_mapping(mapping_in(tmp_path), 50, CHIP).tolist() == CORE[::-1].tolist()

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        small.setattr(mapping_ranges, "_save_range", full)
        with pytest.raises(OSError, match="No space"):
            save_mapping_in(tmp_path, CORE, CHIP)
        assert not (tmp_path / "mapping.json").exists()
    save_mapping_in(tmp_path, CORE, CHIP)
    assert mapping_in(tmp_path).name == "mapping.npz"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(bytes(raw))


def garble(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def other_type(path: Path) -> None:
    """The same number of bytes for half as many numbers."""
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"'<i4'", b"'<i8'").replace(b"(16,)", b"(8,) "))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (Path.unlink, "[Nn]o such file"),
    "cut off": (cut, "bytes|size"),
    "another bit": (flip, "checksum"),
    "zeros": (garble, "damaged|cannot be read"),
    "another type": (other_type, "damaged: the array is int64|holds int64"),
}


@pytest.mark.usefixtures("ranged")
@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_damaged_ranges(damage: str, folder: Path, fails: Callable[..., str]) -> None:
    """`score` and `verify` give one line that names the range."""
    change, reason = DAMAGES[damage]
    out = made(folder)
    change(out / "core" / "00001.npy")
    for words in (("score", "net.bin", "out/mapping.json", *CHIP_OPTIONS), ("verify", out)):
        told = fails(*words)
        assert "core/00001.npy" in told
        assert re.search(reason, told), told


INDEX_FAULTS: list[tuple[Change, str, str]] = [  # messages of `score` and `verify`
    (lambda about: about.pop("neurons"), "mapping.json: .*neurons", "mapping.json: .*neurons"),
    (lambda about: about.update(range=0), "mapping.json: .*range", "mapping.json: .*4 files"),
    (lambda about: about["files"].pop(), "3 files, but 50 neurons need 4", "lists 3 files for"),
    (lambda about: about.update(neurons=2**60), "lists 4 files", "lists 4 files"),
    (
        lambda about: about.update(neurons=2**60, range=2**58),
        "mapping.json: .*range",
        "not 288230376151711744 core ids",
    ),
    (lambda about: about.update(neurons=49), "maps 49 neurons", "00003.npy: .* not 1 core ids"),
    (lambda about: about.update(width=5), "made for a 5x4 chip", "another chip"),
    (
        lambda about: about.update(helpers=2),
        "helpers.npz: .*[Nn]o such",
        "helpers.npz: .*[Nn]o such",
    ),
    (lambda about: about["files"].__setitem__(0, 3), "mapping.json: .*files", "mapping.json: "),
]


@pytest.mark.usefixtures("ranged")
@pytest.mark.parametrize("fault", range(len(INDEX_FAULTS)))
def test_damaged_index(fault: int, folder: Path, fails: Callable[..., str]) -> None:
    change, *reasons = INDEX_FAULTS[fault]
    out = made(folder)
    about = json.loads((out / "mapping.json").read_text())
    change(about)
    (out / "mapping.json").write_text(json.dumps(about))
    commands = (("score", "net.bin", "out/mapping.json", *CHIP_OPTIONS), ("verify", out))
    for words, reason in zip(commands, reasons, strict=True):
        told = fails(*words)
        assert re.search(reason, told), told


def test_an_index_that_is_not_json(ranged: None, folder: Path, fails: Callable[..., str]) -> None:
    out = made(folder)
    (out / "mapping.json").write_text("{")
    assert "mapping.json: not a mapping: " in fails(
        "score", "net.bin", "out/mapping.json", *CHIP_OPTIONS
    )
    assert "mapping.json: cannot be read" in fails("verify", out)


def made(folder: Path) -> Path:
    """Write an output folder of a hand-made mapping with its network."""
    from tests.mapper.reporting.made import write_folder

    random_network(folder / "net.bin", 50, 200)
    return write_folder(folder / "out", folder / "net.bin", CHIP, CORE)


@pytest.fixture
def both(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Write the same run in each form, and its network."""
    random_network(folder / "net.bin", 50, 200)
    words = ("run", "net.bin", *CHIP_OPTIONS, "--preset", "fast", "--seed", "3", "-q", "-o")
    assert run(*words, "one").code == 0
    monkeypatch.setattr(mapping_ranges, "MOST_IN_ONE", 20)
    monkeypatch.setattr(mapping_ranges, "RANGE", 16)
    assert run(*words, "many").code == 0
    return folder / "one", folder / "many"


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
def test_commands_accept_both(both: tuple[Path, Path], run: Run) -> None:
    one, many = both
    assert (many / "mapping.json").is_file()
    assert not (many / "mapping.npz").exists()
    assert {path.name for path in one.iterdir()} - {"mapping.npz"} == {
        path.name for path in many.iterdir()
    } - {"mapping.json", "core"}
    cores = load_mapping(one / "mapping.npz", 50, CHIP)
    assert load_mapping(many / "mapping.json", 50, CHIP).tolist() == cores.tolist()
    for words in (
        ("score", "net.bin", "MAPPING", *CHIP_OPTIONS, "--json"),
        ("verify", "FOLDER", "--json"),
        ("simulate", "FOLDER", "--json", "--cycles", "200", "--no-saturation", "--seed", "1"),
    ):
        found = []
        for path, mapping in ((one, one / "mapping.npz"), (many, many / "mapping.json")):
            places = {"MAPPING": str(mapping), "FOLDER": str(path)}
            told = run(*(places.get(word, word) for word in words))
            assert told.code == 0, told.err
            result = told.json()
            for name in ("path", "seconds"):
                result.pop(name, None)
            found.append(result.get("metrics", result))
        assert found[0] == found[1], words
    for ending in (".csv", ".json", ".npz"):
        texts = []
        for path in both:
            told = run("export", path, f"to{ending}", "-q")
            assert told.code == 0, told.err
            texts.append(Path(f"to{ending}").read_bytes().replace(b'"many"', b'"one"'))
            Path(f"to{ending}").unlink()
        assert texts[0] == texts[1], ending
    for path in both:
        (path / "traffic.npz").unlink()  # then the page measures the mapping again
        told = run("report", path, "-q")
        assert told.code == 0, told.err


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.usefixtures("light_placement")
def test_split_neurons_and_python(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relay neurons are stored next to the ranges, and Python saves the same files."""
    random_network(folder / "net.bin", 40, 600)
    words = ("--chip", "12x12", "--neurons-per-core", "9", "--synapses-per-core", "12")
    monkeypatch.setattr(mapping_ranges, "MOST_IN_ONE", 20)
    monkeypatch.setattr(mapping_ranges, "RANGE", 16)
    found = run("run", "net.bin", *words, "--split-neurons", "-q", "-o", "out", "--preset", "fast")
    assert found.code == 0, found.err
    out = folder / "out"
    assert (out / "core" / "helpers.npz").is_file()
    told = run("verify", out, "--json")
    assert told.code == 0, told.err
    assert told.json()["helpers"] == json.loads((out / "mapping.json").read_text())["helpers"] > 0
    assert run("score", "net.bin", out / "mapping.json", *words, "-q").code == 0
    saved = mapper.map_network("net.bin", "6x6", neurons_per_core=9, preset="fast").save("saved")
    assert (saved / "mapping.json").is_file()
    assert run("verify", saved).code == 0
    (out / "core" / "helpers.npz").unlink()
    told = run("score", "net.bin", out / "mapping.json", *words)
    assert told.code == 1
    assert "helpers.npz" in told.err


def test_one_file_by_its_name(ranged: None, tmp_path: Path) -> None:
    """A file name always gives a single file, for any number of neurons."""
    save_mapping(tmp_path / "mine.npz", CORE, CHIP)
    assert load_mapping(tmp_path / "mine.npz", 50, CHIP).tolist() == CORE.tolist()
