"""What is left of a model when it comes to cores, and what it becomes there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.links import Place
from mapper.compiler.memory.regions import Places
from mapper.compiler.partition.functions import Partition
from mapper.compiler.settings import CompileSettings


class Job(NamedTuple):
    """places : of maps that lie in others; choices : of programs, which the settings say"""

    partition: Partition
    places: Places
    shape: NpuShape
    choices: Choices
    settings: CompileSettings


class Made(NamedTuple):
    """results : where the host keeps what it is sent
    host_words : of weights, shape (rows, columns) each
    port : the node of the host's port, if several cores share the model
    """

    codes: list[CoreCode]
    results: list[Lying]
    host_words: list[NDArray[np.int64]]
    port: Place | None = None
