"""The result of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipsim.traffic.arrays import Traffic
from mapper.scoring.populations import PopulationTraffic


@dataclass(frozen=True, slots=True)
class Mapping:
    """The result of a run.

    core : ndarray[int32], shape (neurons,), core id of every neuron
    metrics : the numbers of the report
    traffic : the arrays that the metrics summarise
    interrupted : the stage that Ctrl-C ended early, empty if none
    baselines : hops of other mappings and a lower bound, as ratios to the hops of this one
    populations : traffic of the populations; None without populations, or if Ctrl-C came before
    """

    core: NDArray[np.int32]
    metrics: dict[str, Any]
    traffic: Traffic
    interrupted: str
    populations: PopulationTraffic | None = None
    baselines: dict[str, float] | None = None
