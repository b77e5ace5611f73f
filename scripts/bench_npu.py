"""NPU cores and chips against their targets: cycles, periods, traffic, speed and cells.

    python scripts/bench_npu.py [--data FOLDER] [--only NAME ...] [--json]
    python scripts/bench_npu.py --list

FOLDER holds the models and samples (default: MAPPER_DATA); missing models are skipped. Each model
is compiled for one core, if it fits, and for chips, and simulated cycle by cycle with cores, mesh
and host. Its results must equal the results on one core, and the flits per link must equal the
traffic of `tiles.bin` and `mapping.npz`. The name bits compares layers in 16 and in 8 bits. Cells
are counted by generic synthesis, which takes minutes and requires Yosys (the extra
neuromapper[hw]).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_common import say
from bench_compile import CIFAR, MNIST, RESNET, Array, Row, samples_of, silence, threads
from bench_npu_bits import bit_figures
from bench_npu_cells import cell_figures
from bench_npu_figures import Figure, at_least, at_most, equal, show
from numpy.typing import NDArray

from chipsim.npu.followed import fields_by_name
from chipsim.npu.mesh.run import run_mesh
from chipsim.traffic.arrays import Traffic
from mapper.cli.main import main as mapper_main
from mapper.compiler.artifacts.cycles import chip_of, run_cycles, run_frames
from mapper.compiler.artifacts.manifest import MAPPING, TILES, CompiledFolder, read_folder
from mapper.compiler.artifacts.simulate import programs_of, simulate
from mapper.compiler.model import open_model
from mapper.compiler.multicore.placement import in_order
from mapper.errors import BEYOND_LIMITS, MapperError
from mapper.evaluation.mapped import open_mapped
from mapper.scoring.measure import measure_network
from storage.store.network import NetworkFile

Cores = NDArray[np.int32]
FRAMES, CHECKED = 20, 3  # frames that run on a chip; frames compared with one core
ENDING = 16  # last frames, during which some cores are already idle
BINARY = "BINARY"  # products of bits
MEMORY = 1 << 28  # bytes of memory to sort the network of tiles


@dataclass(frozen=True)
class Target:
    """Targets of a model on a chip; None means no target.

    period, latency : cycles, at most; faster : times faster than one core, at least
    link : load of the busiest link as a share of the period, at most
    hops : flit-hops relative to row-major placement, at most
    frames, seconds : time limit for simulating this number of frames
    steady : frames that must run without loss and without drift
    placements : whether the model is also compiled with other placements
    """

    period: int | None = None
    latency: int | None = None
    faster: float | None = None
    link: float | None = None
    hops: float | None = None
    frames: int | None = None
    seconds: float | None = None
    steady: int | None = None
    placements: bool = False


@dataclass(frozen=True)
class Case:
    """A model, its compilation, its cycle limit on one core, and its chips.

    one : whether the model fits on one core
    fewer : speed-up of the first layer by the window unit compared with padding, at least
    binary : whether the model has binary layers
    """

    row: Row
    chips: dict[str, Target]
    cycles: int | None = None
    one: bool = True
    fewer: float | None = None
    binary: bool = False
    options: tuple[str, ...] = ()


CASES = {
    "mnist": Case(
        Row("mnist-8", "mnist-8.onnx", MNIST, 100, 20),
        {"4x4": Target(900, 4_000, steady=10_000, placements=True)},
        cycles=5_000,
    ),
    "resnet": Case(
        Row("ResNet-8", RESNET, CIFAR, 50, 20, layout="nhwc"),
        {"4x4": Target(4_800, 20_000, 11, frames=100, seconds=20, placements=True)},
        cycles=53_000, fewer=2.5,
    ),
    "gtsrb": Case(
        Row("gtsrb_bnn_30", "gtsrb_bnn_30.onnx", "pixels", 0, 6),
        {"2x2": Target(), "ports.toml": Target()}, binary=True
    ),
    "squeezenet": Case(
        Row("SqueezeNet", "squeezenet_winml.onnx", "enlarged", 8, 8),
        {
            "4x4": Target(92_000),
            "8x8": Target(28_000, link=0.7, hops=0.4, frames=3, seconds=60),
        },
        one=False, options=("--min-signal", "0", "--max-loss", "100"),
    ),
}  # fmt: skip
MORE: dict[str, Callable[[], Iterator[Figure]]] = {"bits": bit_figures, "cells": cell_figures}
"""Figures without a model, by name."""
PORTS = """
# 2x2 cores, each with a port of the host
width = 2
height = 2
[npu]
preset = "npu"
[host]
ports = [0, 1, 2, 3]
"""


def figures(name: str, data: Path) -> Iterator[Figure]:
    """Yield the figures of a model; writes into the current folder."""
    case = CASES[name]
    path = data / "models" / case.row.model
    if not path.is_file():
        say(f"{path} not found: skipped")
        return
    model = open_model(path)
    x, _ = samples_of(case.row, data, model.view.shape, model.view.order[-1] == 3)
    np.savez("samples.npz", x=x)
    Path("ports.toml").write_text(PORTS)
    one = None
    if case.one:
        one = compiled(case, path, "1x1")
        cycles = sum(times.cycles for times in run_cycles(one, None).times)
        yield at_most(f"{case.row.name} on a core", "cycles", cycles, case.cycles)
    if case.fewer is not None:
        padded, windows = (
            first_layer(compiled(case, path, "1x1", "--few-channels", how))
            for how in ("off", "core")
        )
        yield at_least(
            f"{case.row.name}, first layer", "cycles, padding / window unit",
            padded / windows, case.fewer,
        )  # fmt: skip
    for chip, target in case.chips.items():
        try:
            yield from of_chip(case, path, (chip, target), x, one)
        except MapperError as error:  # an error on one chip must not stop the others
            yield failed(f"{case.row.name} on {chip}", error)


def failed(of: str, error: Exception) -> Figure:
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return Figure(of, text, None, met=False)


def of_chip(
    case: Case, path: Path, on: tuple[str, Target], x: Array, one: CompiledFolder | None
) -> Iterator[Figure]:
    """Yield the figures of a model on a chip. one : the model compiled for one core"""
    chip, target = on
    began = time.perf_counter()
    folder = compiled(case, path, chip)
    of = f"{case.row.name} on {'2x2, 4 host ports' if chip == 'ports.toml' else chip}"
    yield Figure(of, "cores used", len(folder.images))
    yield Figure(of, "compile seconds", time.perf_counter() - began)
    run = run_frames(folder, x[:CHECKED], FRAMES)
    report = run.report
    assert report.period is not None
    yield at_most(of, "period, cycles", report.period, target.period)
    yield at_most(of, "latency, cycles", report.latency, target.latency)
    yield Figure(
        of, "bottleneck of the period", f"{report.bound.cycles:,.0f}: {report.bound.where}"
    )
    if one is not None:
        cycles = sum(times.cycles for times in run_cycles(one, None).times)
        yield at_least(of, "speed-up over one core", cycles / report.period, target.faster)
        yield equal(of, f"outputs as on one core, {CHECKED} frames", same_values(folder, one, x))
        if case.binary:
            yield equal(of, "binary layers in binary mode", same_modes(folder, one))
    busiest = float(report.links.max())
    yield Figure(of, "busiest link, flits per frame", busiest)
    yield at_most(of, "busiest link / period", busiest / report.period, target.link)
    hops = float(report.links.sum())
    yield Figure(of, "flit-hops per frame", hops)
    for placement in ("row-major", "serpentine"):
        others = hops_in_order(folder, placement == "serpentine")
        least = target.hops if placement == "row-major" else None
        yield at_most(of, f"flit-hops relative to {placement} placement", hops / others, least)
        if target.placements:
            other = run_frames(compiled(case, path, chip, "--baseline", placement), None, FRAMES)
            yield Figure(of, f"period with {placement} placement", other.report.period)
    with traffic_of(folder) as traffic:
        counted = traffic(None)
        loads = counted.unicast_links * counted.weight_unit
        yield equal(of, "flits per link as in tiles.bin", bool((loads == report.links).all()))
    if target.frames is not None:
        yield at_most(
            of,
            f"simulation seconds, {target.frames} frames",
            seconds(folder, target.frames),
            target.seconds,
        )
    if target.steady is not None:
        yield from steady(of, folder, target.steady)


def compiled(case: Case, path: Path, chip: str, *more: str) -> CompiledFolder:
    """Compile the model for a chip; raise `MapperError` with the command's message."""
    folder = "_".join([case.row.name, chip, *more])
    words = ["compile", str(path), "--chip", chip, "-o", folder, "--force", "-q",
             "--no-cache", "--keep-going", *case.options]  # fmt: skip
    if case.row.count:
        words += ["--calibrate", "samples.npz", "--samples", str(case.row.count)]
    with silence() as said:
        code = mapper_main([*words, *more])
    if code not in (0, BEYOND_LIMITS):
        raise MapperError(Path(said).read_text().strip().splitlines()[-1])
    return read_folder(Path(folder))


