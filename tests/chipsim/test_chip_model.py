"""The chip model, the presets, and the chip argument of users."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import TABLES, Chip
from chipsim.chip.presets import PRESETS, from_fields, parse_chip
from chipsim.errors import ChipError


def test_core_ids_run_along_rows() -> None:
    x, y = Chip("c", 3, 2).coordinates()
    assert x.tolist() == [0, 1, 2, 0, 1, 2]
    assert y.tolist() == [0, 0, 0, 1, 1, 1]
    assert x.dtype == y.dtype == np.int32


def test_usable_and_links() -> None:
    chip = Chip("c", 3, 2, unavailable=(5, 1, 5))
    assert chip.unavailable == (1, 5)
    assert chip.usable.tolist() == [True, False, True, True, True, False]
    assert (chip.cores, chip.usable_count, chip.links) == (6, 4, 14)


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Chip("c", 1, 1).width = 2  # type: ignore[misc]


def test_with_limits_keeps_the_rest() -> None:
    chip = PRESETS["loihi"].with_limits(neurons=7, synapses=9)
    assert (chip.neurons, chip.synapses, chip.axons_in, chip.axons_out) == (7, 9, 4096, 4096)
    assert chip.link_energies == (1.3, 2.3)
    with pytest.raises(ChipError, match="axons_out is 0"):
        chip.with_limits(axons_out=0)


def test_json_round_trip() -> None:
    chip = Chip("c", 3, 2, synapses=5, unavailable=(4,), energy_link=2)
    values = json.loads(json.dumps(chip.to_json()))
    assert set(values) == {field.name for field in dataclasses.fields(Chip)} - {
        *TABLES, "energy_unit", "latency_unit", "origin",
        "memory_bits", "weight_bits", "index_bits", "axon_bits", "neuron_bits", "sharing",
        "single_target", "broken_links", "broken_routers", "core_limits",
    }  # fmt: skip
    assert from_fields(values) == chip
    faulty = Chip("c", 3, 2, broken_links=((0, 1), (2, 5)), broken_routers=(5,))
    values = json.loads(json.dumps(faulty.to_json()))
    assert values["broken_links"] == [[0, 1], [2, 5]]
    assert from_fields(values) == faulty


def test_numpy_numbers_become_plain() -> None:
    chip = Chip("c", np.int32(3), np.int64(2), unavailable=tuple(np.array([1])))
    values = json.loads(json.dumps(chip.to_json()))
    assert (values["width"], values["height"], values["unavailable"]) == (3, 2, [1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "name is ''"),
        ({"width": 0}, "chip c: width is 0; give a whole number of cores, 1 or more"),
        ({"height": 2.0}, "height is 2.0"),
        ({"height": True}, "height is True"),
        ({"width": 50000, "height": 50000}, "50000x50000 is more than 2147483647 cores"),
        ({"neurons": 0}, "neurons is 0; give a whole number, 1 or more"),
        ({"neurons": None}, "neurons is None"),
        ({"synapses": -1}, "synapses is -1"),
        ({"sharing": "all"}, "sharing is 'all'; give none or offset"),
        ({"axons_in": "4"}, "axons_in is '4'"),
        ({"energy_link": -0.1}, "energy_link is -0.1; give a finite number, 0 or more"),
        ({"latency_router": float("nan")}, "latency_router is nan"),
        ({"latency_link": "1"}, "latency_link is '1'"),
        (
            {"latency_link": (1, 2, 3)},
            "latency_link is .1, 2, 3.; give a finite number, 0 or more, ",
        ),
        (
            {"energy_link": (1, -2)},
            "energy_link is .1, -2.; give a finite number, 0 or more, or two",
        ),
        (
            {"single_target": True},
            "single_target requires one packet per destination core; add deliv",
        ),
        ({"single_target": 1, "delivery": "core"}, "single_target is 1; give true or false"),
        ({"energy_unit": "J"}, "energy_unit is 'J'; give relative or pJ"),
        ({"latency_unit": "s"}, "latency_unit is 's'; give relative or ns"),
        ({"unavailable": (6,)}, "unavailable core 6 is outside the 3x2 mesh; core ids run"),
        ({"unavailable": (-1,)}, "unavailable core -1 is outside"),
        ({"unavailable": tuple(range(6))}, "all 6 cores are unavailable"),
    ],
)
def test_bad_values_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ChipError, match=message):
        Chip(**{"name": "c", "width": 3, "height": 2, **change})


@pytest.mark.parametrize(
    ("name", "mesh", "limits", "costs"),
    [
        ("loihi", (16, 8), (1024, None, 4096, 4096), (1.7, (1.3, 2.3), 2.1, (2.0, 4.4))),
        ("loihi64", (64, 64), (1024, None, 4096, 4096), (1.7, (1.3, 2.3), 2.1, (2.0, 4.4))),
        ("truenorth", (64, 64), (256, 65536, 256, 256), (0, 2.3, 1, 0.01)),
        ("mesh84", (84, 84), (4096, None, 65536, None), (1, 0.1, 1, 0.01)),
        ("mesh1024", (1024, 1024), (4096, None, 65536, None), (1, 0.1, 1, 0.01)),
        ("12x5", (12, 5), (1024, None, None, None), (1, 0.1, 1, 0.01)),
    ],
)
def test_named_chips(
    name: str,
    mesh: tuple[int, int],
    limits: tuple[int | None, ...],
    costs: tuple[float | tuple[float, float], ...],
) -> None:
    chip = parse_chip(name)
    assert chip.name == name
    assert (chip.width, chip.height) == mesh
    assert (chip.neurons, chip.synapses, chip.axons_in, chip.axons_out) == limits
    assert costs == (
        chip.energy_router,
        chip.energy_link,
        chip.latency_router,
        chip.latency_link,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x4", "width is 0"),
        ("4x0", "height is 0"),
        ("axb", "chip 'axb' is unknown; give WIDTHxHEIGHT such as 64x64, a preset such as "),
        ("loihi3", "them.*, or the path of a .toml or .yaml file"),
        ("-4x4", "unknown"),
        ("", "unknown"),
        ("9" * 5000 + "x1", "the mesh is too large"),
        ("nowhere.toml", "chip file nowhere.toml does not exist; check the path"),
    ],
)
def test_bad_texts(text: str, message: str) -> None:
    with pytest.raises(ChipError, match=message):
        parse_chip(text)


def test_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        "width = 4\nheight = 3\nneurons = 100\naxons_out = 7\n"
        "unavailable = [11, [1, 2], 0]\nenergy_link = 2\n"
    )
    expected = Chip("mine", 4, 3, neurons=100, axons_out=7, unavailable=(0, 9, 11), energy_link=2.0)
    assert parse_chip(str(path)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("height = 3", "key 'width' is missing; add it"),
        ("width = 4\nheight = 3\ncores = 1", "unknown key 'cores'; did you mean"),
        ("width = ", "is not valid TOML"),
        ('width = "4"\nheight = 3', "width is '4'"),
        ("width = 4\nheight = 3\nunavailable = 3", "unavailable is 3; give a list"),
        ("width = 4\nheight = 3\nunavailable = [12]", "unavailable core 12 is outside the 4x3"),
        ("width = 4\nheight = 3\nunavailable = [[4, 0]]", r"core \[4, 0\] is outside the 4x3"),
        ("width = 4\nheight = 3\nunavailable = [[1]]", r"unavailable holds \[1\]"),
        ('width = 4\nheight = 3\nunavailable = ["a"]', "unavailable core 'a'"),
    ],
)
def test_bad_toml(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ChipError, match=message) as caught:
        parse_chip(str(path))
    assert str(caught.value).startswith(f"chip file {path}")
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    with pytest.raises(ChipError, match="cannot be read"):
        parse_chip(str(folder))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ChipError, match="is not valid TOML"):
        parse_chip(str(binary))
