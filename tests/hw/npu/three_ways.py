"""Random legal programs on reference, simulators and the core in Amaranth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import numpy as np

from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.arrivals import HostLink
from chipsim.npu.core_run import run_core
from chipsim.npu.execute import NpuChip
from chipsim.npu.records import KINDS, STREAMS, Op, Program
from hw.npu.core_run import Credit, Ints, Link, lanes_of
from hw.npu.isa.encoding import encode_micro_op
from hw.npu.isa.table import UNITS, Instruction, MicroOp
from tests.chipsim.npu.programs import Case, host_words, random_case
from tests.hw.npu.core_bench import Observed
from tests.hw.npu.programs import one_by_one, side_by_side, simulated, unit_of, with_products
from tests.reference.npu import FaultError, Twin

STEPS = 10
"""Random instructions per program, without the ones they require."""
RATES = (1, 2, 4, 1, 2, 4, 1, 16)
"""Cycles per flit from the host."""
HERE = (0, 0)
TO_CORES = ("WAIT", "SEND")
MARGIN = 64
"""Extra cycles of the hardware before a run is aborted."""


class Wanted(NamedTuple):
    """A program with the results of reference and simulators.

    counted : initial stream counts
    memories, host, credits, start, end : as observed by the bench
    """

    seed: int
    case: Case
    instructions: list[Instruction]
    odd: bool
    link: Link
    counted: list[int]
    memories: dict[str, Ints]
    host: list[tuple[int, list[int]]]
    credits: list[Credit]
    start: list[int]
    end: list[int]


def programs_from(shape: NpuShape, first: int, count: int) -> Iterator[Wanted]:
    """Yield legal programs of the seeds after `first`.

    Programs that address outside a memory in the reference are skipped.
    """
    seed = first
    while count:
        seed += 1
        case = case_of(shape, seed)
        twin = case.twin()
        twin.odd = bool(seed % 2)
        try:
            twin.run(case.steps)
        except FaultError:
            continue
        count -= 1
        yield _wanted(seed, case, twin)


def case_of(shape: NpuShape, seed: int) -> Case:
    """Return a program, legal or not."""
    case = with_products(random_case(shape, seed, STEPS, False), seed)
    return with_streams(with_tables(with_numbers(case, seed), seed), seed)


def with_numbers(case: Case, seed: int) -> Case:
    """Fill inputs and accumulators at the start."""
    random = Random(seed)
    area = {"c_size": 1, "y_size": 1, "x_stride": 1}
    steps = [
        ("LOAD", "INP", {**area, "x_size": 12, "src": random.randrange(64)}),
        ("LOAD", "ACC8", {**area, "x_size": 12, "src": random.randrange(64)}),
        ("LOAD", "ACC32", {**area, "dst": random.randrange(16), "x_size": 6}),
    ]
    return replace(case, steps=[*steps, *case.steps])


def with_tables(case: Case, seed: int) -> Case:
    """Reload micro-ops or headers from the end of the maps, before all other instructions."""
    random, shape = Random(seed), case.shape
    vectors = -(-8 // shape.columns)
    vectors *= random.randrange(1, 4)
    words = vectors * shape.columns // 8
    first = shape.map_vectors - vectors
    if seed % 2:
        dst = random.randrange(shape.micro_ops - words)
        rows = random.choices(case.table["micro_ops"].tolist(), k=words)
        data = b"".join(encode_micro_op(MicroOp(*row)) for row in rows)
        memory = 0
    else:
        dst, memory = random.randrange(shape.headers // 2, shape.headers - words), 2
        data = random.randbytes(8 * words)
    case.table["maps"][first:] = np.frombuffer(data, np.uint8).reshape(vectors, -1)
    fields = {"dst": dst, "src": first, "vectors": vectors, "memory": memory}
    return replace(case, steps=[("LOAD", "TABLE", fields), *case.steps])


def with_streams(case: Case, seed: int) -> Case:
    """Add WAITs for at most the initial stream counts, and SENDs of credits to the host."""
    random, left = Random(seed), counted_before(seed)
    steps = list(case.steps)
    for _ in range(3):
        stream = random.randrange(STREAMS)
        fields = {"queue": random.randrange(len(UNITS)), "stream": stream}
        if random.random() < 0.5:
            count = random.randrange(left[stream] + 1)
            left[stream] -= count
            step: Any = ("CTRL", "WAIT", {**fields, "count": count})
        else:
            more = {"x": random.randrange(64), "y": random.randrange(64), "host": 1}
            step = ("CTRL", "SEND", {**fields, **more, "count": random.randrange(1, 1 << 16)})
        steps.insert(random.randrange(len(steps) + 1), step)
    return replace(case, steps=steps)


def with_more_tokens(instructions: list[Instruction], random: Random) -> list[Instruction]:
    """Add tokens that nothing consumes, which END clears."""
    waits: list[set[int]] = [set() for _ in UNITS]
    for each in instructions:
        waits[unit_of(each)] |= {unit for unit in range(len(UNITS)) if each.wait >> unit & 1}
    found = list(instructions)
    for unit, taken in enumerate(waits):
        for other in set(range(len(UNITS))) - taken:
            mine = [at for at, each in enumerate(found) if unit_of(each) == other]
            if mine and random.random() < 0.5:
                at = random.choice(mine)
                found[at] = found[at]._replace(signal=found[at].signal | 1 << unit)
    return found


def counted_before(seed: int) -> list[int]:
    random = Random(~seed)
    return [random.choice((0, 1, random.randrange(1 << 16))) for _ in range(STREAMS)]


def _wanted(seed: int, case: Case, twin: Twin) -> Wanted:
    """Return the simulators' results; raise `AssertionError` if the reference differs."""
    shape, odd = case.shape, bool(seed % 2)
    instructions = one_by_one(case) if seed % 3 == 0 else side_by_side(case, odd)
    instructions = with_more_tokens(instructions, Random(seed))
    program = simulated(case, instructions)
    weights, counted = host_words(shape), counted_before(seed)
    link = Link(1 + seed % 20, Fraction(1, RATES[seed % len(RATES)]), weights=weights)
    frame = NpuChip(shape, {HERE: program}, {HERE: counted}, weights).frame()
    frame.run(odd)
    memories = frame.memory(HERE)
    plain = _plain(case, twin, counted)
    for name, values in memories.items():
        assert np.array_equal(values, plain[name]), (seed, name)
    addresses, vectors = frame.host(HERE)
    host = list(zip(addresses.tolist(), vectors.tolist(), strict=True))
    assert host == [(at, list(vector)) for at, vector in twin.host], seed
    times = run_core(shape, _alone(program), HostLink(link.latency, float(link.flits)))
    credits = [
        Credit(*(each.fields[name] for name in Credit._fields))
        for each in instructions
        if each.kind == "SEND"
    ]
    sent = [sum(one.count for one in credits if one.stream == at) for at in range(STREAMS)]
    assert frame.credits(HERE).tolist() == sent, seed
    return Wanted(
        seed, case, instructions, odd, link, counted, plain, host, credits,
        times.start.tolist(), times.end.tolist(),
    )  # fmt: skip


