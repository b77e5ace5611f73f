"""Build the state of cores on a mesh before cycle 0 from a `MeshChip`."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipsim.chip.npu_shape import NpuShape
from chipsim.errors import ChipError
from chipsim.noc.mesh import Mesh
from chipsim.npu.arrivals import FINEST
from chipsim.npu.mesh.chip import HostInputs, HostPort, MeshChip, Place, say
from chipsim.npu.mesh.state import (
    CoreStates,
    Hosts,
    Nodes,
    Seen,
    Sizes,
    new_cores,
    new_hosts,
    new_nodes,
    new_seen,
)
from chipsim.npu.mesh.steps import (
    ASK,
    COUNT,
    CREDITS,
    KIND,
    SEND,
    STORE,
    STREAM_OF,
    TARGET,
    TO_HOST,
    Ends,
    Steps,
    require_streams,
    steps_of,
    store_vectors,
)

MOST_FLITS = 1 << 26
"""Maximum number of delivered flits that are kept: 1 GiB."""


class MeshState(NamedTuple):
    """State of the kernel, without the routers."""

    steps: Steps
    cores: CoreStates
    hosts: Hosts
    nodes: Nodes
    seen: Seen
    sizes: Sizes


def new_state(chip: MeshChip, frames: int, keep: list[int], flits: bool) -> MeshState:
    """Return the state of a chip before cycle 0; raises `ChipError` if its parts do not match.

    keep : frames whose instruction times are kept, ascending
    flits : True to keep delivered flits
    """
    shape, mesh = chip.shape, chip.mesh
    if frames < 1 or (keep and not 0 <= keep[0] <= keep[-1] < frames):
        raise ChipError(f"{frames} frames, keep {keep}; give 1 or more frames and keep only these")
    steps = _steps_of_chip(chip, frames)
    _require_ports(steps, list(chip.programs))
    hosts = _hosts(chip, frames)
    _require_credits(steps, hosts, chip)
    cores = new_cores([_node(mesh, place) for place in chip.programs], steps.first, shape)
    numbers = {place: number for number, place in enumerate(chip.programs)}
    for place, counts in chip.streams.items():
        if place not in numbers:
            raise ChipError(f"streams of core {say(place)}, which has no program")
        cores.streams[numbers[place]] = require_streams(counts, f"core {say(place)}")
    to_host = steps.more[(steps.what == STORE) & (steps.more[:, KIND] == TO_HOST)].tolist()
    sizes = _sizes(chip, frames, sum(row[COUNT] for row in to_host))
    nodes = new_nodes(mesh.nodes)
    nodes.core[cores.node] = np.arange(cores.node.size)
    nodes.host[hosts.node] = np.arange(hosts.node.size)
    written = [store_vectors(row, odd) for row in to_host for odd in (False, True)]
    addresses = 1 + max((int(some.max(initial=-1)) for some in written), default=-1)
    hosts = _with_results(hosts, chip, to_host, addresses)
    kept = _flits_of(steps, hosts, sizes) if flits else 0
    if kept > MOST_FLITS:
        raise ChipError(f"{kept:,} flits in {frames} frames; at most {MOST_FLITS:,} are kept")
    seen = new_seen(cores.node.size, len(steps.unit), frames, keep, addresses * _parts(shape), kept)
    return MeshState(steps, cores, hosts, nodes, seen, sizes)


def _parts(shape: NpuShape) -> int:
    """Return the flits per vector."""
    return -(-8 * shape.columns // shape.payload_bits)


def _sizes(chip: MeshChip, frames: int, results: int) -> Sizes:
    """results : vectors per frame that go to the host"""
    shape, mesh, parts = chip.shape, chip.mesh, _parts(chip.shape)
    rate = Fraction(chip.link.flits).limit_denominator(FINEST)
    if rate <= 0 or chip.link.latency < 1:
        raise ChipError(
            f"host: {chip.link.flits} flits per cycle, latency {chip.link.latency} cycles; "
            "give more than 0 flits and 1 or more cycles"
        )
    latency = shape.latency
    arrives = 0 if shape.map_vectors else -(-8 * shape.columns // shape.load_bits)
    return Sizes(
        width=mesh.width, depth=mesh.depth, bits=mesh.node_bits, parts=parts,
        word=shape.rows * parts, queue=shape.queue_places, tokens=(1 << shape.token_bits) - 1,
        control=latency.control, store=latency.store, stream=latency.stream,
        matrix=latency.matrix, restart=latency.restart, frames=frames, results=results * parts,
        arrives=arrives, latency=chip.link.latency, numerator=rate.numerator,
        denominator=rate.denominator,
    )  # fmt: skip


def _steps_of_chip(chip: MeshChip, frames: int) -> Steps:
    """Return the programs of a chip in the form of the kernel.

    Raises `ChipError` if a place is outside the mesh or a destination does not exist.
    """
    mesh = chip.mesh
    for what, places in (("core", chip.programs), ("host port", [one.place for one in chip.hosts])):
        for x, y in places:
            if not (0 <= x < mesh.width and 0 <= y < mesh.height):
                raise ChipError(
                    f"{what} ({x}, {y}) is outside the mesh, {mesh.width}x{mesh.height}"
                )
    host_at = {port.place: _node(mesh, port.place) for port in chip.hosts}
    if len(host_at) < len(chip.hosts):
        raise ChipError("two host ports are at one node")

    def host(place: Place) -> int:
        if place not in host_at:
            known = ", ".join(map(say, host_at)) or "none"
            raise ChipError(f"node {say(place)} has no host port; host ports: {known}")
        return host_at[place]

    def core(place: Place) -> int:
        return _core_node(chip, place)

    first = next(iter(host_at), (-1, -1))
    ends = {
        place: Ends(core, host, host_at.get(chip.ports.get(place, first), -1))
        for place in chip.programs
    }
    return steps_of(chip.programs, chip.shape, ends, frames, chip.begins)


def _node(mesh: Mesh, place: Place) -> int:
    return place[1] * mesh.width + place[0]


def _core_node(chip: MeshChip, place: Place) -> int:
    if place not in chip.programs:
        raise ChipError(f"core {say(place)} has no program")
    return _node(chip.mesh, place)


def _require_ports(steps: Steps, places: list[Place]) -> None:
    """Require a host port for each core that requests weights."""
    rows = np.flatnonzero((steps.what == ASK) & (steps.more[:, TARGET] < 0))
    if rows.size:
        core = int(np.searchsorted(steps.first, rows[0], "right")) - 1
        raise ChipError(
            f"core {say(places[core])}: instruction {rows[0] - steps.first[core]} (LOAD.WSTREAM) "
            "requests weights from the host, but the core has no host port"
        )


def _hosts(chip: MeshChip, frames: int) -> Hosts:
    """Return all host ports before cycle 0."""
    parts = _parts(chip.shape)
    cycles = np.array(chip.stages.cycles, np.int64)
    if not cycles.size or cycles[0] or cycles.min() < 0:
        raise ChipError(f"host: stages of {cycles.tolist()} cycles; give 0, then 0 or more each")
    nodes_of = [_node(chip.mesh, port.place) for port in chip.hosts]
    hosts = new_hosts(nodes_of, chip.mesh.nodes, cycles, frames)
    credits: list[int] = []
    columns: list[list[NDArray[np.int64]]] = []
    counts: list[int] = []
    for number, port in enumerate(chip.hosts):
        inputs = _by_stage(port, cycles.size)
        counts += (parts * np.bincount(inputs.stage, minlength=cycles.size)).tolist()
        nodes = [_core_node(chip, (x, y)) for x, y in inputs.core.tolist()]
        targets = np.array(nodes, np.int64)
        taken = np.full((targets.size, parts), -1, np.int64)
        pairs, needs = hosts.pairs[number], inputs.consumed
        for at, who in enumerate(zip(targets.tolist(), inputs.stream.tolist(), strict=True)):
            if pairs[who] < 0:
                pairs[who] = len(credits)
                credits.append(int(inputs.slots[at]))
            if needs[at]:
                taken[at, 0] = pairs[who]
        part = np.tile(np.arange(parts), targets.size)
        columns.append([
            np.repeat(targets, parts), np.repeat(inputs.stream, parts),
            np.repeat(inputs.vector * parts, parts) + part, np.repeat(inputs.odd * parts, parts),
            taken.ravel(), np.repeat(needs, parts),
        ])  # fmt: skip
    target, stream, address, odd, pair, needs = (
        np.concatenate([np.zeros(0, np.int64), *(rows[at] for rows in columns)]) for at in range(6)
    )
    first = np.cumsum([0, *counts]).astype(np.int64)
    return hosts._replace(
        first=first, target=target, stream=stream, address=address, odd=odd, pair=pair, needs=needs,
        credits=np.array(credits, np.int64).reshape(-1),
        at=first[:-1].reshape(-1, cycles.size).copy(),
    )  # fmt: skip


def _by_stage(port: HostPort, stages: int) -> HostInputs:
    """Return the inputs of a port sorted by stage, each in its order."""
    inputs, where = port.inputs, f"host port {say(port.place)}"
    given = [column for column in inputs._replace(waits=inputs.consumed) if column is not None]
    if len({len(column) for column in given}) > 1:
        raise ChipError(f"{where}: input columns have different lengths")
    if inputs.stage.size and not 0 <= inputs.stage.min() <= inputs.stage.max() < stages:
        raise ChipError(f"{where}: input of stage {inputs.stage.max()}; the host has {stages}")
    pairs = np.unique(np.column_stack([inputs.core, inputs.stream, inputs.stage]), axis=0)
    twice = np.flatnonzero((pairs[1:, :3] == pairs[:-1, :3]).all(1))
    if twice.size:
        x, y, stream, _ = pairs[twice[0]].tolist()
        raise ChipError(f"{where}: stream {stream} of core {say((x, y))} is input of two stages")
    order = np.argsort(inputs.stage, kind="stable")
    return HostInputs(*(column[order] for column in given))


def _with_results(hosts: Hosts, chip: MeshChip, to_host: list[list[int]], addresses: int) -> Hosts:
    """Return hosts with the stage of each result and the results that each stage waits for.

    to_host : stores of a frame to the host; addresses : number of vectors at the host
    """
    given = np.asarray(chip.stages.results, np.int64)[:addresses]
    stage = np.zeros(addresses, np.int64)
    stage[: given.size] = given
    parts, stages = _parts(chip.shape), len(hosts.cycles)
    if stage.size and not 0 <= stage.min() <= stage.max() < stages:
        raise ChipError(f"host: results of stage {stage.max()}; the host has {stages}")
    counts = np.zeros(stages + 1, np.int64)
    for row in to_host:
        counts[1:] += parts * np.bincount(stage[store_vectors(row, False)], minlength=stages)
    wanted = np.cumsum(counts)[:stages]
    if stages > 1 and not wanted[1:].all():
        raise ChipError(
            f"host: stage {1 + int(np.argmin(wanted[1:] > 0))} waits for no results of cores"
        )
    return hosts._replace(stage=np.repeat(stage, parts), wanted=wanted)


def _require_credits(steps: Steps, hosts: Hosts, chip: MeshChip) -> None:
    """Require that the host sends inputs to each stream that it receives credits for."""
    rows = np.flatnonzero((steps.what == SEND) & (steps.more[:, KIND] == CREDITS))
    for at in rows.tolist():
        number = int(np.searchsorted(steps.first, at, "right")) - 1
        (x, y), more = list(chip.programs)[number], steps.more[at]
        port = int(np.flatnonzero(hosts.node == more[TARGET])[0])
        if hosts.pairs[port, y * chip.mesh.width + x, more[STREAM_OF]] < 0:
            raise ChipError(
                f"core ({x}, {y}): instruction {at - steps.first[number]} (CTRL.SEND) sends the "
                f"host a credit for stream {more[STREAM_OF]}, which gets no input from the host"
            )


def _flits_of(steps: Steps, hosts: Hosts, sizes: Sizes) -> int:
    """Return the number of flits in all frames."""
    count, away = steps.more[:, COUNT], steps.more[:, TARGET] >= 0
    asked = count[steps.what == ASK]
    each = int(count[(steps.what == STORE) & away].sum()) * sizes.parts
    each += int((steps.what == SEND).sum()) + int((asked > 0).sum())
    each += int(asked.sum()) * sizes.word + int(hosts.first[-1])
    return each * sizes.frames
