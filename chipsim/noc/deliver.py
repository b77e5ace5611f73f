"""Send given packets through the mesh and record their arrival times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chipsim.errors import ChipError
from chipsim.noc.kernel import NEVER
from chipsim.noc.mesh import Advance, Mesh, MeshRun, link_flits, new_tally
from chipsim.noc.state import Feed
from chipsim.protocols import Int64Array

_Whole = npt.ArrayLike


@dataclass(frozen=True, slots=True)
class Delivery:
    """Result of the delivery of given packets.

    Attributes
    ----------
    delivered : ndarray[int64], shape (packets,)
        Cycle in which each packet left the local output of its target, -1 if not within the limit.
    links : ndarray[int64], shape (4, height, width)
        Flits on each link, in the form of `chipsim.traffic.links`.
    cycles : simulated cycles
    """

    delivered: Int64Array
    links: Int64Array
    cycles: int


def deliver(
    mesh: Mesh,
    created: _Whole,
    source: _Whole,
    target: _Whole,
    *,
    limit: int | None = None,
    advance: Advance | None = None,
) -> Delivery:
    """Send packets and run until all are delivered, or for `limit` cycles.

    Parameters
    ----------
    mesh
    created : integers, shape (packets,), 0 or more: cycle of creation, in any order
    source, target : integers, shape (packets,), cores
        Packets that a core creates in the same cycle enter the mesh in the given order.
    limit : maximum number of cycles; by default unlimited, as the mesh is free of deadlock
    advance : callback, called regularly with the current cycle

    Raises
    ------
    ChipError
        If the arrays differ in length or a core is outside the mesh.
    """
    times = _whole("created", created, NEVER - 1)
    sources = _whole("source", source, mesh.cores - 1)
    targets = _whole("target", target, mesh.cores - 1)
    if not len(times) == len(sources) == len(targets):
        raise ChipError(
            f"packets: {len(times)} times, {len(sources)} sources and {len(targets)} targets; "
            "give one of each per packet"
        )
    if limit is not None and limit < 0:
        raise ChipError(f"limit is {limit}; give a number of cycles, 0 or more")
    mesh.require_routes(mesh.router[sources], mesh.router[targets])
    order = np.lexsort((times, sources))  # stable
    stop = np.cumsum(np.bincount(sources, minlength=mesh.cores))
    feed = Feed(
        at=np.concatenate([[0], stop[:-1]]).astype(np.int64),
        stop=stop.astype(np.int64),
        order=order.astype(np.int64),
        created=times,
        wanted=mesh.router[targets].astype(np.int32),
        random=np.zeros(0, dtype=np.uint64),
        miss=np.zeros(0),
        spread=np.zeros(2),
        indptr=np.zeros(1, dtype=np.int64),
        choice=np.zeros(0, dtype=np.int32),
        below=np.zeros(0, dtype=np.int64),
        guide=np.zeros(0, dtype=np.int32),
    )
    run = MeshRun(mesh, feed, new_tally(mesh, len(times)), (0, NEVER))
    run.until(NEVER if limit is None else limit, 0, advance)
    return Delivery(run.tally.delivered, link_flits(mesh, run.tally.passed), run.cycle)


def _whole(name: str, values: _Whole, highest: int) -> Int64Array:
    found = np.asarray(values)
    if found.ndim != 1 or not (np.issubdtype(found.dtype, np.integer) or not found.size):
        raise ChipError(
            f"packets: {name} has shape {found.shape} and type {found.dtype}; "
            "give a one-dimensional array of whole numbers"
        )
    wrong = np.flatnonzero((found < 0) | (found > highest))
    if wrong.size:
        raise ChipError(
            f"packets: {name} of packet {wrong[0]} is {found[wrong[0]]}; give 0 to {highest}"
        )
    return found.astype(np.int64)
