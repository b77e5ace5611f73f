"""Small random programs of several cores that exchange maps, for kernel and reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.noc.mesh import Mesh
from chipsim.npu.arrivals import HostLink
from chipsim.npu.followed import fields_by_name
from chipsim.npu.mesh.chip import HostInputs, HostPort, HostStages, MeshChip
from chipsim.npu.records import Program
from tests.chipsim.npu.programs import program_of
from tests.reference.npu_jobs import Step
from tests.reference.npu_mesh import Core, Host, Input, Processor, Twin

Place = tuple[int, int]
LOAD, GEMM, ALU, STORE = range(4)
TINY = NPU_SHAPES["tiny"]
CREDITS = 8  # the first stream for credits; lower streams are for maps
RESULTS = 1000  # the first address of results


def twin_of(chip: MeshChip, frames: int) -> Twin:
    """Return the same chip for the reference implementation."""
    cores = []
    for place, program in chip.programs.items():
        steps = steps_of(program)
        streams = list(np.asarray(chip.streams.get(place, [0] * 16)).tolist())
        port = chip.ports.get(place, chip.hosts[0].place if chip.hosts else (0, 0))
        words = program.micro_ops[:, 2].tolist()
        cores.append(Core(place, chip.shape, steps, words, streams, port, frames))
    parts = -(-8 * chip.shape.columns // chip.shape.payload_bits)
    hosts, processor = [], _processor(chip, [step for core in cores for step in core.program])
    for one in chip.hosts:
        columns = [column.tolist() for column in one.inputs[:6]]
        paced = one.inputs.waits
        columns.append([None] * len(columns[0]) if paced is None else paced.tolist())
        inputs = [
            Input((x, y), stream, vector * parts + part, odd * parts, slots, stage,
                  0 if waits and part else waits)
            for (x, y), stream, vector, odd, slots, stage, waits in zip(*columns, strict=True)
            for part in range(parts)
        ]  # fmt: skip
        link = chip.link.latency, Fraction(chip.link.flits).limit_denominator(1 << 16)
        hosts.append(Host(one.place, chip.shape, inputs, link, frames, processor))
    size = chip.mesh.width, chip.mesh.height, chip.mesh.depth
    return Twin(size, cores, hosts, processor, frames)


def _processor(chip: MeshChip, steps: Sequence[Step]) -> Processor:
    """Return the work of the host; all results of a store have the stage of its first vector."""
    parts = -(-8 * chip.shape.columns // chip.shape.payload_bits)
    stages = dict(enumerate(np.repeat(chip.stages.results, parts).tolist()))
    wanted = [0] * len(chip.stages.cycles)
    for step in steps:
        if "HOST" in step.kind:
            vectors = step["c_size"] * step["y_size"] * step["x_size"] * (1 + 3 * step["up"])
            each = parts * (4 if "PARTIAL" in step.kind else 1)
            wanted[stages.get(step["dst"] * parts, 0)] += vectors * each
    return Processor(chip.stages.cycles, wanted, stages)


def steps_of(program: Program) -> list[Step]:
    """Return the instructions of a program for the reference implementation."""
    steps = []
    for at in range(len(program.op)):
        op, kind, fields = fields_by_name(program, at)
        steps.append(Step(op, kind, int(program.wait[at]), int(program.signal[at]), fields))
    return steps


class Writer:
    """A program of one core under construction; tokens balance within a frame."""

    def __init__(self, rng: np.random.Generator, tokens: int) -> None:
        self.rng, self.tokens = rng, tokens
        self.steps: list[Any] = []
        self.masks: list[tuple[int, int]] = []
        self.given = np.zeros((4, 4), int)

    def add(self, op: str, kind: str, unit: int, **fields: int) -> None:
        if op == "CTRL":
            fields["queue"] = unit
        self.steps.append((op, kind, fields))
        wait = sum(1 << u for u in range(4) if self.given[u, unit] and self.rng.integers(3) == 0)
        for u in range(4):
            self.given[u, unit] -= wait >> u & 1
        signal = int(self.rng.integers(16)) & int(self.rng.integers(16))
        for u in range(4):
            if self.given[unit, u] >= self.tokens:
                signal &= ~(1 << u)
            self.given[unit, u] += signal >> u & 1
        self.masks.append((wait, signal))

    def program(self, words: Any) -> Program:
        made = program_of(self.steps, [[0, 0, int(word), 0, 0, 0] for word in words])
        wait, signal = np.array(self.masks, np.uint8).T
        return made._replace(wait=np.ascontiguousarray(wait), signal=np.ascontiguousarray(signal))


def random_shape(rng: np.random.Generator) -> NpuShape:
    return replace(
        TINY, queue_places=int(rng.integers(1, 5)), payload_bits=int(rng.choice([8, 16, 32])),
        weight_port=str(rng.choice(["word", "row"])), name="random",
    )  # fmt: skip


def random_chip(seed: int) -> MeshChip:
    """Return cores that send maps to later ones, with credits; some use a host."""
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    mesh = Mesh(int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    places = [(x, y) for y in range(mesh.height) for x in range(mesh.width)]
    order = [places[at] for at in rng.permutation(len(places))[: int(rng.integers(1, 6))]]
    ports = [places[at] for at in rng.permutation(len(places))[: int(rng.integers(1, 3))]]
    flows = []  # from, to, stream there, vectors, stream of credits here
    taken: dict[Place, int] = dict.fromkeys(order, 0)
    back: dict[Place, int] = dict.fromkeys(order, CREDITS)
    for number, place in enumerate(order):
        for other in order[number + 1 :]:
            if rng.integers(3) and taken[other] < CREDITS and back[place] < 16:
                flows.append((place, other, taken[other], int(rng.integers(1, 7)), back[place]))
                taken[other] += 1
                back[place] += 1
    inputs: dict[Place, list[tuple[int, ...]]] = {port: [] for port in ports}
    fed = []  # core, stream, vectors, port, credits per frame
    pace = np.random.default_rng([seed, 2])
    paced = bool(pace.integers(2))
    for place in order:
        if rng.integers(2) and taken[place] < CREDITS:
            port = ports[int(rng.integers(len(ports)))]
            vectors = int(rng.integers(1, 6))
            credits_ = int(pace.integers(1, 5)) if paced else 1
            fed.append((place, taken[place], vectors, port, credits_))
            inputs[port] += [
                (*place, taken[place], int(rng.integers(64)), 8) for _ in range(vectors)
            ]
            taken[place] += 1
    slots = int(rng.integers(1, 3))
    programs, streams = {}, {}
    for place in order:
        programs[place] = _program(rng, shape, place, flows, fed, ports)
        counts = [0] * 16
        for one, _, _, _, credit in flows:
            if one == place:
                counts[credit] = slots
        streams[place] = counts
    hosts = [HostPort(port, _inputs(rng, inputs[port], slots)) for port in ports]
    if paced:
        totals = {(place, stream): total for place, stream, _, _, total in fed}
        hosts = [one._replace(inputs=_paced(pace, one.inputs, totals)) for one in hosts]
    hosts, stages = _in_stages(np.random.default_rng([seed, 1]), order, programs, hosts)
    link = HostLink(int(rng.integers(1, 40)), float(rng.choice([1.0, 0.7, 0.3, 0.15])))
    asks = {place: ports[int(rng.integers(len(ports)))] for place in order}
    return MeshChip(shape, mesh, programs, streams, hosts, link, asks, stages=stages)


def _in_stages(
    rng: np.random.Generator, order: list[Place], programs: Mapping[Place, Program],
    hosts: list[HostPort],
) -> tuple[list[HostPort], HostStages]:  # fmt: skip
    """Divide the cores, in their order, into stages of the host; each has results."""
    sends = [any("HOST" in one.kind for one in steps_of(programs[place])) for place in order]
    stage_of, results, stage, ends = {}, np.zeros(4000, np.int64), 0, False
    for place, sent in zip(order, sends, strict=True):
        if ends and stage < 2 and rng.integers(2):
            stage, ends = stage + 1, False
        stage_of[place], ends = stage, ends or sent
        first = RESULTS + 200 * place[0] + 1000 * place[1]
        results[first : first + 200] = stage
    cycles = (0, *rng.integers(0, 60, stage).tolist())
    found = [
        port._replace(inputs=port.inputs._replace(stage=np.array(
            [stage_of[x, y] for x, y in port.inputs.core.tolist()], np.int64
        )))
        for port in hosts
    ]  # fmt: skip
    return found, HostStages(cycles, results)


def _inputs(rng: np.random.Generator, rows: list[tuple[int, ...]], slots: int) -> HostInputs:
    table = np.array(rows, np.int64).reshape(-1, 5)
    if rng.integers(2):
        table = table[rng.permutation(len(table))]
    held = np.full(len(table), slots)
    return HostInputs(table[:, :2], table[:, 2], table[:, 3], table[:, 4], held, 0 * held)


def _paced(
    rng: np.random.Generator, inputs: HostInputs, totals: Mapping[tuple[Place, int], int]
) -> HostInputs:
    """Distribute the credits of a frame over the vectors to each core and stream.

    totals : credits per frame, by core and stream
    """
    waits, slots = 0 * inputs.stream, inputs.slots.copy()
    for (place, stream), total in totals.items():
        (mine,) = np.nonzero((inputs.core == place).all(1) & (inputs.stream == stream))
        if mine.size:
            waits[mine] = rng.multinomial(total, np.full(mine.size, 1 / mine.size))
            slots[mine] *= total
    return inputs._replace(waits=waits, slots=slots)


def _program(
    rng: np.random.Generator, shape: NpuShape, place: Place, flows: list[Any], fed: list[Any],
    ports: list[Place],
) -> Program:  # fmt: skip
    writer = Writer(rng, (1 << shape.token_bits) - 1)
    words = rng.integers(0, 6, 8)
    base = int(rng.integers(0, 6))
    writer.add("CTRL", "BASE", LOAD, space=2, value=base)
    writer.add("CTRL", "BASE", STORE, space=1, value=int(rng.integers(0, 32)))
    jobs: list[Any] = []
    for source, target, stream, vectors, credit in flows:
        if target == place:
            jobs.append(("take", stream, vectors, source, credit))
        if source == place:
            jobs.append(("give", stream, vectors, target, credit))
    for target, stream, vectors, port, credits_ in fed:
        if target == place:
            jobs.append(("take", stream, vectors, port, -credits_))
    # inputs before outputs, to avoid circular waits
    jobs.sort(key=lambda job: job[0] == "give")
    for what, stream, vectors, other, credit in jobs:
        _work(rng, writer, base)
        if what == "take":
            first = int(rng.integers(0, vectors + 1))
            for count in (first, vectors - first):
                writer.add("CTRL", "WAIT", LOAD, stream=stream, count=count)
                _work(rng, writer, base)
            queue = int(rng.integers(4))
            where = {"x": other[0], "y": other[1]}
            if credit >= 0:
                writer.add("CTRL", "SEND", queue, stream=credit, count=1, **where)
            else:
                writer.add("CTRL", "SEND", queue, stream=stream, host=1, count=-credit, **where)
        else:
            writer.add("CTRL", "WAIT", STORE, stream=credit, count=1)
            _store(rng, writer, "REMOTE", vectors, {"stream": stream}, other)
    for at in range(int(rng.integers(3))):
        port = ports[int(rng.integers(len(ports)))]
        kind = str(rng.choice(["HOST", "PARTIAL_HOST"]))
        dst = RESULTS + 50 * at + 200 * place[0] + 1000 * place[1]
        fields = {"dst": dst, "x": port[0], "y": port[1]}
        more = {"x_size": 1 + at, "y_size": 1, "c_size": 1, "x_stride": 4}
        writer.add("STORE", kind, STORE, **fields, **more)
    writer.add("CTRL", "END", STORE, drain=1)
    return writer.program(words)


def _store(
    rng: np.random.Generator, writer: Writer, kind: str, vectors: int,
    more: Mapping[str, int], to: Place,
) -> None:  # fmt: skip
    sides = [side for side in range(1, vectors + 1) if vectors % side == 0]
    x_size = int(rng.choice(sides))
    fields = {
        "c_size": 1, "x_size": x_size, "y_size": vectors // x_size, "dst": int(rng.integers(64)),
        "x_stride": int(rng.integers(1, 4)), "y_stride": int(rng.integers(1, 9)),
        "pp": int(rng.integers(0, 3)), "wrap": int(rng.integers(3)), "x": to[0], "y": to[1],
    }  # fmt: skip
    writer.add("STORE", kind, STORE, **fields, **more)


def _work(rng: np.random.Generator, writer: Writer, base: int) -> None:
    """Add some instructions of the units."""
    for _ in range(int(rng.integers(4))):
        size = int(rng.integers(0, 4))
        area = {"x_size": size, "y_size": 1 + size % 2, "c_size": 1, "x_stride": 1}
        which = int(rng.integers(7))
        if which == 0:
            writer.add("LOAD", "INP", LOAD, **area)
        elif which == 1:
            writer.add("ALU", "MOV", ALU, uops=1, n_out=1, n_in=size)
        elif which in (2, 3):
            kind = "LOCAL" if which == 2 else "PARTIAL"
            wide = {"up": int(rng.integers(2)), "y_stride": 16, "dst": int(rng.integers(64))}
            wide["wrap"] = int(rng.integers(3))
            writer.add("STORE", kind, STORE, **{**area, **wide, "c_size": 1 + size % 3})
        elif which == 4:
            unit = int(rng.integers(4))
            writer.add("CTRL", "NOP", unit)
        else:
            if which == 5:
                asked = int(rng.integers(0, 5))
                writer.add("LOAD", "WSTREAM", LOAD, dst=base, words=9 - base if asked else 0)
            dyn = int(rng.integers(2))
            strides = {"wgt_out": int(rng.integers(2)), "wgt_in": int(rng.integers(2))}
            writer.add(
                "GEMM", "INT8", GEMM, uop=int(rng.integers(4)), uops=int(rng.integers(0, 3)),
                n_out=int(rng.integers(0, 3)), n_in=size, dyn=dyn, **strides,
            )  # fmt: skip
