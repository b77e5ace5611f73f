"""Compile random models: each result must be right, or refused with its node and a reason.

    python scripts/fuzz_models.py [--count 1000] [--seconds S] [--seed 0] [--workers 2]
                                  [--images] [--keep FOLDER]

Models of one to fifteen nodes, in floating point, binary, or quantised by ONNX Runtime's tools, are
compiled for one or four cores and checked: all tensors against ONNX Runtime, and all results of the
cores against the integer reference. The script prints every model that is wrong, ends with a
traceback or has an unknown exit code, reduced to the fewest nodes that show the fault; then the
number of models that were right, refused or wrong, and the reasons of refusal. --images takes
images of 8 to 64 rows and columns, and chips of 2x2 and 4x4 cores, half of them with little memory
for maps. --keep saves the reduced models.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import multiprocessing
import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import mapper.cli.compiling  # noqa: E402
from mapper.cli.main import main as mapper_main  # noqa: E402
from mapper.compiler.artifacts.manifest import read_folder  # noqa: E402
from mapper.compiler.artifacts.simulate import simulate  # noqa: E402
from mapper.kernels.warmup import Compiled  # noqa: E402
from tests.compiler.random_layers import IMAGES, SMALL, Sizes, Value  # noqa: E402
from tests.compiler.random_models import Made, pruned, random_model, runs  # noqa: E402
from tests.storage.formats.onnx_models import numpy_helper, onnx  # noqa: E402

REFUSED = re.compile(r"^mapper compile: model\.onnx: .{10,}$")
INTERNAL = re.compile(
    r"ONNXRuntimeError|Traceback|\w+Error\b|NoneType|onnxruntime_pybind|\bfault of mapper\b|"
    r"(?:is|are) inconsistent; compile|Invalid model|which was never written|\.partial/"
)
"""Words that users must not see."""


REAL = ("float", "binary", "dynamic")
"""Styles of models with floating-point tensors, which need calibration."""
NOTHING_REAL = "is quantised already, and keeps its scales; omit --calibrate"
"""Refusal of samples for a model that has only integers."""
MOST_REDUCED = 3
"""Number of wrong models with the same message that are reduced."""


class Ended(NamedTuple):
    """Result of a model.

    how : "right", "refused", or "wrong"; said : message
    values : results of the cores, by the names of outputs, shape (frames, ...); None if not right
    """

    how: str
    said: str = ""
    values: Mapping[str, Any] | None = None


def compiled(made: Made, folder: Path, frames: int = 2) -> Ended:
    """Compile a model in a folder, and compare the program with the integer reference.

    made : its model is a `ModelProto`, or serialised
    frames : number of samples that the program computes
    """
    data = made.model if isinstance(made.model, bytes) else made.model.SerializeToString()
    (folder / "model.onnx").write_bytes(data)
    np.save(folder / "samples.npy", made.samples)
    words = [
        "compile",
        "model.onnx",
        "--chip",
        made.chip,
        "-o",
        "out",
        "--force",
        "--no-cache",
        "-q",
    ]
    if made.style in REAL or made.calibrated:
        words += ["--calibrate", "samples.npy", "--method", "minmax"]
        words += ["--max-loss", "100", "--min-signal", "-99"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | None = mapper_main(words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            return Ended("wrong", traceback.format_exc().strip().splitlines()[-1])
    said = err.getvalue().strip()
    if made.calibrated and said.endswith(NOTHING_REAL):
        return compiled(made._replace(calibrated=False), folder, frames)
    last = said.splitlines()[-1] if said else ""
    if code in (1, 3):
        plain = REFUSED.match(last) and not INTERNAL.search(last)
        return Ended("refused" if plain else "wrong", last)
    if code != 0:
        return Ended("wrong", f"exit {code}: {last}")
    try:
        found = simulate(read_folder(folder / "out"), made.samples[:frames], 1, check=True)
    except BaseException:
        return Ended("wrong", traceback.format_exc().strip().splitlines()[-1])
    differences = sum(one.differences for one in found.compared)
    if differences:
        return Ended("wrong", f"{differences} elements differ from the reference")
    return Ended("right", values=found.values)


def smaller(made: Made) -> list[Any]:
    """Return models that end earlier, or lack one of the nodes that preserve the shape."""
    graph = made.model.graph
    constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    opset = next(one.version for one in made.model.opset_import if one.domain in ("", "ai.onnx"))
    nodes = list(graph.node)
    found = []
    given = Value("x", (1, *made.samples.shape[1:]))
    found += [pruned(nodes, constants, given, [node.output[0]], opset) for node in nodes[:-1]]
    ends = [one.name for one in graph.output]
    if len(ends) > 1:
        found += [pruned(nodes, constants, given, [name], opset) for name in ends]
    for gone in nodes:
        if not gone.input or gone.output[0] in ends:
            continue
        rest = []
        for node in nodes:
            if node is gone:
                continue
            copy = type(node)()
            copy.CopyFrom(node)
            copy.input[:] = [gone.input[0] if name in gone.output else name for name in node.input]
            rest.append(copy)
        found.append(pruned(rest, constants, given, ends, opset))
    return [one for one in found if one is not None]


def reduced(made: Made, ended: Ended, folder: Path) -> Made:
    """Return the smallest model that is wrong in the same way."""
    kind = signature(ended.said)
    while True:
        for model in sorted(smaller(made), key=lambda one: len(one.graph.node)):
            if len(model.graph.node) >= len(made.model.graph.node):
                continue
            _domains(model, made.model)
            if not runs(model, made.samples):
                continue
            less = made._replace(model=model)
            again = compiled(less, folder)
            if again.how == "wrong" and signature(again.said) == kind:
                made = less
                break
        else:
            return made


def _domains(model: Any, whole: Any) -> None:
    """Copy the IR version, and the operator sets other than ONNX's."""
    model.ir_version = whole.ir_version
    for one in whole.opset_import:
        if one.domain not in ("", "ai.onnx"):
            model.opset_import.append(one)


