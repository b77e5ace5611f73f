"""Every host step of the C driver equals ONNX Runtime bit for bit.

`QUANTISE` is QuantizeLinear and a change of axes, `WINDOWS` a convolution with one kernel per value
of a window. `WRITE` and `READ` convert between integers and the layouts of maps.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from mapper.compiler.artifacts.cdriver.writer import KINDS, CoreStep, Sources, write_driver
from tests.chipsim.npu.programs import SHAPES, host_words, random_case
from tests.compiler.codegen.test_cdriver import compiled, image_of, needs_cc
from tests.compiler.onnx_sessions import session_of
from tests.storage.formats.onnx_models import helper

pytest.importorskip("onnxruntime", reason="the comparison needs onnxruntime")
ROWS, COLUMNS, CHANNELS = 5, 6, 3
COUNT = ROWS * COLUMNS * CHANNELS
LAYOUTS = {"nchw": (COLUMNS, 1, ROWS * COLUMNS), "nhwc": (COLUMNS * CHANNELS, CHANNELS, 1)}
"""Strides of rows, columns and channels in the values of the model's input."""
DISPATCH = """\
#define main driver_main
#include "main.c"
#undef main
int main(void)
{
    struct sha sha = {{0}, {0}, 0};
    int at;
    for (at = 0; at < STEPS; at++) {
        const struct step *step = &steps[at];
        int count = step->rows * step->columns * step->channels;
        if (step->kind == STEP_QUANTISE) {
            if (fread(values, sizeof *values, INPUT_VALUES, stdin) != INPUT_VALUES)
                quit("ends within a frame", "input");
            quantise(step);
        } else if (step->kind == STEP_WINDOWS) {
            windows(step);
            count = step->results[0] * step->results[1] * step->size[0] * step->size[1]
                    * step->channels;
        } else if (step->kind == STEP_WRITE) {
            write_map(step);
            continue;
        } else {
            read_map(step, stdout, &sha);
            continue;
        }
        fwrite(buffers[step->to], sizeof **buffers, (size_t)count, stdout);
    }
    return 0;
}
"""


class Case(NamedTuple):
    """Storage of an input. kind : type of QuantizeLinear; zero_point : in that type"""

    kind: str
    scale: float
    zero_point: int
    layout: str

    @property
    def bits(self) -> int:
        return 8 * np.dtype(self.kind).itemsize

    @property
    def shift(self) -> int:
        """Offset of the model's integers from stored integers."""
        return 1 << (self.bits - 1) if self.kind.startswith("u") else 0

    def values(self, random: np.random.Generator) -> NDArray[np.float32]:
        """Return numbers inside and outside the range, ties, signed zeros and the ends of
        float32."""
        info = np.iinfo(self.kind)
        wide = random.uniform(info.min - 20, info.max + 20, COUNT) - self.zero_point
        ties = np.arange(COUNT) % 3 == 0
        wide[ties] = np.floor(wide[ties]) + 0.5
        found = (wide * np.float32(self.scale)).astype(np.float32)
        found[:8] = [0, -0.0, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45]
        random.shuffle(found)
        shape = (1, CHANNELS, ROWS, COLUMNS) if self.layout == "nchw" else (1, ROWS, COLUMNS, 3)
        return found.reshape(shape)

    def step(self, to: int) -> CoreStep:
        return {
            "kind": "QUANTISE", "to": to, "rows": ROWS, "columns": COLUMNS, "channels": CHANNELS,
            "elements": COUNT, "bits": self.bits, "strides": LAYOUTS[self.layout],
            "scale": float(np.float32(self.scale)), "zero_point": self.zero_point - self.shift,
        }  # fmt: skip

    def expected(self, values: NDArray[np.float32]) -> NDArray[np.int16]:
        """Return the result of ONNX Runtime, shape (rows, columns, channels)."""
        kind = np.dtype(self.kind)
        given = [values, np.array(self.scale, np.float32), np.array(self.zero_point, kind)]
        (found,) = ran([("QuantizeLinear", {})], given)
        if self.layout == "nchw":
            found = found.transpose(0, 2, 3, 1)
        return (found.astype(np.int64) - self.shift).astype(np.int16)[0]


