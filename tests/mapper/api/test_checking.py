"""Check, score and verify in Python: the figures of the command line, as objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from tests.mapper.api.conftest import SMALL
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
EFFORT: dict[str, Any] = {"threads": 1, "memory": "300MiB"}
WORDS = ("--threads", "1", "--memory", "300MiB", "--json")


@pytest.fixture
def net(folder: Path, edges: Any) -> mapper.Network:
    return mapper.import_network(edges, "net.bin", **EFFORT)


def test_check(net: mapper.Network, edges: Any, run: Run) -> None:
    found = mapper.check(net, (4, 4), neurons_per_core=4, **EFFORT)
    said = json.loads(run("check", "net.bin", "--chip", "4x4", "--neurons-per-core", "4",
                          *WORDS).out)  # fmt: skip
    made = json.loads(json.dumps(found.to_json()))
    for one in (said, made):  # measured
        del one["run"]["processor_seconds"]
    assert made == said
    assert (found.fits, found.reasons) == (True, [])
    small = mapper.check(edges, (2, 2), neurons_per_core=4, **EFFORT)
    assert not small.fits
    assert "neurons" in small.reasons[0]


def test_score(net: mapper.Network, run: Run) -> None:
    mapping = mapper.map_network(net, "4x4", **SMALL)
    mapping.save("out")
    said = json.loads(run("score", "net.bin", "out/mapping.npz", "--chip", "4x4",
                          "--neurons-per-core", "4", *WORDS).out)  # fmt: skip
    for given in (mapping, mapping.core, "out/mapping.npz"):
        found = mapper.score(net, given, (4, 4), neurons_per_core=4, **EFFORT)
        assert json.loads(json.dumps(found.to_json())) == said
        assert found.metrics == mapping.metrics
        assert found.valid
    over = mapper.score(net, np.zeros(50, int), (4, 4), neurons_per_core=4, **EFFORT)
    assert not over.valid
    assert over.violations == ["core 0 uses 50 neurons (limit 4)"]


def test_verify(net: mapper.Network, run: Run) -> None:
    mapping = mapper.map_network(net, "4x4", **SMALL)
    mapping.save("out")
    for path, given in (("net.bin", net), ("out", mapping), ("out", "out")):
        said = json.loads(run("verify", path, "--json").out)
        found = mapper.verify(given, **EFFORT)
        assert found.kind == ("network" if path == "net.bin" else "mapping")
        assert found.facts.items() <= said.items()
        assert str(found).startswith("valid ")
    report = json.loads(Path("out/report.json").read_text())
    report["metrics"]["cut_weight"] += 1
    Path("out/report.json").write_text(json.dumps(report))
    with pytest.raises(mapper.CheckFailedError, match="cut_weight"):
        mapper.verify("out")


REFUSED: list[tuple[type[mapper.MapperError], str, Callable[[mapper.Network], Any]]] = [
    (mapper.UsageError, "chip is 3; give (16, 16)", lambda net: mapper.check(net, 3)),
    (mapper.MapperError, "chip 'x' is unknown", lambda net: mapper.check(net, "x")),
    (mapper.UsageError, "mapping is 3; give core ids", lambda net: mapper.score(net, 3, (4, 4))),
    (mapper.MapperError, "mapping: maps 3 neurons, the network has 50", lambda net: mapper.score(
        net, [0, 1, 2], (4, 4))),
    (mapper.UsageError, "the first argument is 3; give", lambda net: mapper.verify(3)),
    (mapper.UsageError, "network is 3; give a Network", lambda net: mapper.verify(
        net, network=3)),
    (mapper.CheckFailedError, "none.bin: cannot read", lambda net: mapper.verify("none.bin")),
    (mapper.UsageError, "memory: '1 x' is not a size", lambda net: mapper.verify(
        net, memory="1 x")),
    (mapper.UsageError, "threads is 0", lambda net: mapper.score(net, [0], (4, 4), threads=0)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said", "call"), REFUSED, ids=[one[1] for one in REFUSED])
def test_refused(
    error: type[Exception], said: str, call: Callable[[mapper.Network], Any], net: mapper.Network
) -> None:
    with pytest.raises(mapper.MapperError) as caught:
        call(net)
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
