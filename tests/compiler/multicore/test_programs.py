"""Models on several cores give the results of one core, for any placement of their parts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from chipsim.chip.host import ChipHost
from chipsim.chip.model import Chip
from chipsim.npu.mesh.report import chip_report
from chipsim.npu.mesh.run import run_mesh
from hw.npu.isa.encoding import encode_program
from hw.npu.isa.table import Instruction
from mapper.compiler.artifacts.cycles import chip_of, run_frames
from mapper.compiler.artifacts.manifest import CompiledFolder, Target
from mapper.compiler.artifacts.simulate import Compared, simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.ir.node import Pool, Window
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore import spread as module
from mapper.compiler.multicore.areas import Homes, taken_rows
from mapper.compiler.multicore.job import CompileJob, MacroPiece, Made, Whole
from mapper.compiler.multicore.placement import in_order
from mapper.compiler.multicore.slices import can_split_blocks
from mapper.compiler.pipeline import compile_model
from mapper.compiler.program.inputs import Span
from mapper.compiler.program.links import Place
from mapper.compiler.settings import CompileSettings
from mapper.compiler.tiling.tiles import extent_of
from mapper.errors import CheckFailedError, DoesNotFitError
from tests.compiler.codegen.test_binary import BinaryBuilder
from tests.compiler.codegen.test_programs import random_network
from tests.compiler.decoders import random_decoder
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import DUAL, FOUR, REF, SHAPE, folder_of, source_of

pytestmark = pytest.mark.jit
ONE = Window((1, 1), (1, 1))
CHIP = Chip("mesh", 3, 2, unavailable=(4,))


def parted(length: int, rng: np.random.Generator) -> list[Span]:
    cuts = np.unique(np.append(rng.integers(1, length, 2) if length > 1 else [], [0, length]))
    return [Span(int(a), int(b)) for a, b in pairwise(cuts)]


def placed_anywhere(seed: int, job: CompileJob, chip: Chip) -> list[tuple[MacroPiece, Place]]:
    """Split layers randomly, and place the parts on random cores."""
    rng, macros, columns = np.random.default_rng(seed), job.partition.macros, job.shape.columns
    whole = Whole.of(job)
    places = module.usable_places(chip)
    placed: list[tuple[MacroPiece, Place]] = []
    rows = taken_rows(whole, Homes(job.places, columns), columns)
    for number, macro in enumerate(macros):
        extent = extent_of(macro, job.shape)
        units = -(-extent.blocks // extent.share)
        blocks = parted(units, rng) if can_split_blocks(macro) else [Span(0, units)]
        for y in parted(rows[number].size, rng):
            for b in blocks:
                high = Span(y.first + rows[number].first, y.stop + rows[number].first)
                wide = Span(b.first * extent.share, min(b.stop * extent.share, extent.blocks))
                where = places[int(rng.integers(len(places)))]
                placed.append((MacroPiece(number, high, wide), where))
    return placed


def anywhere(seed: int, job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Distribute a model randomly, with one to three host ports."""
    ports = module.usable_places(chip)[: 1 + seed % 3]
    return module.on_cores(job, placed_anywhere(seed, job, chip), ports, log)


def folder(
    build: Builder, settings: CompileSettings, shape: object, chip: Chip = CHIP
) -> CompiledFolder:
    source, samples = source_of(build)
    made = compile_model(source, shape, samples, settings, chip=chip)  # type: ignore[arg-type]
    return folder_of(made, Target(chip, shape, settings))  # type: ignore[arg-type]


def checked(build: Builder, found: CompiledFolder) -> list[Compared]:
    """Check that programs are valid, and compare layers with the reference."""
    verify_compiled(found)
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(2)))
    return simulate(found, samples, threads=1, check=True).compared


def with_program(found: CompiledFolder, place: Place, program: list[Instruction]) -> CompiledFolder:
    """Return a folder in which a core has other instructions."""
    image = found.images[place]._replace(instructions=encode_program(program))
    return found._replace(images={**found.images, place: image})


HOW = CompileSettings(method="minmax", min_signal=-100, max_loss=100)
CASES = {
    "16": (SHAPE, {}),
    "4": (FOUR, {}),
    "dual": (DUAL, {"bits": 16}),
    "windows": (SHAPE, {"few_channels": "core"}),
    "external": (replace(REF, map_vectors=0, instructions=0), {}),
}


