"""Record the kernels, with their types, that each kind of work calls: mapper/kernels/warmup.json.

    python scripts/kernels.py                      write the table
    python scripts/kernels.py run/fast             record these kinds of work, keep the others
    python scripts/kernels.py --times              also measure compile times
    python scripts/kernels.py --check              print differences; exit code 1 if any
    python scripts/kernels.py --check run/fast score   check only these kinds of work
    python scripts/kernels.py --tests write tests/kernels.json, the kernels of all tests

The script runs commands on small networks and records the kernels that Python calls. Run it when a
kernel is new or its argument types change. `--tests` runs the thorough tier once and records the
kernels of its processes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
from kernel_recorder import Calls, Recorder, by_name

import mapper.kernels.warmup
import mapper.methods.cut
import mapper.partitions.run
import mapper.planning.memory
import mapper.session
from mapper.cli.main import main as mapper_main
from mapper.kernels import types as kernel_types
from mapper.kernels.parallel_compilation import KernelTable, read_table
from mapper.kernels.warmup import Compiled
from mapper.settings import BY_NETS

PATH = mapper.kernels.warmup.TABLE
TESTS = Path(__file__).resolve().parents[1] / "tests" / "kernels.json"
LONG = 0.5  # seconds; shorter compilations are not listed
TRIES = 4  # numba's cache holds more kernels in each attempt


def run(*words: str) -> None:
    """Run a mapper command and discard its output."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        try:
            code = mapper_main(list(words))
        except SystemExit as stop:
            code = int(stop.code or 0)
    if code:
        raise RuntimeError(f"mapper {' '.join(words)}: {said.getvalue()}")


def spare_placement() -> None:
    """Keep all steps of a placement, with next to no time for each."""
    from mapper.placement import portfolio
    from mapper.placement.spectral import RotationSearch

    for name, effort in portfolio.EFFORTS.items():
        light = replace(
            effort, work=1e6, least=1e5, search=RotationSearch(1, 1, 2), repeats=2, sweeps=1
        )
        portfolio.EFFORTS[name] = light


@contextlib.contextmanager
def rows_in_scratch() -> Iterator[None]:
    """Copy the rows of a network to scratch, as if they did not fit in memory."""
    genuine = mapper.methods.cut.open_rows
    mapper.methods.cut.open_rows = lambda graph, shift, held, *more: genuine(
        graph, shift, False, *more
    )
    try:
        yield
    finally:
        mapper.methods.cut.open_rows = genuine


def prepare() -> None:
    """Write networks into the current folder: random ones of both kinds, and a structured one."""
    rng = np.random.default_rng(0)
    from storage.store.writer import NetworkWriter

    for name, neurons, synapses, undirected in (
        ("directed.bin", 300, 3000, False),
        ("undirected.bin", 300, 3000, True),
        ("dense.bin", 300, 90_000, False),
        ("wide.bin", 90_000, 600_000, False),  # neighbours are far apart
    ):
        source, target = rng.integers(0, neurons, (2, synapses))
        with NetworkWriter(Path(name), neurons, undirected=undirected, memory=1 << 16) as writer:
            writer.add(source, target, source % 5)
            writer.finish()
    _model(rng)
    run("generate", "cortex", "sheet.bin", "--side", "40", "--fanout", "20", "--sigma", "3")
    run("generate", "microcircuit", "circuit.bin", "--scale", "0.02")
    spikes = np.arange(20)
    np.savez("spikes.npz", neuron=spikes, tick=spikes % 2)
    for delivery in ("core", "tree"):
        chip = f'width = 6\nheight = 6\nneurons = 80\ndelivery = "{delivery}"\n[time]\n'
        Path(f"{delivery}.toml").write_text(chip)
        run("run", "directed.bin", "--chip", f"{delivery}.toml", "-o", delivery, "--preset", "fast")
    _spiking_model(rng)


def _model(rng: np.random.Generator) -> None:
    """Write a model, its samples, and its compilations for one core and for several."""
    from onnx import TensorProto, helper, numpy_helper, save

    first, second = (rng.normal(0, 1, (4, size, 3, 3)).astype(np.float32) for size in (1, 4))
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "v"], ["h"]),
            helper.make_node("Conv", ["h", "w"], ["y"]),
        ],
        "two",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 4, 4])],
        [numpy_helper.from_array(first, "v"), numpy_helper.from_array(second, "w")],
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10),
        "model.onnx",
    )
    np.savez("samples.npz", x=rng.normal(0, 1, (8, 1, 8, 8)).astype(np.float32))
    run(*COMPILE, "--chip", "1x1", "-o", "compiled")
    run(*COMPILE, "--chip", "2x2", "-o", "spread")


