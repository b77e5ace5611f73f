"""Architecture files of SANA-FE as chips.

The published examples are rebuilt from their numbers; also tested are omissions and errors.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.file import chip_toml
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from chipsim.chip.presets import parse_chip
from chipsim.errors import ChipError

yaml: Any = pytest.importorskip("yaml")


# Lists that hold the previous one 99 times: expanded, they would be endless.
BOMB = "a0: &a0 [x]\n"
for level in range(1, 9):
    BOMB += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 99)}]\n"
BOMB += "architecture: {attributes: {width: 1, height: 1}, tile: *a8}\n"


def unit(name: str, **attributes: Any) -> dict[str, Any]:
    return {"name": name, "attributes": attributes}


def soma(name: str, access: float, update: float, spike: float) -> dict[str, Any]:
    return unit(
        name, model="leaky_integrate_fire", energy_access_neuron=access, latency_access_neuron=0.0,
        energy_update_neuron=update, latency_update_neuron=0.0, energy_spike_out=spike,
        latency_spike_out=0.0,
    )  # fmt: skip


def architecture(**more: Any) -> dict[str, Any]:
    """Return a mesh of 3x2 tiles of one core; more : parts that differ"""
    parts: dict[str, Any] = {
        "tile": "t[0..5]", "core": "c", "neurons": 100, "width": 3, "height": 2,
        "energies": (3e-12, 3e-12, 4e-12, 4e-12), "times": (1e-9, 1e-9, 2e-9, 2e-9),
        "synapses": [unit("s", model="current_based", energy_process_spike=5e-12)],
        "somas": [soma("lif", 1e-12, 2e-12, 0.0)], "out": 7e-12, "in": 0.5e-12, "mesh": {},
    } | more  # fmt: skip
    sides = ("east", "west", "north", "south")
    hops = {f"energy_{s}_hop": e for s, e in zip(sides, parts["energies"], strict=True)}
    hops |= {f"latency_{s}_hop": t for s, t in zip(sides, parts["times"], strict=True)}
    core = {
        "name": parts["core"],
        "attributes": {"buffer_position": "soma", "max_neurons_supported": parts["neurons"]},
        "axon_in": [unit("in", energy_message_in=parts["in"], latency_message_in=0.0)],
        "synapse": parts["synapses"],
        "dendrite": [unit("d", model="accumulator", energy_update=0.0, latency_update=0.0)],
        "soma": parts["somas"],
        "axon_out": [unit("out", energy_message_out=parts["out"], latency_message_out=0.0)],
    }
    tile = {"name": parts["tile"], "attributes": hops, "core": [core]}
    mesh = {"width": parts["width"], "height": parts["height"], **parts["mesh"]}
    return {"architecture": {"name": "a", "attributes": mesh, "tile": [tile]}}


def chip_of(found: Any, folder: Path, name: str = "mine.arch.yaml") -> Chip:
    path = folder / name
    path.write_text(found if isinstance(found, str) else yaml.safe_dump(found))
    return parse_chip(str(path))


def notes(chip: Chip) -> str:
    assert chip.origin is not None
    return "\n".join(chip.origin.notes)


def test_a_mesh(tmp_path: Path) -> None:
    chip = chip_of(architecture(), tmp_path)
    assert chip == Chip(
        "mine", 3, 2, neurons=100, delivery="core", energy_router=0.0, energy_link=(3.0, 4.0),
        energy_unit="pJ", latency_router=0.0, latency_link=(1.0, 2.0), latency_unit="ns",
        energy=ChipEnergy(event=5.0, neuron=3.0, packet_out=7.0, packet_in=0.5),
    )  # fmt: skip
    assert notes(chip) == (
        "left out: 2 pJ of conditional neuron updates: counted for every neuron in each tick"
    )
    (tmp_path / "again.toml").write_text(chip_toml(chip))
    assert parse_chip(str(tmp_path / "again.toml")) == chip


def test_loihi_of_its_authors(tmp_path: Path) -> None:
    """arch/loihi.yaml: 8x4 tiles of four cores, three kinds of synapses, two of somas."""
    synapses = [
        unit(name, model="current_based", energy_process_spike=energy * 1e-12)
        for name, energy in (("dense", 35.5), ("sparse", 33.6), ("conv", 24.0))
    ]
    inputs = unit("inputs[0..1023]", model="input", energy_access_neuron=0.0)
    chip = chip_of(
        architecture(
            tile="loihi_tile[0..31]", core="loihi_core[0..3]", neurons=1024, width=8, height=4,
            energies=(3e-12, 3e-12, 4.2e-12, 4.2e-12), times=(4.1e-9, 4.1e-9, 6.5e-9, 6.5e-9),
            synapses=synapses, somas=[inputs, soma("lif", 51.2e-12, 21.6e-12, 69.3e-12)],
            out="111.0e-12", mesh={"topology": "mesh", "link_buffer_size": 16, "sync_model": "x"},
        ),
        tmp_path,
    )  # fmt: skip
    assert (chip.width, chip.height, chip.neurons) == (16, 8, 1024)
    assert chip.machine == Machine(16, 8, tile=Block(2, 2, 0.0))
    assert (chip.energy_link, chip.latency_link) == ((3.0, 4.2), (4.1, 6.5))
    assert chip.energy == ChipEnergy(event=35.5, neuron=72.8, packet_out=111.0, packet_in=0.5)
    assert notes(chip).splitlines() == [
        "left out: 2 units after the first of each kind: their costs are ignored",
        "left out: 69.3 pJ of each spike (energy_spike_out): not counted",
        "left out: 21.6 pJ of conditional neuron updates: counted for every neuron in each tick",
        "left out: 2 attributes of the mesh (buffers, synchronisation, ...)",
    ]


def test_truenorth_of_its_authors(tmp_path: Path) -> None:
    """arch/truenorth.yaml: 64x64 cores, without costs."""
    none = (0.0,) * 4
    chip = chip_of(
        architecture(
            tile="tile[0..4095]", neurons=256, width=64, height=64, energies=none, times=none,
            synapses=[unit("s", model="x", energy_process_spike=0)], out=0.0,
            somas=[soma("s", 0.0, 0.0, 0.0)],
        ),
        tmp_path,
    )  # fmt: skip
    assert (chip.width, chip.height, chip.neurons, chip.machine) == (64, 64, 256, None)
    assert (chip.energy_link, chip.latency_link) == (0.0, 0.0)
    assert (chip.energy_unit, chip.latency_unit) == ("relative", "relative")
    assert chip.energy == ChipEnergy(packet_in=0.5)
    assert notes(chip).splitlines() == [
        "left out: 2 hop costs (energies, times) of 0: treated as unknown",
        "left out: 3 core energies of 0: treated as unknown",
    ]
    assert chip.origin is not None
    assert {"width", "energy.packet_in"} <= {source.key for source in chip.origin.sources}
    assert not {"energy_link", "energy.event"} & {source.key for source in chip.origin.sources}


def test_unknown_energies(tmp_path: Path) -> None:
    nothing = {"out": 0.0, "in": 0, "somas": [soma("s", 0.0, 0.0, 0.0)]}
    chip = chip_of(
        architecture(synapses=[unit("s", model="x", energy_process_spike=0)], **nothing), tmp_path
    )
    assert (chip.energy, chip.energy_link, chip.energy_unit) == (None, (3.0, 4.0), "pJ")
    assert "left out: 4 core energies of 0: treated as unknown" in notes(chip)


def test_the_example_of_its_authors(tmp_path: Path) -> None:
    """arch/example_chip.yaml: hops that differ in all four directions."""
    chip = chip_of(
        architecture(
            tile="demo_tile[0..1]", core="demo_core[0..3]", width=2, height=1,
            energies=(2.5e-12, 1.8e-12, 2e-12, 2e-12), times=(1.2e-9, 2e-9, 1.4e-9, 1.5e-9),
            somas=[soma("a", 20e-12, 10e-12, 60e-12), soma("b", 50e-12, 60e-12, 30e-12)],
        ),
        tmp_path,
    )  # fmt: skip
    assert (chip.width, chip.height) == (4, 2)
    assert (chip.energy_link, chip.latency_link) == ((2.15, 2.0), (1.6, 1.45))
    assert chip.energy is not None
    assert chip.energy.neuron == 30.0
    assert "left out: 3 hop costs that differ between east and west" in notes(chip)
    assert "left out: 1 units after the first" in notes(chip)


def test_missing_tiles(tmp_path: Path) -> None:
    """Tiles are numbered down the columns: 5 of 4x3 omit the last two columns, and one tile."""
    chip = chip_of(architecture(tile="t[0..4]", core="c[0..1]", width=4, height=3), tmp_path)
    assert (chip.width, chip.height) == (4, 3)
    assert chip.unavailable == (10, 11)
    assert "left out: 2 mesh columns without tiles" in notes(chip)


def test_unequal_tiles(tmp_path: Path) -> None:
    found, other = architecture(tile="a[0..3]", core="c[0..3]"), architecture(
        tile="b[4..5]", core="c[0..1]", neurons=60, energies=(9e-12,) * 4, out=1e-12
    )  # fmt: skip
    found["architecture"]["tile"] += other["architecture"]["tile"]
    chip = chip_of(found, tmp_path)
    assert (chip.width, chip.height, chip.neurons) == (6, 4, 60)
    # The last column of tiles, from x = 4, only has the cores of its upper rows.
    assert chip.unavailable == (1 * 6 + 4, 1 * 6 + 5, 3 * 6 + 4, 3 * 6 + 5)
    said = notes(chip)
    assert "left out: 2 tiles whose hop costs differ from the first tile's" in said
    assert "left out: 4 cores whose energies differ from the first core's" in said
    assert "left out: 16 cores with more than 60 neurons, the smallest limit" in said


@pytest.mark.heavy
@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("[1, 2", "is not valid YAML: while parsing a flow sequence"),
        ("- 1", "the file: section 'architecture' is missing; add it"),
        ("[" * 5000, "is not valid YAML: "),
        ("x" * (1 << 20) + "y", "is larger than 1 MiB; is it a SANA-FE architecture"),
        ("architecture: {attributes: {width: 2, height: 1}}", "architecture: section 'tile' is m"),
        (BOMB, "architecture: tile is a list; give a name and attributes"),
        ({"width": 0}, "architecture: width is 0; give a whole number, 1 or more"),
        ({"height": "2"}, "architecture: height is 2; give a whole number"),
        ({"tile": "t[0..6]"}, "tile: 7 tiles are more than the 3x2 of the mesh"),
        ({"tile": "t[5..0]"}, "tile t[5..0]: its range runs from 5 down to 0; swap the ends"),
        ({"core": "c[0..999999999]"}, "tile: 6 tiles of 1000000000 cores are more than 2147483647"),
        ({"neurons": None}, "core c: max_neurons_supported is None; give a whole number"),
        ({"out": "much"}, "axon_out out: energy_message_out is much; give a number, 0 or more"),
        ({"out": -1.0}, "axon_out out: energy_message_out is -1.0; give a number"),
        ({"out": 1 << 5000}, "axon_out out: energy_message_out is a huge number; give a number"),
        ({"out": True}, "axon_out out: energy_message_out is True; give a number"),
        ({"somas": []}, "core c: section 'soma' is missing; add it"),
        ({"somas": [[3]]}, "core c: soma is a list; give a name and attributes"),
        ({"synapses": [{"attributes": {}}]}, "synapse ?: key 'name' is missing; add it"),
        ({"synapses": [unit("s")]}, "synapse s: energy_process_spike is None; give a number"),
    ],
)
def test_errors_are_one_line(change: Any, said: str, tmp_path: Path) -> None:
    found = change if isinstance(change, str) else architecture(**change)
    with pytest.raises(ChipError) as caught:
        chip_of(found, tmp_path, "bad.yml")
    assert str(caught.value).startswith(f"chip file {tmp_path / 'bad.yml'}: {said}")
    assert "\n" not in str(caught.value)


def test_unreadable_architectures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ChipError, match=r"chip file nowhere\.yaml does not exist; check"):
        parse_chip("nowhere.yaml")
    (tmp_path / "a.yaml").write_text("a: 1")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ChipError, match=r"need pyyaml; run pip install 'neuromapper\[sanafe\]'"):
        parse_chip(str(tmp_path / "a.yaml"))
