"""The C interpreter leaves the memories of the simulator, for random programs."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.errors import ChipError
from chipsim.npu.execute import NpuChip
from hw.npu.isa.encoding import encode_micro_ops, encode_program
from hw.npu.isa.table import Instruction, MicroOp
from mapper.compiler.artifacts.cdriver.hoststeps import driver_of
from mapper.compiler.artifacts.cdriver.writer import Sources, program_header, write_driver
from mapper.compiler.artifacts.simulate import Digest, simulate
from mapper.compiler.ir.node import Window
from mapper.compiler.ir.tensor import Pad
from mapper.compiler.program.image import Image
from tests.chipsim.npu.programs import SHAPES, Case, host_words, random_case
from tests.compiler.codegen.test_binary import BinaryBuilder
from tests.compiler.networks import Builder
from tests.compiler.programs import DUAL, Made
from tests.compiler.programs import compiled as compiled_network

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
STRICT = ("-O2", "-Wall", "-Werror", "-std=c99", "-pedantic")
CASES = 40

needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")

DUMP = """\
#include "driver.c"
int main(void)
{
    npu_reset(ODD);
    npu_run(0);
    fwrite(memories, sizeof memories, 1, stdout);
    fwrite(npu_sent, sizeof *npu_sent, (size_t)npu_sent_count, stdout);
    return 0;
}
"""


def image_of(case: Case) -> Image:
    """Return a random program as loaded, with an end."""
    steps = [Instruction(op, kind, 0, 0, fields) for op, kind, fields in case.steps]
    micro_ops = [MicroOp(*map(int, row)) for row in case.table["micro_ops"]]
    return Image(
        {"preset": [[0, len(case.table["maps"])]]},
        encode_program([*steps, Instruction("CTRL", "END")]),
        encode_micro_ops(micro_ops),
        case.table["weights"],
        case.table["parameters"],
        case.table["headers"].astype("<u8").tobytes(),
        case.table["maps"],
    )


def memory_type(case: Case) -> np.dtype[Any]:
    """Return `struct memory` of driver.c."""
    shape = case.shape
    rows, columns = shape.rows, shape.columns
    return np.dtype(
        [
            ("FM", np.int8, (shape.map_vectors, columns)),
            ("INP", np.int16, (shape.input_vectors, columns)),
            ("ACC", np.int64, (shape.entries, rows)),
            ("OUT", np.int16, (shape.entries, columns)),
            ("WM", np.int8, (shape.weight_words, rows, columns)),
            ("PM", np.int32, (shape.parameter_words, 16)),
            ("UM", np.uint32, (shape.micro_ops, 2)),
            ("HM", np.uint32, (max(1, shape.headers), 2)),
            ("base", np.int64, 3),
            ("distance", np.int64, 4),
            ("streams", np.int64, 16),
            ("next", np.int32),
        ],
        align=True,
    )


def compiled(folder: Path, *sources: str) -> Path:
    """Compile C sources to a program; warnings are errors."""
    assert CC is not None
    made = folder / "program"
    command = [CC, *STRICT, *(str(folder / name) for name in sources), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return made


def runnable(shape_name: str, count: int) -> tuple[list[Case], list[dict[str, NDArray[Any]]]]:
    """Return random programs that complete, and their memories in the simulator."""
    cases: list[Case] = []
    wanted = []
    seed = 0
    while len(cases) < count:
        case = random_case(SHAPES[shape_name], 1000 + seed, 12, False)
        seed += 1
        chip = NpuChip(case.shape, {(0, 0): case.program()}, host_weights=host_words(case.shape))
        frame = chip.frame()
        try:
            frame.run(odd=True)
        except ChipError:
            continue
        cases.append(case)
        addresses, vectors = frame.host((0, 0))
        wanted.append({**frame.memory((0, 0)), "addresses": addresses, "vectors": vectors})
    return cases, wanted


@pytest.mark.heavy
@pytest.mark.sample(1)
@needs_cc
@pytest.mark.jit
@pytest.mark.parametrize("name", list(SHAPES))
def test_random_programs_leave_the_memories_of_the_simulator(name: str, tmp_path: Path) -> None:
    """D11: all programs together, each on its own core; they cover every instruction."""
    cases, wanted = runnable(name, CASES)
    places = [(number % 16, number // 16) for number in range(CASES)]
    images = {place: image_of(case) for place, case in zip(places, cases, strict=True)}
    begins = {place: [0] for place in places}
    write_driver(tmp_path, Sources(cases[0].shape, images, begins, host_words(cases[0].shape)))
    (tmp_path / "dump.c").write_text(DUMP.replace("ODD", "1"))
    found = subprocess.run([compiled(tmp_path, "dump.c")], capture_output=True, check=True).stdout
    kind = memory_type(cases[0])
    cores = np.frombuffer(found, kind, CASES)
    columns = cases[0].shape.columns
    sent_type = np.dtype(
        [("core", np.int32), ("address", np.int64), ("vector", np.int8, columns)], align=True
    )
    sent = np.frombuffer(found, sent_type, offset=CASES * kind.itemsize)
    kinds = {step[:2] for case in cases for step in case.steps}
    assert len(kinds) > 24 and {("RQ", "LOOKUP"), ("ALU", "MUL")} <= kinds, sorted(kinds)
    for number, memories in enumerate(wanted):
        for memory in ("FM", "INP", "ACC", "OUT"):
            got = cores[memory][number].astype(np.int64)
            assert np.array_equal(got, memories[memory]), (number, memory, cases[number].steps)
        mine = sent[sent["core"] == number]
        # in any order: the hardware sends pixel by pixel, the simulator copy by copy
        pairs = [
            sorted(zip(addresses.tolist(), vectors.tolist(), strict=True))
            for addresses, vectors in (
                (mine["address"], mine["vector"]),
                (memories["addresses"], memories["vectors"]),
            )
        ]
        assert pairs[0] == pairs[1]


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
def test_endless_wait_names_core_and_instruction(tmp_path: Path) -> None:
    case = random_case(SHAPES["tiny"], 0, 1, False)
    case.steps[:] = [("CTRL", "NOP", {}), ("CTRL", "WAIT", {"stream": 3, "count": 1})]
    sources = Sources(case.shape, {(2, 1): image_of(case)}, {(2, 1): [0]}, host_words(case.shape))
    write_driver(tmp_path, sources)
    (tmp_path / "dump.c").write_text(DUMP.replace("ODD", "0"))
    done = subprocess.run([compiled(tmp_path, "dump.c")], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "core (2, 1): instruction 1: deadlock: the awaited stream never arrives\n"


def test_the_header_has_every_field_once() -> None:
    """isa.h is generated from the instruction table: moved fields move along."""
    case = random_case(SHAPES["tiny"], 0, 1, False)
    text = program_header(
        Sources(case.shape, {(0, 0): image_of(case)}, {(0, 0): [0]}, host_words(case.shape))
    )
    assert "#define MAP_VECTORS 256" in text
    assert "-2147483648" not in text


def require_same_results(build: Builder, made: Made, kind: str, folder: Path) -> None:
    """The driver writes the results of the simulator, and prints the same hash."""
    write_driver(folder, driver_of(made.folder))
    samples = np.ascontiguousarray(build.graph.inputs["x"].array(build.samples(3)))
    samples.tofile(folder / "input")
    command = [compiled(folder, "main.c", "driver.c"), folder / "input", folder / "output"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    outcome = simulate(made.folder, samples, threads=1, check=False)
    (stored,) = outcome.stored.values()
    assert (folder / "output").read_bytes() == stored.astype(kind).tobytes()
    digest = Digest(made.folder)
    digest.add(outcome)
    assert done.stdout.split() == [digest.text]
    assert digest.text == hashlib.sha256(stored.astype(kind)).hexdigest()


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
@pytest.mark.jit
def test_d11_binary_layers_end_in_sums_of_32_bits(tmp_path: Path) -> None:
    build = BinaryBuilder(6, 5, 17, 3)
    first = build.sign(build.normalised(build.conv(build.input, 130), 1.0))
    build.end(build.binary(first, 21, alpha=False))
    made = compiled_network(build)
    bits = {one["bits"] for one in made.folder.manifest["maps"]}
    assert bits == {1, 8, 32}
    require_same_results(build, made, "<i4", tmp_path)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
@pytest.mark.jit
@pytest.mark.parametrize("channels", [2, 32])
def test_a_compiled_network_prints_the_hash_of_the_simulator(channels: int, tmp_path: Path) -> None:
    """D11: input in the order of ONNX, windows built by the host, results as stored integers."""
    build = Builder(9, 8, channels, 4)
    window = Window((3, 3), (2, 1), Pad(1, 0, 1, 1))
    first = build.relu(build.conv(build.input, 20, window))
    build.end(build.conv(first, 5))
    made = compiled_network(build, padding="stored")  # set before the first frame
    assert made.compiled.code.preset.runs or channels == 2
    require_same_results(build, made, "i1", tmp_path)
    made = compiled_network(build, replace(DUAL, map_vectors=1024), bits=16)
    require_same_results(build, made, "<i2", tmp_path)
    windows = [step for step in driver_of(made.folder).steps if step["kind"] == "WINDOWS"]
    assert len(windows) == (channels == 2)  # few channels: the host builds windows
    if channels == 2:
        made = compiled_network(build, few_channels="core")
        assert made.compiled.macros[0].windows is not None
        require_same_results(build, made, "i1", tmp_path)