def first_layer(folder: CompiledFolder) -> int:
    """Return the cycles from start to end of the first layer."""
    report = json.loads((folder.path / "report.json").read_text())
    found: int = report["layers"][0]["cycles"]
    return found


def same_values(folder: CompiledFolder, one: CompiledFolder, x: Array) -> bool:
    """Whether the model's outputs are identical bytes."""
    ours, theirs = (
        simulate(made, x[:CHECKED], threads(), check=False).values for made in (folder, one)
    )
    return all(ours[name].tobytes() == theirs[name].tobytes() for name in theirs)


def same_modes(folder: CompiledFolder, one: CompiledFolder) -> bool:
    """Whether layers that are binary on one core are also purely binary here."""
    alone, here = modes(one), modes(folder)
    bits = [name for name, found in alone.items() if found == {BINARY}]
    return bool(bits) and all(here[name] == {BINARY} for name in bits)


def modes(folder: CompiledFolder) -> dict[str, set[str]]:
    """Return the product kinds of each layer, by its feature map."""
    found: dict[str, set[str]] = {}
    for number, program in enumerate(programs_of(folder).values()):
        first = 0
        for layer in folder.manifest["layers"]:
            stop = layer["end"][number]
            mine = found.setdefault(layer["map"], set())
            for at in range(first, stop):
                op, kind, _ = fields_by_name(program, at)
                if op == "GEMM":
                    mine.add(kind)
            first = max(first, stop)
    return found