def _plain(case: Case, twin: Twin, counted: list[int]) -> dict[str, Ints]:
    """Return all memories of the reference, and the final stream counts."""
    left = list(counted)
    for _, kind, fields in case.steps:
        if kind == "WAIT":
            left[fields["stream"]] -= fields["count"]
    micro_ops = [encode_micro_op(MicroOp(*row)) for row in twin.micro_ops]
    headers = [int(each).to_bytes(8, "little") for each in twin.headers]
    rows = case.shape.rows
    cells = {
        "FM": twin.maps, "INP": twin.inputs, "ACC": twin.sums, "OUT": twin.results,
        "WM": np.array(list(twin.weights)).reshape(-1, rows), "PM": twin.parameters,
        "streams": left, "tokens": [0] * len(UNITS) ** 2,
        "UM": [lanes_of(int.from_bytes(each, "little"), 2, 32) for each in micro_ops],
        "HM": [lanes_of(int.from_bytes(each, "little"), 2, 32) for each in headers],
    }  # fmt: skip
    return {name: np.array(list(values), np.int64) for name, values in cells.items()}


def _alone(program: Program) -> Program:
    """Replace instructions for other cores by NOPs.

    They take as long as a NOP: WAIT has its counts, and the router is always ready.
    """
    kinds = KINDS[Op.CTRL]
    other = np.isin(program.kind, [kinds.index(name) for name in TO_CORES])
    kind = np.where((program.op == Op.CTRL) & other, kinds.index("NOP"), program.kind)
    return program._replace(kind=kind.astype(np.uint8))


def observe(bench: Any, wanted: Wanted, waits: float = 0.0) -> Observed:
    """waits : share of cycles in which the router is busy"""
    most = 20 * max(wanted.end) if waits else max(wanted.end) + MARGIN
    link = wanted.link._replace(waits=waits)
    return bench.run(wanted.instructions, wanted.case.table, wanted.odd, link, wanted.counted, most)


def values_that_differ(found: Observed, wanted: Wanted) -> list[str]:
    """Return the names of memories, and of outputs, that differ."""
    names = [
        name
        for name, values in wanted.memories.items()
        if not np.array_equal(values, found.memories[name])
    ]
    if found.host != wanted.host:
        names.append("host")
    # Queues send in parallel.
    if sorted(found.credits) != sorted(wanted.credits):
        names.append("credits")
    return names


def difference(bench: Any, wanted: Wanted) -> str | None:
    """Return the first difference of hardware and simulators as a line, or None."""
    found = observe(bench, wanted)
    if names := values_that_differ(found, wanted):
        return f"seed {wanted.seed}: {', '.join(names)}"
    both = zip(found.start, wanted.start, found.end, wanted.end, wanted.instructions, strict=True)
    for at, (start, its, end, ends, one) in enumerate(both):
        if (start, end) != (its, ends):
            return (
                f"seed {wanted.seed}: instruction {at} ({one.op}.{one.kind}) is at work in cycles "
                f"{start} to {end}, not {its} to {ends}"
            )
    return None