def _spiking_model(rng: np.random.Generator) -> None:
    """Write a spiking model, its samples, and its compilations."""
    import nir

    ones = np.ones(8)
    nodes = {
        "input": nir.Input({"input": np.array([8])}),
        "linear": nir.Linear(rng.normal(1, 2, (8, 8))),
        "lif": nir.LIF(tau=9 * ones, r=9 * ones, v_leak=0 * ones, v_threshold=ones),
        "output": nir.Output({"output": np.array([8])}),
    }
    names = list(nodes)
    nir.write("model.nir", nir.NIRGraph(nodes, list(pairwise(names))))
    np.savez("trains.npz", x=rng.random((4, 20, 8)) < 0.3)
    for chip in ("2x2", "tree.toml"):
        run(*COMPILE_SPIKES, "--chip", chip, "-o", f"spiking-{chip}")


COMPILE_SPIKES = (
    "compile", "model.nir", "--calibrate", "trains.npz", "--tick-length", "1", "--min-agreement",
    "0", "--max-loss", "100", "--force",
)  # fmt: skip
COMPILE = (
    "compile", "model.onnx", "--calibrate", "samples.npz", "--min-signal", "0", "--max-loss", "100",
    "--force", "--no-cache",
)  # fmt: skip
CHIP = ("--chip", "6x6", "--neurons-per-core", "80", "--memory", "2GiB")
NAMES = ("directed", "undirected", "dense", "circuit", "sheet")
PRESETS = ("fast", "default", "strong")
LIGHT = {"strong": "proposals=9 cycle_proposals=9 tree_proposals=9 starts=2 recuts=2"}
"""Options that reduce the time of a preset but call the same kernels."""


def works() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield all kinds of work, with commands that call their kernels."""
    from storage.formats import EXPORTS

    kinds = ("cortex", "--side", "20", "--fanout", "9", "--sigma", "2")
    yield "generate", [["generate", kinds[0], "made.bin", *kinds[1:]]]
    for name, exporter in EXPORTS.items():
        files = [(f"{kind}.bin", f"{kind}{exporter.extensions[0]}") for kind in NAMES[:2]]
        yield f"export/{name}", [["export", net, file, "--format", name] for net, file in files]
        yield f"import/{name}", [["import", file, "again.bin"] for _, file in files]
    yield "check", [["check", f"{name}.bin", *CHIP] for name in NAMES]
    yield "verify", [["verify", f"{name}.bin"] for name in NAMES]
    yield "run/classic", _runs("--preset", "classic")
    for preset in PRESETS:
        less = [part for word in LIGHT.get(preset, "").split() for part in ("--set", word)]
        given = ("--preset", preset, *less, "--set", "packet_cycles=1", "--set", "net_time=1000")
        for objective in ("unicast", "cut", *BY_NETS):
            words = (*given, "--objective", objective)
            if objective in BY_NETS:
                yield f"run/{preset}/{objective}/nets", _runs(*words)
                words = (*words, "--set", "net_pins=0")
            yield f"run/{preset}/{objective}/levels", _runs(*words)
            yield f"run/{preset}/{objective}/streamed", _runs(*words, "--set", "level-budget=0")
        yield f"partition/{preset}", [
            ["partition", f"{name}.bin", "--parts", "6", "--preset", preset, "--memory", "2GiB",
             "--force", "-o", "parts"]
            for name in NAMES
        ]  # fmt: skip
    for preset in (*PRESETS, "classic"):
        yield (
            f"place/{preset}",
            [["place", f"{name}.bin", "--chip", "18x18", "--preset", preset] for name in NAMES[:3]],
        )
    some = _runs("--preset", "fast", "--set", "level-budget=0", names=("directed", "sheet"))
    size = ("--chip", "36x36", "--neurons-per-core", "80")
    yield "scratch", [["run", "wide.bin", *size, *some[0][len(CHIP) :]], *some]
    yield "limits", _runs(
        "--synapses-per-core", "4000", "--axons-per-core", "400", names=("directed", "sheet")
    )  # fmt: skip
    yield "verify", [["verify", "result"]]
    yield "score", [["score", "sheet.bin", "result/mapping.npz", *CHIP]]
    yield "simulate", [["simulate", "result", "--cycles", "20"]]
    timed = [["simulate", delivery, "--ticks", "3"] for delivery in ("core", "tree")]
    yield "simulate/ticks", timed
    spikes = ("--spikes", "spikes.npz", "--threshold", "9")
    yield "simulate/spikes", [[*command, *spikes] for command in timed]
    yield "compile", [[*COMPILE, "--chip", "2x2", "-o", "spread"]]
    yield "spiking/compile", [[*COMPILE_SPIKES, "--chip", "2x2", "-o", "spiking-2x2"]]
    check = ("--input", "trains.npz", "--check")
    yield "spiking/run", [["simulate", "spiking-2x2", *check]]
    yield (
        "spiking/cycles",
        [["simulate", f"spiking-{chip}", *check, "--cycles"] for chip in ("2x2", "tree.toml")],
    )
    yield "cores", [["simulate", "compiled", "--input", "samples.npz"]]
    yield "cores/cycles", [["simulate", "compiled", "--input", "samples.npz", "--cycles"]]
    yield "cores/frames", [["simulate", "spread", "--input", "samples.npz", "--cycles"]]


def _runs(*options: str, names: tuple[str, ...] = NAMES) -> list[list[str]]:
    return [["run", f"{name}.bin", *CHIP, "-o", "result", "--force", *options] for name in names]


def record(recorder: Recorder, wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the kernels of each kind of work; the recorder collects their types.

    wanted : prefixes of the kinds of work to record
    """
    found: dict[str, set[str]] = {}
    for work, commands in works():
        if not work.startswith(wanted):
            continue
        print(work, "...", file=sys.stderr)
        with rows_in_scratch() if work == "scratch" else contextlib.nullcontext():
            for _ in range(TRIES):
                recorder.fresh()
                for words in commands:
                    run(*words)
                if not recorder.missed():
                    break
        found.setdefault(work, set()).update(name for name, _ in recorder.calls)
        recorder.all |= recorder.calls
    for work, base in (
        ("limits", "run/default/unicast/levels"),
        ("scratch", "run/fast/unicast/streamed"),
    ):
        if work in found:
            found[work] -= found.get(base) or set(read_table(PATH).works[base])
    return {work: sorted(kernels) for work, kernels in sorted(found.items())}


