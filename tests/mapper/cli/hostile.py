"""Malicious files, and checks that each command refuses them.

    python -m tests.mapper.cli.hostile FOLDER

Every command runs in a process forked from this one after it has run the command on valid files, so
that the memory of the child beyond the start is its own. Prints the faults.
"""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from isal import isal_zlib

import mapper.cli.compiling
from chipsim.chip.model import Chip
from mapper.cli.main import main
from mapper.kernels.warmup import trust_kernels
from storage.store.archive import ArchiveWriter, Packed, pack
from tests.compiler.bad_input.good import good
from tests.mapper.cli.hostile_sizes import COMPILE, table
from tests.mapper.helpers import members_of, random_network
from tests.mapper.reporting.made import random_folder

SECONDS, MEMORY = 2.0, 100 << 20
NOISE = 1.5  # factor on time and memory, for busy machines
LONGEST = 60  # wall seconds; then a command counts as hanging
MOST_MEMORY = 8 << 30  # limit in any case
MOST_SAID = 1000  # characters of an error message, including paths
GIB = 1 << 30
Make = Callable[[Path], None]

ZEROS = bytes(1 << 24)


@cache
def zeros(count: int, head: bytes) -> tuple[bytes, int]:
    """Return deflated bytes and checksum of `head` and `count` zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    opening = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    times, crc = count // len(ZEROS), isal_zlib.crc32(head)
    for _ in range(times):
        crc = isal_zlib.crc32(ZEROS, crc)
    return opening + piece * times + packer.flush(), crc


def bomb(member: str, head: bytes = b"", size: int = 3 * GIB) -> Make:
    """Return a function that replaces a member of an archive by one that inflates to zeros."""

    def make(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            kept = {name: archive.read(name) for name in archive.namelist() if name != member}
        packed, crc = zeros(size, head)
        with ArchiveWriter(path) as writer:
            for name, raw in kept.items():
                writer.add(pack(name, raw))
            writer.add(Packed(member, packed, size + len(head), crc))
            writer.commit()

    return make


def array_bomb(member: str) -> Make:
    """Return the same for an array member, with a matching array header."""
    buffer = io.BytesIO()
    about = {"descr": "<i8", "fortran_order": False, "shape": (3 * GIB // 8,)}
    np.lib.format.write_array_header_1_0(buffer, about)
    return bomb(member, buffer.getvalue())


def device(name: str) -> Make:
    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.symlink_to(name)

    return make


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def circle(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)


def endless(path: Path) -> None:
    """Create a sparse file of 1 TiB."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(1 << 40)


