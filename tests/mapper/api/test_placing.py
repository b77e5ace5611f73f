"""`mapper.place`: the placement of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
EFFORT: dict[str, Any] = {"threads": 1, "memory": "300MiB"}


def ring(groups: int) -> tuple[Any, Any]:
    return np.arange(groups), (np.arange(groups) + 1) % groups


def test_the_placement_of_the_command(folder: Path, run: Run) -> None:
    mapper.import_network(ring(12), "ring.bin", **EFFORT)
    words = ("--chip", "4x3", "--seed", "3", "--threads", "1", "--memory", "300MiB", "--json")
    said = json.loads(run("place", "ring.bin", *words).out)
    seen: list[str] = []
    found = mapper.place(
        ring(12), (4, 3), seed=3, progress=lambda stage, share: seen.append(stage), **EFFORT
    )
    assert found.core.tolist() == said["core"]
    assert found.metrics == said["metrics"]
    assert (found.y * 4 + found.x == found.core).all()
    assert sorted(found.core.tolist()) == list(range(12))
    assert not found.interrupted
    assert seen


@pytest.mark.parametrize(
    ("error", "said", "given"),
    [
        (mapper.DoesNotFitError, "4 usable cores", {"chip": (2, 2)}),
        (mapper.UsageError, "effort is 'x'; give one of", {"effort": "x"}),
        (mapper.UsageError, "time_limit is 0", {"time_limit": 0}),
        (mapper.UsageError, "time_limit is '3'", {"time_limit": "3"}),
        (mapper.UsageError, "time_limit: not with preset classic",
         {"time_limit": 1, "preset": "classic"}),
        (mapper.UsageError, "cluster_rounds is not a setting of place", {"cluster_rounds": 2}),
        (mapper.UsageError, "network is 3", {"groups": 3}),
        (mapper.DoesNotFitError, "group 0 has size 9", {"sizes": [9] * 12, "neurons_per_core": 8}),
    ],
)  # fmt: skip
def test_refused(error: type[Exception], said: str, given: dict[str, Any], folder: Path) -> None:
    with pytest.raises(mapper.MapperError) as caught:
        mapper.place(**{"groups": ring(12), "chip": (4, 3), **EFFORT, **given})
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