@contextlib.contextmanager
def traffic_of(folder: CompiledFolder) -> Iterator[Callable[[Cores | None], Traffic]]:
    """Yield a function that measures the traffic of the tiles with the mapper's metrics.

    The tiles are on their own cores, or on other cores given by number; the host's ports, which are
    the last vertices, stay.
    """
    ports = len(folder.manifest["ports"])
    network, mapping = NetworkFile(folder.path / TILES), folder.path / MAPPING
    with network, open_mapped(network, mapping, folder.chip, MEMORY) as (whole, core):

        def measured(others: Cores | None) -> Traffic:
            at = core.copy()
            if others is not None:
                at[:-ports] = others[core[:-ports]]
            return measure_network(whole, folder.chip, at)

        yield measured


def hops_in_order(folder: CompiledFolder, serpentine: bool) -> float:
    """Return the flit-hops of a frame with the same tiles placed in the order of layers.

    Tiles of one layer are ordered by their rows or channels.
    """
    manifest, chip = folder.manifest, folder.chip
    keys = []
    for number, core in enumerate(manifest["cores"]):
        place = [core["x"], core["y"]]
        ends = [layer["end"][number] > 0 for layer in manifest["layers"]]
        taken = next(one for one in manifest["maps"] if one["core"] == place)
        keys.append((ends.index(True), taken["rows"][0], taken["channels"][0], *place[::-1]))
    order = sorted(range(len(keys)), key=lambda number: keys[number])
    rank = np.argsort(order)
    cores = np.array([key[-2] * chip.width + key[-1] for key in keys])
    others = np.zeros(chip.cores, np.int32)
    others[cores] = in_order(rank, chip, serpentine)
    with traffic_of(folder) as traffic:
        found = traffic(others)
    return found.totals.hops * found.weight_unit


def seconds(folder: CompiledFolder, frames: int) -> float:
    """Return the seconds of a simulation of the chip; kernels are already compiled."""
    chip = chip_of(folder)
    began = time.perf_counter()
    run_mesh(chip, frames)
    return time.perf_counter() - began


def steady(of: str, folder: CompiledFolder, frames: int) -> Iterator[Figure]:
    """Run many frames; check that all complete and that the cycles per frame do not drift.

    The last frames are excluded, because cores fall idle.
    """
    began = time.perf_counter()
    done = run_mesh(chip_of(folder), frames).completed
    yield Figure(of, f"simulation seconds, {frames:,} frames", time.perf_counter() - began)
    apart = np.diff(done)[:-ENDING]
    tenth = frames // 10
    early, late = set(apart[tenth : 2 * tenth].tolist()), set(apart[-tenth:].tolist())
    yield equal(of, f"{frames:,} frames without drift", early == late)


def main() -> int:
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    given = os.environ.get("MAPPER_DATA", str(Path(__file__).resolve().parents[2] / "shared/data"))
    parser.add_argument("--data", type=Path, default=Path(given))
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", choices=[*CASES, *MORE])
    parser.add_argument("--list", action="store_true", help="list the names")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.list:
        print(*CASES, *MORE, sep="\n")
        return 0
    found: list[Figure] = []
    data = options.data.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name in options.only or [*CASES, *MORE]:
            say(f"{name} ...")
            try:
                for one in MORE[name]() if name in MORE else figures(name, data):
                    say(f"  {one.of}: {one.what}: {one.shown} {one.verdict}")
                    found.append(one)
            except Exception as error:  # an error in one model must not stop the others
                found.append(failed(name, error))
    if options.json:
        print(json.dumps([one.as_json() for one in found]))
    else:
        show(found)
    return 0 if all(one.met is not False for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