def line(head: bytes, piece: bytes, size: int = 100 << 20) -> Make:
    """Return a function that writes a line of 100 MB."""

    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        block = piece * ((1 << 20) // len(piece))
        with path.open("wb") as file:
            file.write(head)
            for _ in range(size >> 20):
                file.write(block)

    return make


def text(content: str | bytes) -> Make:
    raw = content.encode() if isinstance(content, str) else content

    def make(path: Path) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(raw)

    return make


def meta(**changes: str) -> Make:
    """Return a function that changes values of a network's meta.json, given as JSON texts."""

    def make(path: Path) -> None:
        with members_of(path) as members:
            found: dict[str, Any] = json.loads(members["meta.json"])
            texts = {key: json.dumps(value) for key, value in found.items()} | changes
            text = ",".join(f'"{key}":{value}' for key, value in texts.items())
            members["meta.json"] = f"{{{text}}}".encode()

    return make


@dataclass(frozen=True)
class Case:
    """name : damage; file : damaged file, and the damage; commands : commands to run"""

    name: str
    file: str
    make: Make
    commands: tuple[str, ...]


NETWORK = (
    "info net.bin", "verify net.bin", "run net.bin --chip 4x4 -o new", "check net.bin --chip 4x4",
    "score net.bin map.csv --chip 4x4", "export net.bin new.csv", "place net.bin --chip 4x4",
    "import net.bin new.bin --rates rates.csv",
)  # fmt: skip
FOLDER = ("info out", "verify out", "report out", "simulate out", "export out new.csv")
READERS = ("run net.bin --chip 4x4 --resume -o out", *FOLDER)
MAPPED = ("verify out", "export out new.csv", "simulate out")
SCORE = ("score net.bin map.csv --chip 4x4",)
RATES = (
    "run net.bin --chip 4x4 --rates rates.csv -o new",
    "import net.bin new.bin --rates rates.csv",
)
CHIP = ("run net.bin --chip chip.toml -o new", "check net.bin --chip chip.toml")
PINS = (
    "run net.bin --chip 4x4 --constraints constraints.toml -o new",
    "check net.bin --chip 4x4 --constraints constraints.toml",
)


def imports(name: str, *options: str) -> tuple[str, ...]:
    return (f"import {name} new.bin {' '.join(options)}", f"run {name} --chip 4x4 -o new")


def odd(file: str, commands: tuple[str, ...]) -> list[Case]:
    """Return cases with a special file in place of a regular file."""
    return [
        Case("a device without end", file, device("/dev/zero"), commands),
        Case("a pipe that nobody writes to", file, pipe, commands),
        Case("links in a circle", file, circle, commands),
        Case("a tebibyte of nothing", file, endless, commands),
    ]


DIGITS = "9" * 5000
DEEP = "[" * 200_000
CASES = [
    *odd("net.bin", NETWORK),
    *odd("map.csv", SCORE),
    *odd("rates.csv", RATES[1:]),
    *odd("chip.toml", CHIP),
    *odd("constraints.toml", PINS),
    *odd("out/report.json", READERS),
    *odd("out/mapping.npz", MAPPED),
    *[case for name in ("g.graph", "g.csv", "g.mtx", "g.npz", "g.h5", "g.nir", "g.onnx", "g.bgf",
                        "g.hgr", "g.dat", "g.graphml", "g.parquet", "g.json")
      for case in odd(name, imports(name)[:1])],
    Case("a bomb", "net.bin", bomb("blocks/00000000"), NETWORK),
    Case("a bomb of text", "net.bin", bomb("meta.json"), NETWORK),
    Case("a bomb of sizes", "net.bin", bomb("attributes/size/00000000"), NETWORK[1:4]),
    Case("a bomb", "out/mapping.npz", array_bomb("core.npy"), MAPPED),
    Case("a bomb", "out/traffic.npz", array_bomb("usage.npy"), ("report out",)),
    Case("a bomb", "rates.npz", array_bomb("rate.npy"),
         ("import net.bin new.bin --rates rates.npz",)),
    Case("a bomb", "map.npz", array_bomb("core.npy"), ("score net.bin map.npz --chip 4x4",)),
    *[Case(f"a line of {what}", name, line(head, piece), commands)
      for name, head, commands in (
          ("g.graph", b"", imports("g.graph")),
          ("g.hgr", b"", imports("g.hgr")),
          ("g.mtx", b"%%MatrixMarket matrix coordinate real general\n", imports("g.mtx")),
          ("g.csv", b"", imports("g.csv")),
          ("g.txt", b"# a comment\n", imports("g.txt")),
          ("named.csv", b"source,target\na,b\n", imports("named.csv")),
          ("g.dat", b"", imports("g.dat")[:1]),
          ("rates.csv", b"neuron,rate\n", RATES[1:]),
          ("map.csv", b"", SCORE),
      )
      for what, piece in (("letters", b"x"), ("digits", b"7"))],
    Case("a second line of digits", "g.graph", line(b"2 1\n2", b"7"), imports("g.graph")),
    Case("a second line of digits", "g.mtx",
         line(b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1", b"7"), imports("g.mtx")),
    Case("a comment", "g.graph", line(b"%", b"x"), imports("g.graph")[:1]),
    Case("a tag", "g.graphml", line(b"<graphml a='", b"x"), imports("g.graphml")[:1]),
    Case("long numbers", "g.graph", text(f"{DIGITS} 1\n2\n"), imports("g.graph")),
    Case("long numbers", "g.hgr", text(f"1 {DIGITS}\n1 2\n"), imports("g.hgr")),
    Case("long numbers", "g.mtx",
         text(f"%%MatrixMarket matrix coordinate real general\n2 2 {DIGITS}\n"), imports("g.mtx")),
    Case("long numbers", "g.csv", text(f"0,{DIGITS}\n"), imports("g.csv")),
    Case("long numbers", "rates.csv", text(f"neuron,rate\n{DIGITS},1\n"), RATES[1:]),
    Case("long numbers", "map.csv", text(f"{DIGITS}\n"), SCORE),
    Case("a long size", "g.dat", text("1e400 0 1\n"), imports("g.dat")),
    Case("a size that overflows", "g.dat", text("1e300\n0 1\n"), imports("g.dat")),
    Case("long numbers", "chip.toml", text(f"width = {DIGITS}\nheight = 2\n"), CHIP),
    Case("long hexadecimal numbers", "chip.toml",
         text(f"width = 2\nheight = 2\nenergy_link = 0x{DIGITS}\n"), CHIP),
    Case("depth", "chip.toml", text(f"width = {DEEP}"), CHIP),
    Case("depth of keys", "chip.toml", text("a." * 200_000 + "a = 1"), CHIP),
    Case("long numbers", "constraints.toml",
         text(f"[[pin]]\nneurons = [{DIGITS}]\ncore = 1"), PINS),
    Case("long hexadecimal numbers", "constraints.toml",
         text(f"[[pin]]\nneurons = [0]\ncore = 0x{DIGITS}"), PINS),
    Case("depth", "constraints.toml", text(f"pin = {DEEP}"), PINS),
    Case("depth of keys", "constraints.toml", text("a." * 200_000 + "a = 1"), PINS),
    *[Case(f"{what} in {key}", "net.bin", meta(**{key: value}), NETWORK)
      for key, what, value in (
          ("neurons", "long numbers", DIGITS), ("provenance", "depth", DEEP),
          ("provenance", "some depth", '{"a":' + "[" * 900 + "]" * 900 + "}"),
          ("weight_unit", "NaN", "NaN"), ("weight_unit", "infinity", "Infinity"),
          ("weight_unit", "a large unit", "1e308"), ("weight_unit", "a long unit", DIGITS),
          ("version", "a text", '"1"'), ("version", "a long list", f"[{'1,' * 99999}1]"),
          ("version", "true", "true"), ("attributes", "text", '"x"'),
          ("neurons", "too many", "2147483647"),
      )],
    Case("depth", "out/report.json", text('{"schema": 1, "network": ' + DEEP), READERS),
    Case("long numbers", "out/report.json", text('{"schema": ' + DIGITS + "}"), READERS),
    Case("no values", "out/report.json", text('{"schema": 1}'), READERS),
    Case("no UTF-8", "out/report.json", text(b'{"schema": "\xff"}'), READERS),
    *[Case(*one) for one in table()],
]  # fmt: skip


def prepare(folder: Path) -> None:
    """Create valid files of all kinds."""
    chip = Chip("small", 4, 4, neurons=64)
    random_folder(folder / "out", chip, neurons=16)
    random_network(folder / "net.bin", 16, 60, sizes=[1, 2] * 8)
    (folder / "map.csv").write_text("".join(f"{v % 16}\n" for v in range(16)))
    np.savez(folder / "map.npz", core=np.arange(16))
    (folder / "rates.csv").write_text("neuron,rate\n" + "".join(f"{v},1\n" for v in range(16)))
    np.savez(folder / "rates.npz", rate=np.ones(16))
    (folder / "chip.toml").write_text("width = 4\nheight = 4\n")
    (folder / "constraints.toml").write_text("[[pin]]\nneurons = [0]\ncore = 1\n")
    good().save(folder)
    np.save(folder / "samples.npy", good().samples["x"])
    shutil.copy(folder / "good.onnx", folder / "g.onnx")
    (folder / "g.csv").write_text("0,1\n1,2\n")
    (folder / "g.graph").write_text("2 1\n2\n1\n")


WARM = (
    *NETWORK,
    *FOLDER,
    *RATES,
    *CHIP,
    *PINS,
    *SCORE,
    *imports("g.csv"),
    *imports("g.graph"),
    *imports("g.onnx")[:1],
    COMPILE,
)


def attempt(folder: Path, command: str) -> tuple[int, str, float, int]:
    """Run a command in a child; return exit code, output, processor seconds, and bytes of memory
    growth.
    """
    said = folder / "said"
    child = os.fork()
    if not child:
        code = 99
        try:
            signal.alarm(LONGEST)
            resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
            before = resource.getrusage(resource.RUSAGE_SELF)
            with said.open("w") as stream:
                sys.stderr, sys.stdout = stream, io.StringIO()
                code = main(command.split())
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException as error:
            said.write_text(f"{type(error).__name__}: {error}"[:MOST_SAID])
        finally:
            after = resource.getrusage(resource.RUSAGE_SELF)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            grown = (after.ru_maxrss - before.ru_maxrss) << 10
            (folder / "used").write_text(f"{took} {grown}")
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return -os.WTERMSIG(status), "", 0.0, 0
    took, grown = (folder / "used").read_text().split()
    return os.WEXITSTATUS(status), said.read_text(errors="replace"), float(took), int(grown)


def wrong(folder: Path, case: Case, command: str) -> str:
    """Return the fault of a command on a file, or ""."""
    return fault_of(case, *attempt(folder, command))


def fault_of(case: Case, code: int, said: str, took: float, grown: int) -> str:
    """Return the fault in the result of an attempt, or ""."""
    if code not in (1, 2, 3):
        return f"ended with {code}: {said[:300]}"
    lines = said.splitlines()
    if len(lines) != 1 or not said.isascii() or len(said) > MOST_SAID:
        return f"is not one plain line: {said[:300]!r}"
    if Path(case.file).name not in said and case.file.split("/")[0] not in said:
        return f"does not name the file: {said}"
    if took > SECONDS * NOISE or grown > MEMORY * NOISE:
        return f"took {took:.1f} s and {grown >> 20} MiB: {said[:300]}"
    return ""


def faults(folder: Path) -> Iterator[str]:
    os.chdir(folder)
    prepare(folder)
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    for command in WARM:
        sys.stderr, sys.stdout = io.StringIO(), io.StringIO()
        try:
            code = main(command.split())
            said = sys.stderr.getvalue()
        finally:
            sys.stderr, sys.stdout = sys.__stderr__, sys.__stdout__
        if code:
            yield f"{command}: valid files are refused: {said}"
        for path in folder.glob("new*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for case in CASES:
        path = folder / case.file
        case.make(path)
        for command in case.commands:
            if fault := wrong(folder, case, command):
                yield f"{case.file}, {case.name}: {command}: {fault}"
        path.unlink()
        if (whole / case.file).exists():
            shutil.copy(whole / case.file, path)


def run(folder: Path) -> int:
    """Print the faults and return their number."""
    trust_kernels()
    mapper.cli.compiling.compile_once = lambda *given: None  # compiled on demand
    folder.mkdir()
    tempfile.tempdir = str(folder)
    count = 0
    for fault in faults(folder):
        print(fault, flush=True)  # noqa: T201
        count += 1
    return count


if __name__ == "__main__":
    sys.exit(1 if run(Path(sys.argv[1])) else 0)