def ran(nodes: list[tuple[str, dict[str, Any]]], inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Run consecutive nodes; the first one reads all inputs, each later one the previous result."""
    names = [f"i{number}" for number in range(len(inputs))]
    made, taken = [], names
    for number, (kind, attributes) in enumerate(nodes):
        made.append(helper.make_node(kind, taken, [f"y{number}"], **attributes))
        taken = [f"y{number}"]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for name, one in zip(names, inputs, strict=True)
    ]
    end = helper.make_empty_tensor_value_info(taken[0])
    graph = helper.make_graph(made, "host", infos, [end])
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = session_of(model.SerializeToString(), as_written=True)
    found: list[NDArray[Any]] = session.run(None, dict(zip(names, inputs, strict=True)))
    return found


def driven(folder: Path, steps: list[CoreStep], given: NDArray[np.float32]) -> bytes:
    """Return the output of steps of main.c; QUANTISE reads the next given frame."""
    case = random_case(SHAPES["tiny"], 0, 1, False)
    sources = Sources(
        case.shape, {(0, 0): image_of(case)}, {(0, 0): [0]}, host_words(case.shape), steps, COUNT
    )
    write_driver(folder, sources)
    (folder / "steps.c").write_text(DISPATCH)
    program = compiled(folder, "steps.c", "driver.c")
    return subprocess.run([program], input=given.tobytes(), capture_output=True, check=True).stdout


def cases() -> list[Case]:
    random = np.random.default_rng(3)
    found = []
    for kind in ("int8", "uint8", "int16", "uint16"):
        info = np.iinfo(kind)
        for zero_point in (info.min, info.max, (info.min + info.max + 1) // 2, info.min + 7):
            for scale in (1.0, 0.1, 1 / 255, float(random.uniform(1e-3, 10)), 2.0**-100):
                layout = "nchw" if len(found) % 2 else "nhwc"
                found.append(Case(kind, scale, zero_point, layout))
    return found


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
def test_quantised_inputs_equal_onnxruntime(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    some = cases()
    values = [case.values(random) for case in some]
    given = np.concatenate([one.ravel() for one in values])
    found = np.frombuffer(driven(tmp_path, [case.step(0) for case in some], given), np.int16)
    shape = (len(some), ROWS, COLUMNS, CHANNELS)
    for case, one, stored in zip(some, values, found.reshape(shape), strict=True):
        assert np.array_equal(stored, case.expected(one)), case


WINDOWS = (
    {"size": (3, 3), "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1)},
    {"size": (2, 3), "stride": (2, 1), "dilation": (1, 2), "pad": (0, 2)},
    {"size": (3, 1), "stride": (1, 3), "dilation": (2, 1), "pad": (2, 0)},
    {"size": (5, 6), "stride": (1, 1), "dilation": (1, 1), "pad": (0, 0)},
)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
def test_windows_equal_convolutions_of_onnxruntime(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    cases = [Case("int8", 0.05, zero_point, "nchw") for zero_point in (-128, -3, 0, 127)]
    steps: list[CoreStep] = []
    values = [case.values(random) for case in cases]
    expected: list[NDArray[np.int16]] = []
    for case, one, window in zip(cases, values, WINDOWS, strict=True):
        stored = case.expected(one)
        expected += [stored, convolved(stored, case.zero_point, window)]
        steps += [case.step(0), {
            "kind": "WINDOWS", "from": 0, "to": 1,
            "rows": ROWS, "columns": COLUMNS, "channels": CHANNELS,
            "zero_point": case.zero_point, "elements": expected[-1].size,
            "results": expected[-1].shape[:2], **window,
        }]  # fmt: skip
    found = driven(tmp_path, steps, np.concatenate([one.ravel() for one in values]))
    assert found == b"".join(one.tobytes() for one in expected)


def convolved(
    stored: NDArray[np.int16], zero_point: int, window: dict[str, tuple[int, int]]
) -> NDArray[np.int16]:
    """Return the windows of a map, shape (rows, columns, values), by one kernel per value."""
    size = window["size"]
    count = size[0] * size[1] * CHANNELS
    kernels = np.eye(count, dtype=np.float32).reshape(count, *size, CHANNELS)
    data = (stored.astype(np.float32) - zero_point).transpose(2, 0, 1)[None]
    pads = [*window["pad"], *window["pad"]]
    how = {"strides": window["stride"], "dilations": window["dilation"], "pads": pads}
    (found,) = ran([("Conv", how)], [data, np.ascontiguousarray(kernels.transpose(0, 3, 1, 2))])
    return (found[0].transpose(1, 2, 0) + zero_point).astype(np.int16)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@needs_cc
@pytest.mark.parametrize("kind", ["int8", "int16"])
def test_maps_keep_the_integers_of_onnxruntime(kind: str, tmp_path: Path) -> None:
    """Integers written to a map and read back, in vectors of four channels."""
    random = np.random.default_rng(6)
    case = Case(kind, 0.1, 5, "nchw")
    values = case.values(random)
    one = {
        "core": 0, "address": 7, "bits": case.bits, "strides": (2 * COLUMNS, 2), "high": 1,
        "planes": 0, "rows": ROWS, "columns": COLUMNS, "channels": CHANNELS,
    }  # fmt: skip
    steps = [case.step(0), {"kind": "WRITE", "from": 0, **one}, {"kind": "READ", **one}]
    found = driven(tmp_path, steps, values)
    expected = case.expected(values)
    assert found == expected.tobytes() + expected.astype(kind).tobytes()


def test_all_steps_are_tested() -> None:
    assert set(KINDS) - {"RUN"} == {"QUANTISE", "WINDOWS", "WRITE", "READ"}