def signature(said: str) -> str:
    """Return a message without names and numbers."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*\)|[-\d.,]+", "", said)
    return " ".join(plain.split())[:90]


def shape_of(model: Any) -> str:
    """Return the nodes of a model in one line."""
    return " -> ".join(node.op_type for node in model.graph.node)


def none_compiled(*_: object, **__: object) -> Compiled:
    return Compiled(0, [], 0, 0.0)


class Tried(NamedTuple):
    """Result of a seed. nodes : nodes of the smallest model that is wrong in the same way"""

    seed: int
    ended: Ended
    nodes: str = ""


def tried(seed: int, sizes: Sizes, keep: Path | None, known: frozenset[str] = frozenset()) -> Tried:
    """Compile and check the model of a seed; reduce it unless its fault is known."""
    mapper.cli.compiling.compile_once = none_compiled  # kernels are compiled on demand
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = random_model(seed, folder, sizes)
        if made is None:
            return Tried(seed, Ended("no model"))
        ended = compiled(made, folder)._replace(values=None)  # not for other processes
        if ended.how != "wrong" or signature(ended.said) in known:
            return Tried(seed, ended)
        least = reduced(made, ended, folder)
        if keep:
            keep.mkdir(parents=True, exist_ok=True)
            onnx.save(least.model, str(keep / f"{seed}.onnx"))
            np.save(keep / f"{seed}.npy", made.samples)
        return Tried(seed, ended, f"{made.style}, {made.chip}: {shape_of(least.model)}")


def all_tried(options: argparse.Namespace) -> Iterator[Tried]:
    """Yield the results of the seeds in order, from several processes; start none after the
    time.
    """
    end = time.monotonic() + options.seconds
    seeds = iter(range(options.seed, options.seed + options.count))
    sizes = IMAGES if options.images else SMALL
    running: deque[Future[Tried]] = deque()
    seen: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, max_tasks_per_child=200) as pool:
        while True:
            while len(running) < 2 * options.workers and time.monotonic() < end:
                seed = next(seeds, None)
                if seed is None:
                    break
                known = frozenset(kind for kind, count in seen.items() if count >= MOST_REDUCED)
                running.append(pool.submit(tried, seed, sizes, options.keep, known))
            if not running:
                return
            found = running.popleft().result()
            if found.ended.how == "wrong":
                seen[signature(found.ended.said)] += 1
            yield found


def main() -> int:
    words = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=words[0])
    parser.add_argument("--count", type=int, default=1000, help="maximum number of models")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit, seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--images", action="store_true", help="images on several cores")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    ends: Counter[str] = Counter()
    kinds: dict[str, list[Tried]] = {}
    begun = time.monotonic()
    for one in all_tried(options):
        ends[one.ended.how] += 1
        if one.ended.how == "refused":
            kinds.setdefault(signature(one.ended.said), []).append(one)
        elif one.nodes:
            print(f"seed {one.seed}, {one.nodes}\n    {one.ended.said}", flush=True)
    for some in sorted(kinds.values(), key=len, reverse=True):
        print(f"{len(some):5} refused, e.g. seed {some[0].seed}: {some[0].ended.said}")
    seconds = time.monotonic() - begun
    told = ", ".join(f"{ends[how]} {how}" for how in ("right", "refused", "wrong", "no model"))
    print(f"{ends.total()} models from seed {options.seed}: {told}; {seconds:.0f} s")
    return 1 if ends["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
