"""Models on several cores that keep some columns of their feature maps."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import run_mesh
from hw.npu.isa.table import UNITS, Instruction
from mapper.compiler.artifacts.cycles import chip_of, run_frames
from mapper.compiler.artifacts.manifest import CompiledFolder
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Add, Pool, Upsample, Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore import plan, room, search, spread
from mapper.compiler.multicore.job import CompileJob, Made, Whole
from mapper.compiler.multicore.line_buffers.lines import lines_of
from mapper.compiler.multicore.line_buffers.rings import Access, TiledPart, ring_needs, sequence
from mapper.compiler.pipeline import compile_model
from mapper.compiler.program.inputs import Span
from mapper.compiler.settings import CompileSettings
from mapper.errors import CheckFailedError, DoesNotFitError
from tests.compiler.multicore.overwrites import overwrites
from tests.compiler.multicore.test_programs import (
    CHIP,
    HOW,
    checked,
    folder,
    placed_anywhere,
    with_program,
)
from tests.compiler.networks import SAME, Builder, residual
from tests.compiler.programs import DUAL, SHAPE, source_of

pytestmark = pytest.mark.jit
FEW_WORDS = replace(SHAPE, name="few", weight_words=20)
"""A core that receives most weights from the host in every frame."""
CASES = {"8": (SHAPE, 8, CHIP), "16": (DUAL, 16, CHIP), "streamed": (FEW_WORDS, 8, CHIP)}


def in_lines(seed: int, job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Distribute a model randomly, all parts with line buffers."""
    places = spread.usable_places(chip)
    lines = lines_of(Whole.of(job), job.shape, len(places))
    placed = placed_anywhere(seed, job, chip)
    return spread.on_cores(job, placed, places[: 1 + seed % 3], log, lines)


def network(seed: int) -> Builder:
    """Build a random network for a wide image: strides, pooling, branches, sums, upsampling."""
    rng = np.random.default_rng(seed)
    build = Builder(int(rng.integers(3, 9)), int(rng.integers(40, 110)), 16, seed)
    data = build.input
    for _ in range(int(rng.integers(2, 5))):
        channels = int(rng.choice([5, 16, 20, 40]))
        kind = int(rng.integers(6))
        if kind == 0:
            data = build.relu(build.conv(data, channels))
        elif kind == 1:
            window = Window(
                (1, 5), (1, int(rng.integers(1, 4))), Pad(0, 0, 2, int(rng.integers(3)))
            )
            data = build.conv(data, channels, window)
        elif kind == 2:
            window = Window((min(2, data.height), 2), (1, 2))
            data = build.pool(build.relu(build.conv(data, channels)), Pool("max", window))
        elif kind == 3:
            made = build.conv(build.relu(build.conv(data, data.channels)), data.channels)
            data = build.relu(build.like(Add(), made, data))
        elif kind == 4:
            near, far = build.conv(data, 16, Window((1, 1))), build.conv(data, 16)
            data = build.concat(near, build.conv(far, 32))
        else:
            made = build.relu(build.conv(data, 16))
            shape = (2 * made.height, 2 * made.width, 16)
            data = build.node(Upsample(2, 2), [made], shape)
    build.end(build.conv(data, 16, SAME))
    return build


