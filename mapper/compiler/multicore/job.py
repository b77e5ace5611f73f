"""Input and result of mapping a compiled model to cores, and the ports of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from mapper.compiler.codegen.builder import Choices
from mapper.compiler.codegen.code import CoreCode, Lying
from mapper.compiler.memory.regions import Places
from mapper.compiler.partition.functions import Partition
from mapper.compiler.program.links import Place
from mapper.compiler.settings import CompileSettings


class CompileJob(NamedTuple):
    """Input of mapping a model to cores.

    places : places of feature maps inside others; choices : code generation options
    link : timing of the host's weights
    """

    partition: Partition
    places: Places
    shape: NpuShape
    choices: Choices
    settings: CompileSettings
    link: HostLink = HostLink()


class Made(NamedTuple):
    """Result of mapping a model to cores.

    results : where the host stores received results
    host_words : weight words on the host, shape (rows, columns) each
    ports : nodes of the host's ports, if several cores share the model
    """

    codes: list[CoreCode]
    results: list[Lying]
    host_words: list[NDArray[np.int64]]
    ports: Sequence[Place] = ()


def ports_of(chip: Chip) -> list[Place]:
    """Return the nodes of a chip that have a port of the host."""
    return [(core % chip.width, core // chip.width) for core in chip.host_ports]


def nearest(ports: Sequence[Place], place: Place) -> Place:
    """Return the port with the fewest hops to a core; the first in case of a tie."""
    return min(ports, key=lambda port: abs(port[0] - place[0]) + abs(port[1] - place[1]))