def record_tests() -> int:
    """Run all tests, and write the table of the kernels that they call."""
    calls: Calls = set()
    with tempfile.TemporaryDirectory() as folder:
        scripts = str(Path(__file__).parent)
        code = subprocess.run(
            ["sh", f"{scripts}/test.sh", "--thorough", "-p", "kernel_recorder", "-q"],
            env={**os.environ, "KERNEL_RECORDS": folder, "PYTHONPATH": scripts},
            check=False,
        ).returncode
        for path in Path(folder).iterdir():
            calls |= {(name, types) for name, types in json.loads(path.read_text())}
    _write(TESTS, by_name(calls), {}, times=True)
    return code


def _write(
    path: Path, kernels: dict[str, list[str]], works: dict[str, list[str]], *, times: bool
) -> None:
    """Write a table; times : measure compile times, else keep the known ones"""
    old = read_table(path).seconds if path.exists() else {}
    seconds = _seconds(kernels) if times else {k: v for k, v in old.items() if k in kernels}
    table = {"kernels": kernels, "works": works, "seconds": seconds}
    path.write_text(json.dumps(table, indent=1) + "\n")


def main() -> int:
    if sys.argv[1:] == ["--tests"]:
        return record_tests()
    recorder = Recorder()
    wanted = tuple(word for word in sys.argv[1:] if not word.startswith("-"))
    # a command would empty numba's cache in a new installation
    mapper.kernels.warmup.compile_kernels = lambda *arguments, **named: Compiled(0, [], 0, 0.0)
    # preloaded kernels would not be recorded
    mapper.session.load_kernels = mapper.partitions.run.load_kernels = lambda works: None
    mapper.planning.memory.SMALL = 0  # partition networks as large ones are
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        spare_placement()
        prepare()
        kinds = record(recorder, wanted or ("",))
    kernels = by_name(recorder.all)
    if "--check" in sys.argv:
        wrong = _differences(kinds, kernels, read_table(PATH), part=bool(wanted))
        print(*wrong, sep="\n", end="\n" if wrong else "")
        return 1 if wrong else 0
    if wanted:
        old = read_table(PATH)
        kinds = old.works | kinds
        used = {kernel for names in kinds.values() for kernel in names}
        both = old.kernels.keys() | kernels.keys()
        kernels = {
            name: sorted({*old.kernels.get(name, ()), *kernels.get(name, ())})
            for name in sorted(both & used)
        }
    _write(PATH, kernels, dict(sorted(kinds.items())), times="--times" in sys.argv)
    return 0


def _differences(
    kinds: dict[str, list[str]], kernels: dict[str, list[str]], old: KernelTable, *, part: bool
) -> list[str]:
    """Return differences from the table; part : only some kinds of work were recorded"""
    works = {name: was for name, was in old.works.items() if not part or name in kinds}
    wrong = [
        f"{work}: {sorted(set(kinds.get(work, ())) ^ set(works.get(work, ())))}"
        for work in sorted(kinds.keys() | works.keys())
        if kinds.get(work) != works.get(work)
    ]
    for name in sorted(kernels.keys() | (set() if part else old.kernels.keys())):
        found, known = set(kernels.get(name, ())), set(old.kernels.get(name, ()))
        if found - known or (known - found and not part):
            wrong.append(f"{name}: {sorted(found ^ known)}")
    return wrong


def _seconds(kernels: dict[str, list[str]]) -> dict[str, float]:
    """Return the compile times of kernels that take long, in seconds."""
    os.environ["NUMBA_CACHE_DIR"] = ""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        numba.config.CACHE_DIR = folder
        for name, signatures in kernels.items():
            module, _, function = name.rpartition(".")
            kernel = getattr(import_module(module), function)
            copy = type(kernel)(kernel.py_func, targetoptions=kernel.targetoptions)
            started = time.process_time()
            for types in signatures:
                copy.compile(kernel_types.types_of(types))
            spent = time.process_time() - started
            if spent >= LONG:
                found[name] = round(spent, 1)
    return found


if __name__ == "__main__":
    sys.exit(main())