def made_of(
    build: Builder, seed: int, patch: pytest.MonkeyPatch,
    case: tuple[NpuShape, int, Chip] = CASES["8"], slack: float = 0.0,
) -> CompiledFolder:  # fmt: skip
    """Compile a network with line buffers.

    case : core, bits and chip
    slack : columns of rings beyond the sequence of tiles, in steps of producer and consumer
    """
    shape, bits, chip = case
    patch.setattr(plan, "SLACKS", (slack,))
    patch.setattr("mapper.compiler.pipeline.spread", lambda *a: in_lines(seed, *a))
    try:
        return folder(deepcopy(build), replace(HOW, bits=bits), shape, chip)  # type: ignore[arg-type]
    except DoesNotFitError as error:
        pytest.skip(str(error))


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(20))
def test_random_networks(seed: int, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer equals the reference, the checker accepts the programs, records regenerate them,
    and frames that overlap on the mesh neither block each other nor change a byte."""
    build = network(seed)
    found = made_of(build, seed, monkeypatch, CASES[case], slack=(0.0, 0.5, 3.0)[seed % 3])
    layers = checked(build, found)
    assert [one.differences for one in layers] == [0] * len(layers)
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(3)))
    assert run_frames(found, samples, 3).bytes > 0


@pytest.mark.heavy
def test_the_search_streams_weights() -> None:
    """Neither the feature maps nor the weights fit: both are kept in part."""
    build = Builder(6, 150, 16, 3)
    hidden = build.relu(build.conv(build.input, 32))
    build.end(build.conv(build.relu(build.conv(hidden, 32)), 48))
    small = replace(FEW_WORDS, name="small", map_vectors=640)
    found = folder(deepcopy(build), HOW, small, Chip("pair", 2, 1))
    layers = checked(build, found)
    assert [one.differences for one in layers] == [0] * len(layers)
    assert len(found.weights) > 0
    with pytest.raises(DoesNotFitError, match="feature memory: inputs of layers need"):
        folder(deepcopy(build), HOW, replace(small, map_vectors=96), Chip("pair", 2, 1))


def test_pixels_with_several_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map whose pixels hold two columns is half as wide as the map that a layer reads."""
    build = Builder(6, 40, 64, 3)
    narrow = build.relu(build.conv(build.input, 8, Window((1, 1))))
    build.end(build.conv(build.relu(build.conv(narrow, 16, SAME)), 16, SAME))
    seen: list[int] = []

    def spread_(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
        seen.extend(one.columns for one in job.places.values())
        return in_lines(3, job, chip, log)

    monkeypatch.setattr("mapper.compiler.pipeline.spread", spread_)
    found = folder(deepcopy(build), HOW, SHAPE, CHIP)
    assert 2 in seen
    layers = checked(build, found)
    assert [one.differences for one in layers] == [0] * len(layers)


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_rings_have_fewer_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """More columns than the sequence needs let producers run ahead."""
    build = Builder(8, 100, 16, 3)
    data = build.input
    for _ in range(3):
        data = build.relu(build.conv(data, 16))
    build.end(data)
    periods = []
    for slack in (0.0, 2.0):
        found = made_of(build, 3, monkeypatch, slack=slack)
        rings = [one for one in found.manifest["maps"] if "ring" in one]
        assert len(rings) > 4
        assert slack or max(one["ring"] for one in rings) < 60
        chip = chip_of(found)
        periods.append(chip_report(chip, run_mesh(chip, 4)).mean)
    assert periods[1] < periods[0]


DAMAGE = {
    "credit": ("CTRL.SEND", "count", "credit"),
    "wait": ("CTRL.WAIT", "count", "stream"),
    "load wrap": ("LOAD.INP", "wrap", "not part of a feature map"),
    "store wrap": (
        "STORE.REMOTE",
        "wrap",
        "credit|writes|never written|counts vectors that others",
    ),
}


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Builder(8, 100, 16, 1)
    build.end(build.conv(build.relu(build.conv(build.input, 16)), 16))
    found = made_of(build, 1, monkeypatch)
    name, field, text = DAMAGE[kind]
    broken = 0
    for place, image in found.images.items():
        program = image.decoded()
        for number, one in enumerate(program):
            if f"{one.op}.{one.kind}" != name or not one.fields.get(field) or broken > 5:
                continue
            value = one.fields[field] - 1
            changed = one._replace(fields={**one.fields, field: value})
            broken += 1
            with pytest.raises(CheckFailedError, match=text):
                verify_compiled(with_program(found, place, _with(program, number, changed)), True)
    assert broken


def _with(program: list[Instruction], number: int, one: Instruction) -> list[Instruction]:
    return [*program[:number], one, *program[number + 1 :]]


@pytest.mark.heavy
@pytest.mark.sample(1)
def test_early_credits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A credit before the last load of its columns: a sender could overwrite them."""
    build = Builder(8, 100, 16, 1)
    build.end(build.conv(build.relu(build.conv(build.input, 16)), 16))
    found = made_of(build, 1, monkeypatch)
    broken = 0
    for place, image in found.images.items():
        program = image.decoded()
        sends = [at for at, one in enumerate(program) if one.kind == "SEND"]
        for at in sends[1:3]:
            moved = [one for number, one in enumerate(program) if number != at]
            moved.insert(0, program[at])
            with pytest.raises(CheckFailedError, match="credit"):
                verify_compiled(with_program(found, place, moved), True)
            broken += 1
    assert broken


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("sender", ["core", "host"])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_late_waits_are_found(seed: int, sender: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same credits are consumed, but some of them later: the checker refuses each program in
    which a sender may then overwrite columns that are still read."""
    build = network(seed)
    found = made_of(build, seed, monkeypatch)
    assert not overwrites(found)
    damaged = list((_late_host if sender == "host" else _late_cores)(found))
    early = [one for one in damaged if overwrites(one)]
    assert early
    assert all(map(_is_refused, early))


def _is_refused(found: CompiledFolder) -> bool:
    try:
        verify_compiled(found, True)
    except CheckFailedError as error:
        assert "without a credit" in str(error)
        return True
    return False


def _late_cores(found: CompiledFolder) -> Iterator[CompiledFolder]:
    """Yield folders in which a core consumes a credit of a later wait."""
    for place, image in found.images.items():
        program = image.decoded()
        waits: dict[int, list[int]] = {}
        for at, one in enumerate(program):
            if one.kind == "WAIT" and one.fields.get("queue") == UNITS.index("STORE"):
                waits.setdefault(one.fields.get("stream", 0), []).append(at)
        for numbers in waits.values():
            for first, second in islice(pairwise(numbers), 2):
                yield with_program(found, place, _moved(program, first, second))


def _moved(program: list[Instruction], first: int, second: int) -> list[Instruction]:
    """Return a program with one credit moved from a wait to another one."""
    for number, change in ((first, -1), (second, 1)):
        fields = program[number].fields
        one = program[number]._replace(fields={**fields, "count": fields["count"] + change})
        program = _with(program, number, one)
    return program


def _late_host(found: CompiledFolder) -> Iterator[CompiledFolder]:
    """Yield folders in which the host consumes a credit of a later run of vectors."""
    manifest = deepcopy(found.manifest)
    for core in manifest["cores"]:
        for one in core["brought"]:
            waits = one.get("waits", [])
            numbers = [at for at, count in enumerate(waits) if count]
            for first, second in islice(pairwise(numbers), 2):
                one["waits"] = list(waits)
                one["waits"][first] -= 1
                one["waits"][second] += 1
                yield found._replace(manifest=deepcopy(manifest))
                one["waits"] = waits


def test_sequence_and_needs_by_hand() -> None:
    """A 3-column window over 6 columns: the first layer runs two columns ahead."""
    first = TiledPart(0, [], [])
    second = TiledPart(1, [], [])
    for at in range(6):
        first.reads.append([Access("x", Span(at, at + 1), "x on 0")])
        first.writes.append([Access("y", Span(at, at + 1))])
        second.reads.append([Access("y", Span(max(0, at - 1), min(6, at + 2)), "y on 1")])
        second.writes.append([Access("z", Span(at, at + 1))])
    ready = {"x": (1 + np.arange(6)) / 6, "y": np.zeros(6), "z": np.zeros(6)}
    order = sequence([first, second], ready)
    found = list(zip(order.part.tolist(), order.tile.tolist(), strict=True))
    assert found == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (0, 3), (1, 2), (0, 4), (1, 3),
                     (0, 5), (1, 4), (1, 5)]  # fmt: skip
    needs = ring_needs([first, second], order, {"x on 0": 6, "y on 1": 6}, frozenset(["x"]))
    assert needs["x on 0"].least == 1
    assert needs["y on 1"].least == 3


def test_whole_maps_fit_where_a_part_of_typical_size_has_no_tile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a convolution of windows with a pooling after it, cut in the middle."""

    def refused(*_: object, **__: object) -> None:
        raise DoesNotFitError("not even one pixel fits")

    for module in (room, search):
        monkeypatch.setattr(module, "lines_of", refused)
    source, samples = source_of(residual())
    how, chip = CompileSettings(method="minmax", min_signal=-100), Chip("mesh", 2, 2)
    shape = replace(SHAPE, map_vectors=256)  # the check of the demand skips smaller models
    assert len(compile_model(source, shape, samples, how, chip=chip).codes) > 1
