"""Golden manifest: hashes of the commands' outputs for small networks, models and many options.

    python scripts/golden.py                 check all runs against tests/golden/manifest.json
    python scripts/golden.py --check         check a sample, in a minute
    python scripts/golden.py --only strong   check runs whose names contain a text
    python scripts/golden.py --record        write the manifest; each run twice in two processes

Refactoring must not change any hash. A change of method records the manifest again and gives the
reason in its commit message. Integers are hashed exactly, floating-point numbers to nine digits.
Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from golden_cases import CHIP, CONVERSIONS, GROUPS, HARDWARE, NETWORKS, PINS, PRESETS, Run, runs
from golden_models import Compilation, compilations, make

MANIFEST = Path(__file__).resolve().parents[1] / "tests" / "golden" / "manifest.json"
DIGITS = 9

Hashes = dict[str, str]


# Hashing


def digest(value: object) -> str:
    """Return the SHA-256 of JSON-like values, bytes and arrays; floats to nine digits."""
    state = hashlib.sha256()
    for part in _parts(value):
        state.update(part)
    return state.hexdigest()


def _parts(value: object) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield f"\n{key}:".encode()
            yield from _parts(value[key])
    elif isinstance(value, (list, tuple)):
        yield f"[{len(value)}".encode()
        for item in value:
            yield from _parts(item)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
        yield str(value.shape).encode()
        yield from (f"{x:.{DIGITS}g} ".encode() for x in value.ravel().tolist())
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, float):
        yield f"{value:.{DIGITS}g} ".encode()
    else:
        yield f"{value} ".encode()


def _of_file(path: Path) -> str:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return digest({name: file[name] for name in file.files})
    return digest(path.read_bytes().replace(os.fsencode(Path.cwd()), b"."))


def _timeless(answer: dict[str, Any]) -> object:
    """Return the metrics of an answer, without its seconds and bytes."""
    return answer.get("metrics", answer)


# Running


def _command(argv: list[str]) -> str:
    """Run a command and return its stdout."""
    from mapper.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(argv)
    if code:
        raise RuntimeError(f"mapper {' '.join(argv)}: exit code {code}: {err.getvalue()}")
    return out.getvalue()


def _enter(folder: str) -> None:
    """Enter a separate folder per process; file names are relative, because some exports store
    them.
    """
    own = Path(folder) / str(os.getpid())
    own.mkdir()
    os.chdir(own)
    Path("pins.toml").write_text(PINS)
    Path("chip.toml").write_text(CHIP)


def _network(name: str) -> Path:
    path = Path(name)
    if not path.exists():
        make = (NETWORKS | GROUPS)[name]
        if isinstance(make, str):
            kind, *options = make.split()
            _command(["generate", kind, str(path), *options, "-q"])
        else:
            make(path)
    return path


def _map(run: Run) -> Hashes:
    network, result = _network(run.network), Path("result")
    _command(
        ["run", str(network), *run.options.split(), "-o", str(result), "--force", "-q", "--json"]
    )
    report = json.loads((result / "report.json").read_text())
    found = {
        "mapping": _of_file(result / "mapping.npz"),
        "metrics": digest(report["metrics"]),
        "levels": digest(report["levels"]),
        "traffic": _of_file(result / "traffic.npz"),
    }
    for command in run.after:
        outputs = Path("after")
        outputs.mkdir()
        places = {"result": result, "to": outputs / "to", "network": network}
        text = _command([word.format(**places) for word in command.split()] + ["-q"])
        kind, _, rest = command.partition(" ")
        found[f"{kind} {rest.partition(' ')[2]}".format(result="", to="", network="").strip()] = (
            digest([[path.name, _of_file(path)] for path in sorted(outputs.iterdir())])
            if "{to}" in command
            else digest(_timeless(json.loads(text)))
        )
        for path in outputs.iterdir():
            path.unlink()
        outputs.rmdir()
    return found


def _convert(name: str) -> Hashes:
    """Export a network to each format."""
    network = _network(name)
    if network.suffix != ".bin":
        _command(["import", str(network), "imported.bin", "-q"])
        network = Path("imported.bin")
    found = {}
    for ending in CONVERSIONS:
        to = Path(f"converted{ending}")
        _command(["export", str(network), str(to), "-q"])
        found[ending] = _of_file(to)
        to.unlink()
    Path("imported.bin").unlink(missing_ok=True)
    return found


def _place(name: str, options: str) -> Hashes:
    network, to = _network(name), Path("placed.npz")
    text = _command(
        ["place", str(network), *options.split(), "-o", str(to), "--json", "-q", "--seed", "1"]
    )
    found = {"cores": _of_file(to), "metrics": digest(json.loads(text)["metrics"])}
    to.unlink()
    return found


def _compile(compilation: Compilation) -> Hashes:
    """Compile a model and simulate its samples; hash programs and results.

    The version of the project and its hashes of files are not part of the manifest.
    """
    model, samples = make(compilation.model)
    folder = Path("compiled")
    options = compilation.options.split()
    _command(
        [
            "compile",
            str(model),
            *options,
            "-o",
            str(folder),
            "--force",
            "--no-cache",
            "-q",
            "--json",
        ]
    )
    manifest, graph, host = (
        json.loads((folder / f"{name}.json").read_text())
        for name in ("manifest", "graph", "host_plan")
    )
    for name in ("tool", "sha256", "files", "model"):
        del manifest[name]
    optional = [folder / name for name in ("weights.bin", "tiles.bin", "mapping.npz")]
    programs = [folder / "macros.bin", *sorted(folder.glob("core_*.npc"))]
    programs += [path for path in optional if path.exists()]
    simulated = json.loads(
        _command(["simulate", str(folder), "--input", str(samples), "--check", "--json", "-q"])
    )
    del simulated["judge"]  # decibels against ONNX Runtime, whose order of summation varies
    return {
        "manifest": digest(manifest),
        "programs": digest([[path.name, _of_file(path)] for path in programs]),
        "graph": digest([graph, _of_file(folder / "graph.npz")]),
        "host plan": digest(host),
        "results": digest(simulated),
    }


def _hardware(options: str) -> Hashes:
    to = Path("chip.v")
    _command(["hw", *options.split(), "--verilog", str(to), "-q"])
    return {"verilog": _of_file(to)}


def cases() -> dict[str, tuple[Callable[..., Hashes], tuple[Any, ...], bool]]:
    """Return all cases by name: function, arguments, whether the sample includes it."""
    found: dict[str, tuple[Callable[..., Hashes], tuple[Any, ...], bool]] = {
        f"run {name}": (_map, (run,), run.sample) for name, run in runs().items()
    }
    for name in NETWORKS:
        if name != "nets.hgr":
            found[f"export {name}"] = (_convert, (name,), name == "grid.graph")
    for name in GROUPS:
        for preset in PRESETS:
            options = f"--chip {'7x7' if 'dnn' in name else '10x10'} --preset {preset}"
            found[f"place {name}/{preset}"] = (_place, (name, options), preset == "fast")
    for name, compilation in compilations().items():
        found[f"compile {name}"] = (_compile, (compilation,), compilation.sample)
    for options in HARDWARE:
        found[f"hw {options}"] = (_hardware, (options,), False)
    return found


def _one(name: str) -> tuple[str, Hashes | str, float]:
    """Return the hashes of a case or the error, and the seconds."""
    function, arguments, _ = cases()[name]
    started = time.monotonic()
    try:
        found: Hashes | str = function(*arguments)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return name, found, time.monotonic() - started


def measure(names: Iterable[str], folder: str) -> Iterator[tuple[str, Hashes | str, float]]:
    """Yield the hashes of cases, computed by two processes."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, _enter, (folder,)) as pool:
        yield from pool.map(_one, names)


