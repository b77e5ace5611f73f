"""Placement of pieces of layers on cores, with the mapper's algorithms for networks.

The traffic between pieces takes the role of spikes between neurons. Groups of pieces stay together,
and the mapper places groups with much traffic close to each other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.memory import NO_MEMORY
from chipsim.chip.model import Chip
from mapper.compiler.multicore.job import nearest
from mapper.compiler.multicore.vertices import WHOLE, Vertices, with_ports
from mapper.compiler.program.links import Place
from mapper.compiler.settings import Placement, SearchEffort
from storage.errors import write_error

if TYPE_CHECKING:
    from mapper.settings import Settings

PRESETS: dict[SearchEffort, str] = {"fast": "fast", "default": "default", "strong": "strong"}
"""Preset of the mapper for the parts of the best cuts; the fast one while cuts are compared."""
MEMORY = 1 << 28  # bytes
ROUNDS = 3
"""Maximum placement rounds; each round updates the nearest ports."""


def cores_of(
    vertices: Vertices, chip: Chip, ports: Sequence[Place], placement: Placement, preset: str
) -> NDArray[np.int32]:
    """Return the core of every piece, shape (pieces,). ports : nodes of the host's ports

    Raises `DoesNotFitError` if the mapper finds no mapping, `WriteError` if there is no room for
    its temporary files.
    """
    if placement == "mapper":
        return place_near(vertices, chip, ports, 0, preset)
    return in_order(vertices.groups, chip, placement == "serpentine")


def in_order(groups: NDArray[np.int64], chip: Chip, serpentine: bool) -> NDArray[np.int32]:
    """Place groups on the usable cores, row by row; with `serpentine` odd rows run backwards."""
    cores = np.arange(chip.cores, dtype=np.int32).reshape(chip.height, chip.width)
    if serpentine:
        cores[1::2] = cores[1::2, ::-1].copy()
    order = cores.ravel()
    found: NDArray[np.int32] = order[chip.usable[order]][groups]
    return found


def place_near(
    vertices: Vertices, chip: Chip, ports: Sequence[Place], seed: int, preset: str = "strong"
) -> NDArray[np.int32]:
    """Return the core of every piece, shape (pieces,); each uses the nearest port of the host.

    Ports depend on the placement and vice versa: initially the groups with host traffic are
    distributed in order, so that each port has about the same number of flits.
    Raises the errors of `place`.
    """
    if len(ports) == 1:
        return place(vertices, chip, ports, seed, preset)
    port_of, best = _dealt(vertices, len(ports)), None
    for _ in range(ROUNDS):
        found = place(with_ports(vertices, port_of, len(ports)), chip, ports, seed, preset)
        at = np.stack([found % chip.width, found // chip.width], 1)
        nearest_ = np.array([ports.index(nearest(ports, (int(x), int(y)))) for x, y in at])
        ends = np.concatenate([at, ports])
        made = with_ports(vertices, nearest_, len(ports))
        hops = np.abs(ends[made.source] - ends[made.target]).sum(1)
        cost = int((hops * made.flits).sum())
        if best is None or cost < best[0]:
            best = cost, found
        if np.array_equal(nearest_, port_of):
            break
        port_of = nearest_
    assert best is not None
    return best[1]


def _dealt(vertices: Vertices, ports: int) -> NDArray[np.int64]:
    """Return a port for each piece, the same for all pieces of a group."""
    host, groups = vertices.groups.size, vertices.groups
    flits = np.zeros(int(groups.max()) + 1)
    for one, other in ((vertices.source, vertices.target), (vertices.target, vertices.source)):
        mine = other == host
        np.add.at(flits, groups[one[mine]], vertices.flits[mine])
    before = np.cumsum(flits) - flits / 2
    number = np.minimum(before * ports // max(flits.sum(), 1), ports - 1).astype(np.int64)
    return number[groups]


def effort(seed: int = 0, preset: str = "strong") -> Settings:
    """Return the mapper settings for placing parts.

    Each flit has one destination, so the objective is "unicast", independent of the chip's spikes.
    """
    from mapper import settings

    return settings.preset(preset, objective="unicast", seed=seed, threads=1, memory_bytes=MEMORY)


def place(
    vertices: Vertices, chip: Chip, ports: Sequence[Place], seed: int, preset: str = "strong"
) -> NDArray[np.int32]:
    """Return the core of every piece. ports : nodes of the host's ports, the last vertices

    Raises `DoesNotFitError` if the mapper finds no mapping, `WriteError` if there is no room for
    its temporary files.
    """
    from mapper.inputs.listener import Listener
    from mapper.inputs.source import Source
    from mapper.limits.constraints import ConstraintFile
    from mapper.monitoring.monitor import Monitor
    from mapper.session import MapRequest, Workspace, mapped

    pieces = vertices.groups.size
    constraints = "".join(
        f"[[pin]]\nneurons = [{pieces + number}]\ncore = {y * chip.width + x}\n"
        for number, (x, y) in enumerate(ports)
    )
    for number in range(int(vertices.groups.max()) + 1):
        group = np.flatnonzero(vertices.groups == number).tolist()
        if len(group) > 1:
            constraints += f"[[together]]\nneurons = {group}\n"
    request = MapRequest(
        Source(
            (vertices.source, vertices.target, vertices.flits.astype(np.float64)),
            None, None, neurons=vertices.sizes.size, sizes=vertices.sizes,
        ),
        tiles_chip(chip),
        effort(seed, preset),
        ConstraintFile(Path("groups of pieces"), constraints.encode()),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mapper-") as folder:
        work = Workspace(Path(folder), lasting=False)
        try:
            with Monitor() as monitor, mapped(request, work, monitor, Listener()) as session:
                core: NDArray[np.int32] = session.mapping.core[:pieces].astype(np.int32)
                return core
        except OSError as error:
            raise write_error(Path(folder), error) from error


def tiles_chip(chip: Chip) -> Chip:
    """Return the chip without its limits, which the sizes of vertices already include."""
    chip = replace(chip, **NO_MEMORY)  # type: ignore[arg-type]
    chip = replace(chip, npu=None, host=None, time=None, energy=None, neurons=WHOLE)
    return replace(chip, synapses=None, axons_in=None, axons_out=None, single_target=False)
