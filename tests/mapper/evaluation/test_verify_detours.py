"""`mapper verify` on chips with broken links: equal to the scorer and to every route walked."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from chipsim.chip.energy import ChipEnergy
from chipsim.chip.model import Chip, Delivery
from chipsim.chip.time import ChipTime
from chipsim.detours.tables import detours_of
from chipsim.detours.turns import TurnMasks
from mapper.errors import CheckFailedError
from mapper.evaluation.detours import routes as verify_detours
from mapper.evaluation.detours.routes import DetourRoutes
from mapper.evaluation.verify_mapping import verify_mapping
from tests.chipsim.faulty_chips import CHIPS, faulty_chip
from tests.mapper.helpers import synapses_of
from tests.mapper.reporting.made import random_folder
from tests.reference import chipsim as naive
from tests.reference.detours import NAMES, faults_of


def flat(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return metrics with the names of metrics that contain them."""
    found = {}
    for name, value in metrics.items():
        inner = value if isinstance(value, dict) else {"": value}
        found |= {f"{name}.{key}" if key else name: each for key, each in inner.items()}
    return found


def timed_chip(seed: int) -> Chip:
    delivery = cast(Delivery, ("synapse", "core", "tree")[seed % 3])
    time = ChipTime(tick=0.02, link=1.0 + seed % 2) if seed % 5 else None
    energy = ChipEnergy(event=2.0, neuron=1.0, packet_in=0.5) if seed % 4 == 0 else None
    costs: dict[str, Any] = {"energy_link": (0.5, 0.25), "latency_link": (1.0, 3.0)}
    return faulty_chip(seed, delivery=delivery, time=time, energy=energy, energy_unit="pJ", **costs)


@pytest.mark.heavy
@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(CHIPS))
def test_verified_metrics_match_the_reference(seed: int, tmp_path: Path) -> None:
    """The file of a report, recomputed; and the metrics of the slow reference implementation."""
    chip = timed_chip(seed)
    out = random_folder(tmp_path / "out", chip, seed, neurons=25)
    report = json.loads((out / "report.json").read_text())
    found = verify_mapping(out, report, tmp_path / "out.bin")
    assert found.pop("neurons") == 25
    with np.load(out / "mapping.npz") as file:
        core = file["core"].tolist()
    edges = [(s, t, int(w)) for (s, t), w in synapses_of(tmp_path / "out.bin").items()]
    expected = naive.score(chip, core, edges, sizes=[1] * 25)
    wanted = flat(expected)
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        exact = isinstance(value, str)
        assert found[name] == (value if exact else pytest.approx(value, rel=1e-9)), name


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(CHIPS))
def test_routes_match_the_reference(seed: int) -> None:
    chip = faulty_chip(seed)
    routes, faults = DetourRoutes.of(chip.to_json()), faults_of(chip)
    assert routes is not None
    assert faults is not None
    working = {((x, y), NAMES[way]) for way, y, x in np.argwhere(routes.works).tolist()}
    assert working == set(faults.after)
    pairs = [
        (s, t, faults.routes(source)[target])
        for s, source in enumerate(faults.places)
        for t, target in enumerate(faults.places)
        if target in faults.routes(source)
    ]
    source, target = np.array([pair[:2] for pair in pairs]).T
    walked: list[list[Any]] = [[] for _ in pairs]
    for part in routes.parts(source, target):
        rows = zip(part.route.tolist(), part.router.tolist(), part.way.tolist(), strict=True)
        for route, router, way in rows:
            place = router % faults.columns, router // faults.columns
            walked[route].insert(0, (place, NAMES[way]))
    assert walked == [links for _, _, links in pairs]
    across, down = routes.steps(source, target)
    for pair, links in enumerate(walked):
        rows_of = sum(name in ("east", "west") for _, name in links)
        assert (across[pair], down[pair]) == (rows_of, len(links) - rows_of)


def test_routes_are_computed_again_in_other_processes() -> None:
    routes = DetourRoutes.of(faulty_chip(1).to_json())
    packed = pickle.dumps(routes)
    assert len(packed) < 2000
    assert pickle.loads(packed) is routes
    assert DetourRoutes.of(Chip("c", 3, 3, unavailable=(1,)).to_json()) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda turns: turns | 0xFFFF, "a turn comes from a broken link, or leads back"),
        (lambda turns: turns & 0, "no route leads from router"),
    ],
)
def test_wrong_turns_are_found(
    change: Any, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip = Chip("c", 5, 4, broken_links=((6, 7),))
    out = random_folder(tmp_path / "out", chip)
    report = json.loads((out / "report.json").read_text())
    assert verify_mapping(out, report, tmp_path / "out.bin")["hops_total"]
    with_turns(monkeypatch, chip, change)
    with pytest.raises(CheckFailedError, match=reason):
        verify_mapping(out, report, tmp_path / "out.bin")


def test_turns_that_form_a_circle_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chip = Chip("c", 3, 3, broken_links=((0, 1),))

    def all_turns(turns: TurnMasks) -> TurnMasks:
        found = turns.copy()
        for router, came, out in ((4, 0, 2), (7, 2, 1), (6, 1, 3), (3, 3, 0)):
            found[router] |= np.uint16(1 << (4 * came + out))
        return found

    with_turns(monkeypatch, chip, all_turns)
    with pytest.raises(CheckFailedError, match="links wait for each other in a circle"):
        DetourRoutes.of(chip.to_json())


def with_turns(monkeypatch: pytest.MonkeyPatch, chip: Chip, change: Any) -> None:
    """Let the checker read other turns of a chip."""
    found = detours_of(chip)
    assert found is not None

    class Changed:
        turns = change(found.turns)

    verify_detours._routes_of.cache_clear()
    monkeypatch.setattr(verify_detours, "detours_of", lambda _: Changed)


@pytest.mark.parametrize("name", ["hops_total", "link_load_max", "congestion_max"])
def test_a_changed_metric_is_found(name: str, tmp_path: Path) -> None:
    chip = Chip("c", 5, 4, broken_links=((6, 7),), broken_routers=(13,))
    out = random_folder(tmp_path / "out", chip)
    report = json.loads((out / "report.json").read_text())
    report["metrics"][name] += 1
    with pytest.raises(CheckFailedError, match=name):
        verify_mapping(out, report, tmp_path / "out.bin")