# The command


def record(names: list[str], folder: str) -> int:
    """Write the manifest if two separate processes agree on every hash."""
    known = json.loads(MANIFEST.read_text())["cases"] if MANIFEST.exists() else {}
    first = {name: found for name, found, _ in measure(names, folder)}
    with tempfile.TemporaryDirectory() as other:
        second = {name: found for name, found, _ in measure(list(reversed(names)), other)}
    bad = [name for name in names if isinstance(first[name], str) or first[name] != second[name]]
    for name in bad:
        print(f"{name}: failed or not reproducible: {_difference(first[name], second[name])}")
    if bad:
        return 1
    hashes = {name: found for name in cases() if (found := first.get(name, known.get(name)))}
    machine = {"processor": platform.processor() or platform.machine(), "numpy": np.__version__}
    manifest = {"recorded_on": machine, "cases": hashes}
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n")
    print(f"{len(names)} cases recorded")
    return 0


def _difference(found: Hashes | str, want: Hashes | str) -> str:
    if isinstance(found, str) or isinstance(want, str):
        return str(found)
    return "differs: " + ", ".join(key for key in want | found if want.get(key) != found.get(key))


def check(names: list[str], folder: str) -> int:
    """Compare with the manifest."""
    known = json.loads(MANIFEST.read_text())["cases"]
    wrong = 0
    for name, found, seconds in measure(names, folder):
        want = known.get(name)
        if found == want:
            print(f"ok {seconds:5.1f} s  {name}", flush=True)
            continue
        wrong += 1
        differ = "not in the manifest" if want is None else _difference(found, want)
        print(f"-- {seconds:5.1f} s  {name}: {differ}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} cases as recorded")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="check only the sample")
    parser.add_argument("--record", action="store_true", help="write the manifest")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only cases whose names contain TEXT"
    )
    arguments = parser.parse_args()
    sys.path.insert(0, str(MANIFEST.parents[2]))
    names = [
        name
        for name, (_, _, sample) in cases().items()
        if arguments.only in name and (sample or not arguments.check)
    ]
    if not names:
        parser.error(f"--only: no case name contains {arguments.only!r}")
    with tempfile.TemporaryDirectory() as folder:
        return (record if arguments.record else check)(names, folder)


if __name__ == "__main__":
    sys.exit(main())
