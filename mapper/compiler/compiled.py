"""A compiled model: a program for each core, and intermediate results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chipsim.npu.mesh.chip import HostStages
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.ir.graph import Graph
from mapper.compiler.ir.macro import Macro
from mapper.compiler.partition.functions import Partition
from mapper.compiler.partition.hostplan import Step as HostStep
from mapper.compiler.quantisation.losses import LayerLoss
from mapper.compiler.quantisation.verify import Verified
from mapper.compiler.tiling.packing import PackingCycles


@dataclass(slots=True)
class Compiled:
    """A model as a program for each core, and intermediate results.

    graph : integer graph; macros : macro nodes as cores run them
    partition : macro nodes grouped in functions, and host nodes between them
    codes : programs of the cores, by place
    host_weights : words stored on the host, shape (words, rows, columns)
    results : host regions that receive results of several cores; ports : nodes of the host ports
    stages : work of the host between functions, and when it needs each of `results`
    verified : accuracy and attempts; None if the model was already quantised
    missed : missed limits of the verification, with values
    notes : log lines on changes of numbers or of where they are computed
    losses : loss of each layer over the calibration samples; graphs : by stage
    """

    graph: Graph
    partition: Partition
    codes: list[CoreCode]
    host_weights: NDArray[np.int8]
    results: list[Lying]
    ports: list[tuple[int, int]]
    stages: HostStages
    packing: PackingCycles
    host: list[HostStep]
    verified: Verified | None
    losses: list[LayerLoss]
    graphs: dict[str, Graph]
    log: list[str]
    notes: list[str]
    missed: list[str]

    @property
    def macros(self) -> list[Macro]:
        """Macro nodes in execution order."""
        return self.partition.macros

    @property
    def cycles(self) -> int:
        """Cycles of a frame on the busiest core."""
        return max(code.timeline.cycles for code in self.codes)

    @property
    def code(self) -> CoreCode:
        """Program of the only core."""
        (only,) = self.codes
        return only
