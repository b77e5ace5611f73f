"""Mappings on tiles for SANA-FE: cores that share a router share a tile; files are read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.machine import Block, Machine
from chipsim.chip.model import Chip
from chipsim.chip.presets import PRESETS, parse_chip
from mapper.exports.sanafe import architecture
from tests.mapper.conftest import Run
from tests.mapper.exports.mapped import core_of, sanafe_chip, synapses
from tests.mapper.reporting.made import random_folder

SPENT = ChipEnergy(event=20.0, neuron=3.0, packet_out=8.0, packet_in=0.5)
TILES = Chip(
    "tiles", 6, 4, delivery="core", energy_router=1.0, energy_link=(2.0, 4.0), energy_unit="pJ",
    latency_router=0.5, latency_link=(1.0, 1.5), latency_unit="ns", energy=SPENT,
    machine=Machine(6, 4, tile=Block(3, 2, 0.0)),
)  # fmt: skip


@pytest.mark.parametrize(
    "chip", [TILES, PRESETS["loihi"], Chip("flat", 3, 5)], ids=lambda c: c.name
)
def test_the_architecture_survives_the_round_trip(chip: Chip, tmp_path: Path) -> None:
    """The mesh, its tiles, hops and cores; the energy of a router is added to its incoming hop."""
    pytest.importorskip("yaml")
    path = tmp_path / "back.arch.yaml"
    path.write_text(architecture(chip, 2))
    back = parse_chip(str(path))
    assert (back.width, back.height, back.neurons) == (chip.width, chip.height, chip.neurons)
    assert back.routers == chip.routers
    for router, links, found in (
        (chip.energy_router, chip.link_energies, back.link_energies),
        (chip.latency_router, chip.link_latencies, back.link_latencies),
    ):
        assert found == pytest.approx([router + link for link in links])
    assert back.energy == chip.energy
    again = architecture(back, 2)
    assert again.split("architecture:")[1] == architecture(chip, 2).split("architecture:")[1]


def test_sanafe_energy_equals_the_metrics(run: Run, folder: Path) -> None:
    """Every neuron spikes in every step: hops, packets, events and updates equal the mean tick at
    rate
    1; hops exclude the router of the first core.
    """
    out = random_folder(folder / "out", TILES)
    run("export", out, "a.yaml", "--threshold", "1", "--bias", "5")
    found = sanafe_chip().sim(1)
    core = core_of(out)
    x, y = core % 6, core // 6
    reached = {(s, int(core[t])) for s, t in synapses("out.bin")}
    across = sum(abs(int(x[s]) // 3 - c % 6 // 3) for s, c in reached)
    down = sum(abs(int(y[s]) // 2 - c // 6 // 2) for s, c in reached)
    assert min(across, down) > 20
    assert found["energy"]["network"] == pytest.approx(
        (across * 3.0 + down * 5.0 + len(reached) * 8.5) * 1e-12
    )
    assert found["energy"]["synapse"] == pytest.approx(len(synapses("out.bin")) * 20e-12)
    assert found["energy"]["soma"] == pytest.approx(core.size * 3e-12)


def test_unsupported_features_of_tiles(run: Run, folder: Path) -> None:
    machine = Machine(6, 4, "x", tile=Block(3, 2, 0.0), chip=Block(3, 4, 9.0))
    out = random_folder(folder / "out", Chip("many", 6, 4, machine=machine))
    found = run("export", out, "a.yaml")
    assert "no chip and board boundaries, tori or coordinates: [chip], torus of" in found.err
    assert np.all(core_of(out) >= 0)