@pytest.mark.heavy
@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("network", [random_network, random_decoder])
@pytest.mark.parametrize("seed", range(10))
def test_parts_anywhere(
    seed: int, network: Callable[[int], Builder], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random networks, split and placed randomly: every layer equals the reference.

    The checker accepts the programs, and records regenerate them. The phases of an enlarged map may
    be on different cores.
    """
    shape, settings = CASES[case]
    build = network(seed)
    monkeypatch.setattr("mapper.compiler.pipeline.spread", lambda *a: anywhere(seed, *a))
    try:
        found = folder(deepcopy(build), replace(HOW, **settings), shape)  # type: ignore[arg-type]
    except DoesNotFitError as error:
        pytest.skip(str(error))
    layers = checked(build, found)
    assert [one.differences for one in layers] == [0] * len(layers)
    assert sum(one.elements for one in layers) > 0


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_residual_sums_and_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.compiler.pipeline.spread", lambda *a: anywhere(5, *a))
    build = residual(3, channels=40)
    assert {one.differences for one in checked(build, folder(deepcopy(build), HOW, SHAPE))} == {0}
    binary = BinaryBuilder(9, 8, 17, 3)
    first = binary.sign(binary.normalised(binary.conv(binary.input, 130), 1.0))
    binary.end(binary.binary(first, 21, alpha=False))
    found = folder(deepcopy(binary), HOW, SHAPE)
    assert {one.differences for one in checked(binary, found)} == {0}


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("cores", [None, 2])
def test_the_mapper_places_the_parts_of_the_search(cores: int | None) -> None:
    """All cores of the chip, or some; the log describes the split."""
    build = residual(3, channels=40)
    found = folder(deepcopy(build), replace(HOW, cores=cores), SHAPE)
    assert 1 < len(found.images) <= (cores or CHIP.usable_count)
    assert {one.differences for one in checked(build, found)} == {0}


def test_parts_in_their_order() -> None:
    """Row by row, or in alternating direction, around unusable cores."""
    groups = np.array([0, 0, 1, 2, 3, 4, 4])
    chip = Chip("mesh", 3, 3, unavailable=(1, 4))
    assert in_order(groups, chip, False).tolist() == [0, 0, 2, 3, 5, 6, 6]
    assert in_order(groups, chip, True).tolist() == [0, 0, 2, 5, 3, 6, 6]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.parametrize("cores", [None, 3, 1])
def test_ports_of_the_host(cores: int | None) -> None:
    """N10.5: host traffic uses the nearest port; few cores are placed at ports first."""
    build = residual(3, channels=40)
    chip = replace(CHIP, host=ChipHost(ports=(5, 0), latency=7, flits=0.5))
    found = folder(deepcopy(build), replace(HOW, cores=cores), SHAPE, chip)
    assert {one.differences for one in checked(build, found)} == {0}
    if cores == 1:
        assert list(found.images) == [(2, 1)] and found.manifest["ports"] == []
        return
    assert found.manifest["ports"] == [[2, 1], [0, 0]]
    run = chip_of(found)
    assert run.link == (7, 0.5)
    sent = {port.place: port.inputs.vector.size for port in run.hosts}
    assert sum(sent.values()) > 0
    for program, port in run.ports.items():
        hops = [abs(program[0] - x) + abs(program[1] - y) for x, y in ((2, 1), (0, 0))]
        assert port == ((2, 1), (0, 0))[hops[1] < hops[0]]
    report = chip_report(run, run_mesh(run, 4))
    assert report.period is not None and report.links.sum() > 0


DAMAGE = {
    "counts": ("CTRL.WAIT", "count", "per frame, .* are consumed"),
    "stream": ("STORE.REMOTE", "stream", "stream"),
    "address": ("STORE.REMOTE", "dst", "core_"),
    "credit": ("CTRL.SEND", "stream", "core_"),
}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_exchange_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed count, stream, address or credit: the checker names the program."""
    monkeypatch.setattr("mapper.compiler.pipeline.spread", lambda *a: anywhere(2, *a))
    found = folder(residual(3, channels=20), HOW, SHAPE)
    name, field, text = DAMAGE[kind]
    broken = 0
    for place, image in found.images.items():
        program = image.decoded()
        for number, one in enumerate(program):
            if f"{one.op}.{one.kind}" == name and broken <= 5:
                changed = one._replace(fields={**one.fields, field: one.fields[field] ^ 1})
                damaged = [*program[:number], changed, *program[number + 1 :]]
                with pytest.raises(CheckFailedError, match=text):
                    verify_compiled(with_program(found, place, damaged), made=True)
                broken += 1
    assert broken


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_a_stream_is_waited_for_in_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mapper.compiler.pipeline.spread", lambda *a: anywhere(2, *a))
    found = folder(residual(3, channels=20), HOW, SHAPE)
    place, image = next(iter(found.images.items()))
    program = image.decoded()
    waits: dict[int, list[int]] = {}
    for number, one in enumerate(program):
        if (one.op, one.kind) == ("CTRL", "WAIT"):
            waits.setdefault(one.fields["stream"], []).append(number)
    last = next(numbers[-1] for numbers in waits.values() if len(numbers) > 1)
    fields = program[last].fields
    program[last] = program[last]._replace(fields={**fields, "queue": fields["queue"] ^ 1})
    with pytest.raises(CheckFailedError, match=r"waits for stream \d+, but so does \w+"):
        verify_compiled(with_program(found, place, program), made=True)


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_weights_too_large_for_all_cores_are_streamed() -> None:
    """A layer whose weights exceed the memories of all cores: the host streams them to every
    core."""
    build = Builder(6, 6, 16, 3)
    build.end(build.conv(build.conv(build.input, 32), 96, Window((6, 6))))
    small = replace(SHAPE, name="small", weight_words=24)
    found = folder(deepcopy(build), HOW, small, Chip("pair", 2, 1))
    assert len(found.images) == 2 and len(found.weights) > 0
    assert {one.differences for one in checked(build, found)} == {0}


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_model_too_large_for_the_chip_names_the_memory() -> None:
    small = replace(SHAPE, name="small", map_vectors=64)
    with pytest.raises(DoesNotFitError, match=r"feature memory: .* vectors, 2 cores have 128"):
        folder(residual(3, channels=64), HOW, small, Chip("pair", 2, 1))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_frames_start_with_the_same_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that reads pairs of pixels last: without the reset the second frame differs."""
    monkeypatch.setattr("mapper.compiler.pipeline.spread", _together)
    build = Builder(8, 8, 20, seed=3)
    build.end(build.conv(build.pool(build.input, Pool("max", Window((1, 2), (1, 1)))), 16))
    found = folder(deepcopy(build), replace(HOW, dual="pixels"), DUAL)
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(3)))
    assert run_frames(found, samples, 3).bytes > 0
    ((place, image),) = found.images.items()
    program = image.decoded("out")
    last, reset = [n for n, one in enumerate(program) if _is_distance(one)][-2:]
    program[reset] = program[last]
    with pytest.raises(CheckFailedError, match="results of frame 1 differ from its results alone"):
        run_frames(with_program(found, place, program), samples, 3)


def _together(job: CompileJob, chip: Chip, log: CompileLog) -> Made:
    """Put all layers, as a whole, on one of several cores."""
    place = module.usable_places(chip)[0]
    placed = []
    for number, macro in enumerate(job.partition.macros):
        extent = extent_of(macro, job.shape)
        placed.append((MacroPiece(number, Span(0, extent.rows), Span(0, extent.blocks)), place))
    return module.on_cores(job, placed, [place], log)


def _is_distance(one: Instruction) -> bool:
    return one.kind == "DIST" and one.fields["queue"] == 0


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_weights_fill_the_cores() -> None:
    """Parts that take little time fill up a core; the host sends only weights that do not fit."""
    build = Builder(16, 16, 16, seed=1)
    tensor = build.pool(build.conv(build.input, 16), Pool("max", Window((16, 16), (16, 16))))
    for _ in range(5):
        tensor = build.relu(build.conv(tensor, 64, ONE))
    build.end(tensor)
    # 9 + 4 + 4 * 16 = 77 words on two cores, in blocks of four
    streams = []
    for words in (40, 39, 24):
        shape = replace(SHAPE, weight_words=words)
        found = folder(deepcopy(build), replace(HOW, cores=2), shape)
        assert {one.differences for one in checked(build, found)} == {0}
        programs = [image.decoded("out") for image in found.images.values()]
        streams.append(["WSTREAM" in {one.kind for one in program} for program in programs])
    assert streams[0] == [False, False]
    assert all(map(any, streams[1:]))


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_busy_port_of_the_host_has_its_own_node() -> None:
    """With a core there, the port takes 674 flits per frame; the host alone sends 512."""
    build = Builder(16, 16, 16, seed=1)
    build.end(build.conv(build.conv(build.input, 16, ONE), 16, ONE))
    found = folder(deepcopy(build), HOW, SHAPE, Chip("nine", 3, 3))
    assert found.manifest["ports"] == [[0, 0]]
    assert len(found.images) > 2 and (0, 0) not in found.images
    report = run_frames(found, None, 20).report
    assert report.bound.cycles < 530 and report.period is not None and report.period < 550
    assert {one.differences for one in checked(build, found)} == {0}
