"""Kinds of files, the commands that read them, and what must hold if they end with 0."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from scripts.torture.bench import COMPILE, CYCLES, SMALL
from tests.storage.formats.samples import SAMPLES

SAME, MAPPING, METRICS, ANY = "same", "mapping", "metrics", "any"
"""Requirement on a command that ends with 0: it prints and writes the same as before the damage; it
writes the same mapping; the metrics in the file are as before; or any result, because the format
has no checksum."""


class Reader(NamedTuple):
    """A command that reads a file. then : a command that must succeed after it, or \"\""""

    line: str
    requires: str = SAME
    then: str = ""


class Kind(NamedTuple):
    """A kind of file. files : glob of its files in the work folder; weight : of its cases"""

    name: str
    files: str
    readers: tuple[Reader, ...]
    weight: float = 1.0


def imported(kind: str) -> Kind:
    """Return the kind of a format of networks; it must import a valid network."""
    reader = Reader("import {} new.bin -q", ANY, "verify new.bin -q")
    return Kind(kind, f"f/{kind}-*", (reader,))


KINDS = (
    Kind("net.bin", "net.bin", (
        Reader("verify net.bin --json"), Reader("export net.bin new.csv --json"),
        Reader("info net.bin --json"), Reader("check net.bin --chip 4x4 --memory 256MiB -q"),
        Reader(f"run net.bin {SMALL} -q -o new", MAPPING),
    ), 3),
    Kind("mapping.npz", "out/mapping.npz", (
        Reader("verify out --json"), Reader("export out new.csv --json"),
        Reader("score net.bin out/mapping.npz --chip 4x4 --memory 256MiB --json"),
    ), 2),
    Kind("traffic.npz", "out/traffic.npz", (Reader("report out -o new.html -q"),)),
    Kind("populations.npz", "layers/populations.npz", (
        Reader("report layers -o new.html -q"),
    )),
    Kind("report.json", "out/report.json", (
        Reader("verify out -q", METRICS), Reader("info out --json", ANY),
        Reader("report out -o new.html -q", ANY), Reader(f"simulate out {CYCLES} -q", ANY),
    ), 2),
    Kind("compiled folder", "model/*", (
        Reader("verify model --json"),
        Reader("simulate model --input samples.npz --limit 1 --json"),
        Reader("disassemble model/core_0_0.npc"), Reader("info model --json", ANY),
    ), 4),
    Kind("samples.npz", "samples.npz", (
        Reader("simulate model --input samples.npz --limit 1 --json"),
    )),
    Kind("ONNX", "good.onnx", (Reader(f"{COMPILE} -q -o new", ANY, "verify new -q"),), 0.3),
    Kind("ranges.json", "model/ranges.json", (
        Reader("compile good.onnx --chip 2x2 --calibrate model/ranges.json --max-loss 100 "
               "--min-signal -100 -q -o new", ANY, "verify new -q"),
    ), 0.3),
    Kind("portfolio.json", "seeds/portfolio.json", (
        Reader(f"run net.bin {SMALL} --seeds 1..2 -q -o seeds --resume", ANY),
    ), 0.5),
    Kind("chip file", "chip.toml", (
        Reader("check net.bin --chip chip.toml --memory 256MiB -q", ANY),
        Reader("score net.bin map.csv --chip chip.toml --memory 256MiB -q", ANY),
    )),
    Kind("constraints", "constraints.toml", (
        Reader("check net.bin --chip 4x4 --memory 256MiB --constraints constraints.toml -q", ANY),
    )),
    Kind("sweep file", "sweep.toml", (Reader("sweep sweep.toml -q -o net.bin", ANY),), 0.5),
    Kind("rates", "rates.csv", (
        Reader("import net.bin new.bin --rates rates.csv -q", ANY, "verify new.bin -q"),
    )),
    Kind("mapping.csv", "map.csv", (
        Reader("score net.bin map.csv --chip 4x4 --memory 256MiB -q", ANY),
    )),
    *(imported(kind) for kind in SAMPLES),
)  # fmt: skip


def files_of(kind: Kind, folder: Path) -> list[Path]:
    """Return the files of a kind in order."""
    return sorted(path for path in folder.glob(kind.files) if path.is_file())
