"""The contracts of plugins: built-in objects keep them, and objects that do not are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.presets import PRESETS, parse_chip
from mapper import extend
from mapper.exports import EXPORTS as MAPPINGS
from mapper.extend import (
    BadInputError,
    ContractError,
    Exporter,
    Importer,
    ImportJob,
    Loss,
    MappedRun,
    MappingExporter,
    NetworkFile,
    NetworkMeta,
    PartialFile,
    Placed,
    Placer,
    Problem,
    check_chip,
    check_exporter,
    check_importer,
    check_mapping_exporter,
    check_placer,
)
from mapper.placement import multilevel
from mapper.placement.annealing.classes import ClassPlacer
from mapper.placement.annealing.dense import AnnealingPlacer
from mapper.placement.annealing.schedule import Schedule
from mapper.placement.placers import PLACERS
from storage.formats import EXPORTS, FORMATS
from tests.storage.formats.samples import SAMPLES
from tests.storage.formats.test_contract import need

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
HERE = "tests.mapper.extend.test_contracts"


def test_every_name_is_loaded() -> None:
    assert sorted(extend._PLACES) == sorted(extend.__all__)
    assert all(getattr(extend, name) for name in extend.__all__)
    assert set(extend.__all__) <= set(dir(extend))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        extend.nothing  # noqa: B018


@pytest.mark.heavy
@pytest.mark.sample(4)
@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("sonata",)])
def test_built_in_importers(name: str, folder: Path) -> None:
    """Not SONATA, whose samples refer to other files."""
    need(name)
    samples = {sample.name: sample.make(folder) for sample in SAMPLES[name]}
    first = next(iter(samples))
    check_importer(FORMATS[name], {first: samples[first]})


@pytest.mark.parametrize("name", EXPORTS)
def test_built_in_exporters(name: str, folder: Path) -> None:
    need(name)
    check_exporter(EXPORTS[name])


@pytest.mark.heavy
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", MAPPINGS)
def test_built_in_exports(name: str, folder: Path) -> None:
    need(name)
    exporter = MAPPINGS[name]
    check_mapping_exporter(exporter, {"threshold": 1} if "threshold" in exporter.options else {})


EACH = {
    **PLACERS,
    "annealing": AnnealingPlacer(Schedule(2e5, rounds=4)),
    "classes": ClassPlacer(2e5, rounds=4),
}


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EACH)
def test_built_in_placers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilevel, "COARSEST", 12)
    check_placer(EACH[name])


@pytest.mark.parametrize(
    "chip",
    [*PRESETS.values(), Chip("faults", 9, 7, unavailable=(1, 4))],
    ids=lambda chip: chip.name,
)
def test_built_in_chips(chip: Chip) -> None:
    check_chip(chip)


# Objects that do not keep the contracts

SAMPLE = {"a.odd": b"odd 2 0 1"}
_state: dict[str, Any] = {}


def load(job: ImportJob) -> NetworkMeta:
    """Read `odd NEURONS SOURCE TARGET`, with the fault of the test."""
    fault = _state["fault"]
    words = job.source.read_bytes().split()
    if fault != "any file" and (len(words) != 4 or words[0] != b"odd"):
        raise KeyError("odd") if fault == "error" else BadInputError("is not odd at all")
    try:
        neurons, source, target = (int(word) for word in words[1:])
    except ValueError as error:
        if fault == "two lines":
            raise BadInputError(f"{job.source}: word\n\n\nof\x07 another kind\x1b") from error
        raise BadInputError(f"{job.source}: a word is not a number") from error
    if fault == "leftover":
        job.destination.with_name("other").write_text("")
    if fault == "progress":
        job.progress(2.0)
    if fault == "random":
        _state["count"] = neurons = _state.get("count", neurons) + 1
    with job.writer(neurons) as writer:
        writer.add(np.array([source]), np.array([target]))
        meta = writer.finish()
    return replace(meta, neurons=7) if fault == "counts" else meta


ODD = Importer("odd", "odd", (".odd",), HERE)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("error", "a.odd, no content: KeyError: 'odd'"),
        ("leftover", "files remain next to it"),
        ("progress", "progress is not a fraction"),
        ("random", "two imports of the file differ"),
        ("counts", "returns other counts"),
        ("extension", "a.odd is not recognised"),
        ("samples", "has no samples"),
        ("ending", "has the extension 'odd'"),
    ],
)
def test_faulty_importers(fault: str, told: str, folder: Path) -> None:
    _state.clear()
    _state["fault"] = fault
    importer = replace(ODD, extensions=(".even",)) if fault == "extension" else ODD
    importer = replace(ODD, extensions=("odd",)) if fault == "ending" else importer
    with pytest.raises(ContractError, match=told):
        check_importer(importer, {} if fault == "samples" else SAMPLE)


def test_a_good_importer(folder: Path) -> None:
    _state["fault"] = ""
    check_importer(ODD, SAMPLE)
    check_importer(replace(ODD, gzip=False), SAMPLE)


def save(net: NetworkFile, destination: Path) -> list[Loss]:
    fault = _state["fault"]
    text = f"{net.vertices}".encode()
    if fault == "random":
        _state["count"] = _state.get("count", 0) + 1
        text = str(_state["count"]).encode()
    if fault == "partial":
        destination.parent.mkdir(exist_ok=True)
        destination.write_bytes(text)
        return []
    if fault == "other":
        destination.with_name("other").write_bytes(text)
    if fault == "message":
        raise BadInputError("cannot hold it")
    with PartialFile(destination) as file:
        file.write(text)
        file.commit()
    return [Loss("sizes", 1, "no sizes")] if fault == "loss" else []


@pytest.mark.parametrize(
    ("fault", "told", "change"),
    [
        ("random", "two exports of a network differ", {}),
        ("partial", "writes into a missing folder", {}),
        ("other", "other files remain", {}),
        ("message", "does not start with the file", {}),
        ("loss", "loses parts that it declares to hold: sizes", {"holds": ("sizes",)}),
        ("", "weight is not one of", {"holds": ("weight",)}),
        ("", ".gz differs", {"text": True}),
        ("", "has no tuple", {"extensions": ()}),
    ],
)
def test_faulty_exporters(fault: str, told: str, change: dict[str, Any], folder: Path) -> None:
    _state.clear()
    _state["fault"] = fault
    good = Exporter("odd", "odd", (".odd",), HERE)
    with pytest.raises(ContractError, match=told):
        check_exporter(replace(good, **change))
    if not change:
        _state["fault"] = ""
        check_exporter(good)


def save_mapping(run: MappedRun, destination: Path, options: dict[str, Any]) -> dict[str, Any]:
    fault = _state["fault"]
    if fault == "random":
        _state["count"] = _state.get("count", 0) + 1
    if fault == "missing folder":
        destination.parent.mkdir(exist_ok=True)
    with PartialFile(destination) as file:
        file.write(str(_state.get("count")).encode())
        file.commit()
    return {"neurons": run.core.size, "odd": run if fault == "facts" else None}


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("random", "two exports of a mapping differ"),
        ("missing folder", "writes into a missing folder"),
        ("facts", "returns facts that are not JSON: Object of type MappedRun"),
    ],
)
def test_faulty_exports(fault: str, told: str, folder: Path) -> None:
    _state.clear()
    good = MappingExporter("odd", "odd", (".odd",), f"{HERE}:save_mapping")
    _state["fault"] = fault
    with pytest.raises(ContractError, match=told):
        check_mapping_exporter(good)
    _state["fault"] = ""
    check_mapping_exporter(good)
    with pytest.raises(ContractError, match="does not declare the options odd"):
        check_mapping_exporter(good, {"odd": 1})


Change = Callable[[Problem, Placed, np.random.Generator], Iterator[Placed]]


@dataclass(frozen=True)
class OddPlacer(Placer):
    """Yields the start, changed."""

    change: Change

    def place(
        self, problem: Problem, start: Placed | None, rng: np.random.Generator
    ) -> Iterator[Placed]:
        assert start is not None
        return self.change(problem, start, rng)


def _cost(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    yield start._replace(cost=start.cost + 1)


def _twice(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    yield problem.placed(0 * start.x, 0 * start.y)


def _drawn(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    order = np.random.default_rng().permutation(problem.size)  # not of the given generator
    yield problem.placed(start.x[order], start.y[order])


def _inside(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    start.x[:], start.y[:] = start.x[::-1].copy(), start.y[::-1].copy()
    yield problem.placed(start.x, start.y)


def _endless(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    yield from [start] * 3


def _failing(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    yield start
    raise ZeroDivisionError("division by zero")


def _good(problem: Problem, start: Placed, rng: np.random.Generator) -> Iterator[Placed]:
    order = rng.permutation(problem.size)
    yield problem.placed(start.x[order], start.y[order])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_cost, "the cost is"),
        (_twice, "the placer places (two groups on one core|groups on unusable cores)"),
        (_drawn, "two calls with the same seed differ"),
        (_inside, "the placer changes its arguments"),
        (_endless, "yields 3 placements after its time is up"),
        (_failing, "ZeroDivisionError: division by zero"),
    ],
)
def test_faulty_placers(change: Change, told: str) -> None:
    with pytest.raises(ContractError, match=told):
        check_placer(OddPlacer(change))


def test_a_good_placer() -> None:
    check_placer(OddPlacer(_good))


def test_faulty_chips() -> None:
    for name in ("3x5", "a.toml", "two words", "1st"):
        with pytest.raises(ContractError, match="looks like a size or file"):
            check_chip(replace(parse_chip("3x5"), name=name))
