"""What is left of a model when it comes to cores, and what it becomes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.codegen.links import Place
from mapper.compiler.memory.regions import Places
from mapper.compiler.partition.functions import Partition
from mapper.compiler.settings import CompileSettings


class Job(NamedTuple):
    """places : of maps that lie in others; choices : of programs, which the settings say
    link : how the host answers requests for weights
    """

    partition: Partition
    places: Places
    shape: NpuShape
    choices: Choices
    settings: CompileSettings
    link: HostLink = HostLink()


class Made(NamedTuple):
    """results : where the host keeps what it is sent
    host_words : of weights, shape (rows, columns) each
    ports : the nodes of the host's ports, if several cores share the model
    """

    codes: list[CoreCode]
    results: list[Lying]
    host_words: list[NDArray[np.int64]]
    ports: Sequence[Place] = ()
