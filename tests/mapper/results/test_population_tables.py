"""Populations of a run: report.json, tables of commands, the file, Python, and verification."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from chipsim.chip.model import Chip
from mapper.errors import CheckFailedError, MapperError, UsageError
from mapper.results.output import read_report
from mapper.results.population_file import POPULATIONS, load_populations, save_populations
from mapper.scoring.populations import population_traffic
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
LAYERS = ("--layers", "8x8x2,6x6x3,1x1x20,1x1x5", "--kernel", "3")
CHIPS = {
    "plain": "width = 4\nheight = 4\nneurons = 24\n",
    "cast": 'width = 4\nheight = 4\nneurons = 24\ndelivery = "core"\n',
    "trees": 'width = 4\nheight = 4\nneurons = 24\ndelivery = "tree"\n',
}
SETTINGS = ("--preset", "fast", "--seed", "1")


@pytest.fixture
def net(folder: Path, run: Run) -> Path:
    assert run("generate", "layered", "net.bin", *LAYERS).code == 0
    for name, text in CHIPS.items():
        Path(f"{name}.toml").write_text(text)
    return folder / "net.bin"


def mapped(run: Run, chip: str = "plain") -> dict[str, Any]:
    found = run("run", "net.bin", "--chip", f"{chip}.toml", *SETTINGS, "-o", chip, "--json")
    assert found.code == 0, found.err
    return found.json()


@pytest.mark.heavy
def test_a_run_shows_its_layers(net: Path, run: Run) -> None:
    said = run("run", "net.bin", "--chip", "plain.toml", *SETTINGS, "-o", "out").out
    report = read_report(Path("out"))
    table = report["populations"]
    assert (table["kind"], table["count"]) == ("layer", 4)
    assert [row["neurons"] for row in table["rows"]] == [128, 108, 20, 5]
    assert sum(row["hops_total"] for row in table["rows"]) == report["metrics"]["hops_total"]
    assert sum(row["sent"] for row in table["rows"]) == report["metrics"]["cut_weight"]
    link = table["busiest_link"]
    assert link["load"] == report["metrics"]["link_load_max"]
    assert sum(pair["traffic"] for pair in link["pairs"]) == link["load"]
    for text in (said, run("info", "out").out):
        assert "layers, with traffic to and from other cores" in text
        assert "layer1 6x6x3" in text
        where = f"x {link['x']}, y {link['y']} to the {link['direction']}"
        assert f"busiest link: from {where}" in text
        assert max(len(line) for line in text.splitlines() if os.sep not in line) <= 80
    assert run("info", "out", "--json").json()["populations"] == table
    assert "populations" in {stage["name"] for stage in report["stages"]}


@pytest.mark.heavy
@pytest.mark.parametrize("chip", CHIPS)
def test_every_number_is_verified(chip: str, net: Path, run: Run) -> None:
    mapped(run, chip)
    assert run("verify", chip).code == 0
    path = Path(chip, "report.json")
    report = json.loads(path.read_text())
    table = report["populations"]
    changed: list[tuple[dict[str, Any], str]] = [(table, "count")]
    changed += [(table["rows"][1], name) for name in table["rows"][1] if name != "name"]
    changed += [(table["busiest_link"]["pairs"][0], "traffic")]
    for entry, name in changed:
        kept, entry[name] = entry[name], entry[name] + 1
        path.write_text(json.dumps(report))
        entry[name] = kept
        with pytest.raises(CheckFailedError, match=r"population|busiest link"):
            mapper.verify(chip)


@pytest.mark.heavy
def test_python_has_the_table(net: Path, run: Run) -> None:
    report = mapped(run)
    found = mapper.load("plain")
    table = found.columns("populations")
    rows = report["populations"]["rows"]
    assert [table[name].tolist() for name in table] == [
        [row[name] for row in rows] for name in table
    ]
    again = mapper.map_network("net.bin", "plain.toml", preset="fast", seed=1)
    assert again.to_json()["populations"] == report["populations"]
    again.save("again")
    assert Path("again", POPULATIONS).read_bytes() == Path("plain", POPULATIONS).read_bytes()
    edges = np.arange(6), (np.arange(6) + 1) % 6
    with pytest.raises(UsageError, match="'populations': the network has none"):
        mapper.map_network(edges, (2, 2)).columns("populations")


@pytest.mark.heavy
def test_the_file_is_read_as_written(net: Path, run: Run) -> None:
    mapped(run)
    chip = Chip("plain", 4, 4, neurons=24)
    core = np.load("plain/mapping.npz")["core"]
    with NetworkFile(net) as network:
        right = population_traffic(network, chip, core)
    found = load_populations(Path("plain"), chip)
    assert found is not None
    assert right is not None
    for field in fields(right):
        one, two = getattr(found, field.name), getattr(right, field.name)
        if field.name == "slices":
            assert all(map(np.array_equal, one, two))
        else:
            assert np.array_equal(one, two), field.name
    save_populations(Path(), found)
    assert Path(POPULATIONS).read_bytes() == Path("plain", POPULATIONS).read_bytes()


@pytest.mark.heavy
def test_damaged_files_give_one_line(net: Path, run: Run) -> None:
    mapped(run)
    path = Path("plain", POPULATIONS)
    with np.load(path) as file:
        arrays = dict(file)
    wrong = {
        "schema": np.int64(2), "names": np.frombuffer(b'{"a": 1}', np.uint8),
        "kind": np.int64(7), "unit": np.float64(-1), "sent": arrays["sent"][:1],
        "slice_core": arrays["slice_core"] + 99, "slice_neurons": arrays["slice_neurons"] - 500,
        "pair_target": arrays["pair_target"] + 4, "link_pair": arrays["link_pair"] + 99,
        "range_population": arrays["range_population"] + 4, "hops": arrays["hops"] * 0.5,
    }  # fmt: skip
    for name, value in wrong.items():
        np.savez(path, **{**arrays, name: value})
        with pytest.raises(MapperError, match=r"populations.npz: cannot be read: .*remove it"):
            load_populations(Path("plain"), Chip("plain", 4, 4, neurons=24))
    path.write_bytes(b"PK nonsense")
    with pytest.raises(MapperError, match="cannot be read"):
        mapper.load("plain")
    path.unlink()
    assert load_populations(Path("plain"), Chip("plain", 4, 4)) is None
