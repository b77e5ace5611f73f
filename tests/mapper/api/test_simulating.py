"""`mapper.simulate` and `mapper.report`: the results of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mapper
from chipsim.chip.presets import parse_chip
from tests.mapper.api.conftest import SMALL
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
EFFORT: dict[str, Any] = {"threads": 1, "memory": "300MiB"}
WORDS = ("--threads", "1", "--memory", "300MiB", "--json")


@pytest.fixture
def mapping(folder: Path, edges: Any) -> mapper.NetworkMapping:
    net = mapper.import_network(edges, "net.bin", **EFFORT)
    found = mapper.map_network(net, (4, 4), **SMALL)
    found.save("out")
    found.save("same")
    return found


def test_the_mesh(mapping: mapper.NetworkMapping, run: Run) -> None:
    said = json.loads(run("simulate", "out", "--cycles", "300", "--seed", "3", *WORDS).out)
    found = mapper.simulate("same", cycles=300, seed=3, **EFFORT)
    assert found.kind == "mesh"
    assert json.loads(json.dumps(found.facts)) == said
    assert json.loads(Path("same/report.json").read_text())["simulation"] == said
    assert any("stay in their core" in note or "clock" in note for note in found.notes)
    alone = mapper.simulate(mapping, cycles=300, seed=3, **EFFORT)
    assert alone.facts == found.facts


def test_the_cores(edges: Any, folder: Path, run: Run) -> None:
    chip = replace(parse_chip("4x4"), delivery="core")
    mapping = mapper.map_network(mapper.import_network(edges, "net.bin"), chip, **SMALL)
    for name in ("out", "same"):
        mapping.save(name)
    words = ("--ticks", "5", "--seed", "3")
    said = json.loads(run("simulate", "out", *words, *WORDS).out)
    found = mapper.simulate("same", ticks=5, seed=3, **EFFORT)
    assert found.kind == "cores"
    assert json.loads(json.dumps(found.facts)) == said


def test_pages(mapping: mapper.NetworkMapping, run: Run) -> None:
    assert run("report", "out", "same", "-o", "command.html").code == 0
    assert mapper.report("out", "same", path="python.html", **EFFORT) == Path("python.html")
    assert Path("python.html").read_bytes() == Path("command.html").read_bytes()
    assert mapper.report("out") == Path("out/report.html")
    assert mapper.report(mapping) == Path("report.html")
    assert mapper.report(mapping, "out") == Path("comparison.html")


Call = Callable[[mapper.NetworkMapping], Any]
REFUSED: list[tuple[type[mapper.MapperError], str, Call]] = [
    (mapper.UsageError, "cycles is 0; give a whole number of 1 or more",
     lambda it: mapper.simulate(it, cycles=0)),
    (mapper.UsageError, "load_scale is nan; give a number above 0",
     lambda it: mapper.simulate(it, load_scale=float("nan"))),
    (mapper.UsageError, "depth is True", lambda it: mapper.simulate(it, depth=True)),
    (mapper.UsageError, "packets is 'x'", lambda it: mapper.simulate(it, packets="x")),
    (mapper.UsageError, "ticks: runs the chip with its cores, cycles only the mesh",
     lambda it: mapper.simulate(it, ticks=3, cycles=5)),
    (mapper.UsageError, "save: needs input spikes", lambda it: mapper.simulate(it, save="a.npz")),
    (mapper.UsageError, "save: give a file", lambda it: mapper.simulate(it, spikes="a.npz")),
    (mapper.UsageError, "neuron: 'mass' is not one of",
     lambda it: mapper.simulate("out", spikes="a.npz", neuron={"mass": 1})),
    (mapper.MapperError, "a.npz", lambda it: mapper.simulate("out", spikes="a.npz")),
    (mapper.MapperError, "net.bin", lambda it: mapper.simulate("net.bin")),
    (mapper.UsageError, "the first argument is 3", lambda it: mapper.report(3)),  # type: ignore[arg-type]
    (mapper.MapperError, "none: ", lambda it: mapper.report("none")),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said", "call"), REFUSED, ids=[one[1] for one in REFUSED])
def test_refused(
    error: type[Exception], said: str, call: Call, mapping: mapper.NetworkMapping
) -> None:
    before = Path("out/report.json").read_bytes()
    with pytest.raises(mapper.MapperError) as caught:
        call(mapping)
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
    assert Path("out/report.json").read_bytes() == before
