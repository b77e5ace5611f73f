"""Pieces of layers onto cores, as the mapper places any network.

What they send each other is what neurons do in another network; groups of pieces stay together,
and the mapper puts those that have much to say to each other near each other.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.model import Chip
from mapper.compiler.cores.vertices import WHOLE, Vertices
from storage.errors import write_error

PRESET = "strong"
"""Of the mapper: networks of pieces are small."""
MEMORY = 1 << 28  # bytes


class Placed(NamedTuple):
    """core : int32, shape (vertices,), id of the core of each; network : the file of vertices"""

    core: NDArray[np.int32]
    network: bytes


def place(vertices: Vertices, chip: Chip, port: int, seed: int) -> Placed:
    """The core of every piece, and of the host's port, the last vertex. port : the core at it

    Raises `DoesNotFitError` if the mapper finds no mapping, `WriteError` if there is no room for
    its temporary files.
    """
    from mapper.inputs.listener import Listener
    from mapper.inputs.source import Source
    from mapper.limits.constraints import ConstraintFile
    from mapper.runtime.monitor import Monitor
    from mapper.session import MapRequest, Workspace, mapped
    from mapper.settings import preset

    count = vertices.sizes.size
    constraints = f"[[pin]]\nneurons = [{count - 1}]\ncore = {port}\n"
    for number in range(int(vertices.groups.max()) + 1):
        group = np.flatnonzero(vertices.groups == number).tolist()
        if len(group) > 1:
            constraints += f"[[together]]\nneurons = {group}\n"
    request = MapRequest(
        Source(
            (vertices.source, vertices.target, vertices.flits.astype(np.float64)),
            None, None, neurons=count, sizes=vertices.sizes,
        ),
        tiles_chip(chip),
        preset(PRESET, seed=seed, threads=1, memory_bytes=MEMORY),
        ConstraintFile(Path("groups of pieces"), constraints.encode()),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mapper-") as folder:
        work = Workspace(Path(folder), lasting=False)
        try:
            with Monitor() as monitor, mapped(request, work, monitor, Listener()) as session:
                core = session.mapping.core[:count].astype(np.int32)
                return Placed(core, session.network.path.read_bytes())
        except OSError as error:
            raise write_error(Path(folder), error) from error


def tiles_chip(chip: Chip) -> Chip:
    """The chip as pieces see it: what limits them is in the sizes of their vertices."""
    return replace(chip, npu=None, neurons=WHOLE, synapses=None, axons_in=None, axons_out=None)
