"""traffic.npz: written, read, and rejected for another mapping."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from mapper.errors import MapperError
from mapper.results.loads import Loads, load_loads, save_loads
from tests.mapper.helpers import random_network, write_network
from tests.mapper.reporting.made import measured

CHIP = Chip("c", 5, 3, neurons=32)


@pytest.fixture
def made(folder: Path) -> tuple[Loads, dict[str, Any]]:
    network = random_network(folder / "net.bin", 40, 200)
    core = np.random.default_rng(1).integers(0, 15, 40).astype(np.int32)
    traffic, report = measured(network, CHIP, core)
    return Loads.of(traffic), report["metrics"]


def flat(loads: Loads) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for part in (loads, loads.usage, loads.activity, loads.profile):
        out |= {f.name: getattr(part, f.name) for f in fields(part)}
    return {
        name: value for name, value in out.items() if name not in ("usage", "activity", "profile")
    }


def test_the_file_survives_the_round_trip(made: tuple[Loads, dict[str, Any]]) -> None:
    loads, metrics = made
    save_loads(Path("traffic.npz"), loads)
    found = flat(load_loads(Path("traffic.npz"), CHIP, metrics))
    for name, value in flat(loads).items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        assert np.asarray(found[name]).dtype == np.asarray(value).dtype
    save_loads(Path("again.npz"), loads)
    assert Path("again.npz").read_bytes() == Path("traffic.npz").read_bytes()
    assert not list(Path().glob("*.partial"))


def test_units_other_than_one(folder: Path) -> None:
    path = write_network(
        folder / "net.bin", [(0, 1), (1, 0)], 2, np.array([2, 1]), weight_unit=0.25
    )
    traffic, report = measured(path, CHIP, np.array([0, 14], np.int32))
    assert report["metrics"]["hops_total"] == 0.75 * 6
    save_loads(Path("traffic.npz"), Loads.of(traffic))
    assert load_loads(Path("traffic.npz"), CHIP, report["metrics"]).weight_unit == 0.25


@pytest.mark.parametrize("bad", ["bytes", "member", "shape", "negative", "schema", "destination"])
def test_damaged_files_give_one_line(made: tuple[Loads, dict[str, Any]], bad: str) -> None:
    loads, metrics = made
    path = Path("traffic.npz")
    save_loads(path, loads)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if bad == "bytes":
        path.write_bytes(path.read_bytes()[:500])
    else:
        if bad == "member":
            del arrays["share"]
        elif bad == "shape":
            arrays["outgoing"] = arrays["outgoing"][:-1]
        elif bad == "negative":
            arrays["within"][3] = -1
        elif bad == "schema":
            arrays["schema"] = np.int64(1)
        else:
            arrays["destination"][0, 0] = 15
        np.savez(path, **arrays)
    with pytest.raises(MapperError, match=r"traffic\.npz: cannot be read: .*remove it") as raised:
        load_loads(path, CHIP, metrics)
    assert "\n" not in str(raised.value)


def test_a_file_of_another_mapping(made: tuple[Loads, dict[str, Any]]) -> None:
    loads, metrics = made
    save_loads(Path("traffic.npz"), loads)
    other = json.loads(json.dumps(metrics)) | {"hops_total": metrics["hops_total"] + 1}
    with pytest.raises(MapperError, match=r"hops_total is \d+, but \d+ in report.json; remove it"):
        load_loads(Path("traffic.npz"), CHIP, other)
    with pytest.raises(MapperError, match="cut_weight"):
        load_loads(Path("traffic.npz"), CHIP, metrics | {"cut_weight": None})
    with pytest.raises(MapperError, match="has shape"):
        load_loads(Path("traffic.npz"), Chip("d", 3, 5), metrics)
