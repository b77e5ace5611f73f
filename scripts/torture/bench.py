"""Inputs of all kinds, commands that write, and their undisturbed results."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import pkgutil
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import mapper.cli.compiling
from mapper.cache.location import FOLDER
from mapper.cli.main import main
from mapper.kernels.warmup import Compiled, trust_kernels
from scripts.torture.folder import Restored
from scripts.torture.results import CACHE, Results, different, results
from scripts.torture.running import Prepare, Ran, run
from scripts.torture.shim import Fault, Shim
from tests.compiler.bad_input.good import QUICK, good
from tests.mapper.helpers import random_network
from tests.storage.formats.samples import SAMPLES

NEURONS, SYNAPSES = 600, 4000
CORES = [core for core in range(16) if core != 5]  # of chip.toml
SMALL = (
    "--chip 4x4 --neurons-per-core 40 --preset fast --memory 256MiB --threads 1 "
    "--set block-vertices=128 --set level-budget=0 --set coarse-degree=10 "
    "--set force-iterations=10"
)
COMPILE = f"compile good.onnx {' '.join(QUICK)} --chip 2x2 --calibrate samples.npz"
CYCLES = "--threads 1 --cycles 500 --no-saturation"
LIBRARIES = ("h5py", "jinja2", "onnx", "onnxruntime", "pyarrow.parquet", "rich.table", "obstore",
             "scipy.sparse", "distributed")  # fmt: skip
REFUSES = "refuses"
FIRST = 900.0  # wall seconds of an undisturbed command, which may compile kernels


class Job(NamedTuple):
    """A command that writes.

    output : file or folder that it writes
    again : option that repeats it after a success; "" if it overwrites its output, REFUSES if
        it never does
    resumes : whether it has --resume
    grows : whether its files appear one by one
    """

    name: str
    line: str
    output: str
    again: str = ""
    resumes: bool = False
    weight: float = 1.0
    grows: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.line.split())


JOBS = (
    Job("run", f"run net.bin {SMALL} -q -o new", "new", "--force", True, 4),
    Job("partition", "partition net.bin --parts 4 --preset fast --memory 256MiB --threads 1 -q "
        "-o new", "new", "--force", True, 2),
    Job("generate", "generate cortex new.bin --side 20 --fanout 9 --sigma 3 -q", "new.bin"),
    Job("generate shards", "generate cortex new.shards --side 20 --fanout 9 --files 2 -q",
        "new.shards", REFUSES, grows=True),
    Job("import csv", "import f/edgelist-b.csv new.bin -q", "new.bin"),
    Job("import metis", "import g.graph new.bin -q", "new.bin"),
    Job("import rates", "import net.bin new.bin --rates rates.csv -q", "new.bin"),
    Job("export csv", "export net.bin new.csv -q", "new.csv"),
    Job("export npz", "export net.bin new.npz -q", "new.npz"),
    Job("export parquet", "export net.bin new.parquet -q", "new.parquet"),
    Job("export sonata", "export net.bin new.h5 -q", "new.h5"),
    Job("export mapping", "export out new.csv -q", "new.csv"),
    Job("report", "report out -o new.html -q", "new.html"),
    Job("compile", f"{COMPILE} -q -o new", "new", "--force", weight=2),
    Job("simulate", f"simulate out {CYCLES} -q", "out", grows=True),
    Job("simulate model", "simulate model --input samples.npz --limit 1 -q", "model", grows=True),
    Job("place", "place g.graph --chip 2x2 -o new.npz -q", "new.npz"),
    Job("seeds", f"run net.bin {SMALL} --seeds 1..2 -q -o new", "new", "--force", True, 2, True),
    Job("sweep", "sweep sweep.toml --threads 1 --memory 256MiB -q -o new", "new", "--force", True,
        2, True),
)  # fmt: skip
READ = ("verify out --json", "info out --json", "info net.bin --json", "verify net.bin --json",
        "verify model -q", "check net.bin --chip 4x4 --json",
        "score net.bin map.csv --chip 4x4 -q")  # fmt: skip
"""Further commands of cases, without an output that is compared."""


class Right(NamedTuple):
    """Undisturbed results of a job. calls : number of calls of each class that shims count"""

    files: Results
    calls: dict[str, int]


class Bench:
    """A folder with inputs, and a copy of it for each case at the same path.

    Cache and catalogue of the commands are in it, and empty at the begin of each case.
    shim : shim of system calls, None without a compiler
    """

    def __init__(self, base: Path, shimmed: bool) -> None:
        self.base, self.whole, self.work = base, base / "whole", base / "work"
        self.spare, temporary = base / "spare", base / "temporary"
        for folder in (self.spare, temporary):
            folder.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)  # killed commands leave files
        self.shim = Shim(self.work, self.spare) if shimmed else None
        self._right: dict[str, Right] = {}
        self._restored = Restored(self.whole, self.work)
        os.environ[FOLDER] = str(self.work / CACHE)
        self._import()
        self.work.mkdir()
        self._inputs()
        self._results()
        self.work.rename(self.whole)
        self._warm()

    def fresh(self) -> Path:
        """Return the work folder with its first content."""
        self._restored.restore()
        for path in self.spare.iterdir():
            path.unlink()
        return self.work

    def right(self, job: Job) -> Right:
        """Return the undisturbed results of a job, which runs at the first call."""
        if job.name not in self._right:
            self.fresh()
            arm = (lambda: self.shim.arm(Fault())) if self.shim else None
            self.whole_run(job.line, arm)
            calls = self.shim.counts()[0] if self.shim else {}
            self._right[job.name] = Right(results(self.work), calls)
        return self._right[job.name]

    def is_untouched(self) -> bool:
        """Return whether the work folder has its first content, and its cache is empty."""
        return self._restored.is_whole()

    def write(self, line: str, output: str) -> None:
        """Put the output of a command into the work folder; the command runs at the first call."""
        kept = self.base / "written" / line.replace("/", "_")
        if not kept.exists():
            self.whole_run(line)
            kept.mkdir(parents=True)
            _copy(self.work / output, kept / output)
        else:
            _copy(kept / output, self.work / output)

    def differs(self, job: Job) -> str:
        """Return the files of the work folder that differ from the undisturbed results, or ""."""
        return different(results(self.work), self.right(job).files)

    def whole_run(self, line: str, prepare: Prepare | None = None) -> Ran:
        """Run a command that must succeed."""
        ran = run(line.split(), self.work, prepare, longest=FIRST)
        if ran.code:
            raise RuntimeError(f"mapper {line}: {ran.code}: {ran.said}")
        return ran

    def _import(self) -> None:
        """Import all modules, so that forks need not, and do not compile kernels ahead."""
        trust_kernels()
        mapper.cli.compiling.compile_once = lambda *given, **named: Compiled(0, [], 0, 0.0)
        for name in LIBRARIES:
            with contextlib.suppress(ModuleNotFoundError):
                importlib.import_module(name)
        for package in ("mapper", "storage", "chipsim"):
            paths = importlib.import_module(package).__path__
            for module in pkgutil.walk_packages(paths, f"{package}."):
                if not module.name.endswith("__main__"):
                    with contextlib.suppress(ModuleNotFoundError):
                        importlib.import_module(module.name)

    def _inputs(self) -> None:
        work = self.work
        random_network(work / "net.bin", NEURONS, SYNAPSES, block_size=128)
        good().save(work)
        (work / "g.graph").write_text("4 4\n2 3\n1 4\n1 4\n2 3\n")
        (work / "map.csv").write_text("".join(f"{CORES[v % 15]}\n" for v in range(NEURONS)))
        rates = "".join(f"{v},{v % 7}\n" for v in range(NEURONS))
        (work / "rates.csv").write_text(f"neuron,rate\n{rates}")
        (work / "chip.toml").write_text(
            'name = "c"\nwidth = 4\nheight = 4\nneurons = 40\nunavailable = [5]\n'
            "energy_router = 1.5\n"
        )
        (work / "constraints.toml").write_text(
            '[[pin]]\nneurons = [0, 5]\ncore = "1,0"\n\n[[together]]\nrange = [1, 3]\n'
        )
        (work / "sweep.toml").write_text(
            'network = "net.bin"\nchip = "4x4"\nneurons-per-core = 40\npreset = "fast"\n'
            'seed = "1..2"\n'
        )
        (work / "f").mkdir()
        for kind, samples in SAMPLES.items():
            for sample in samples:
                (work / "f" / f"{kind}-{sample.name}").write_bytes(sample.make(work / "f"))

    def _results(self) -> None:
        """Fill the folders that commands read."""
        self._here(f"run net.bin {SMALL} -q -o out")
        self._here(f"simulate out {CYCLES} -q")
        self._here("generate layered layers.bin --layers 6x6x2,3x3x4,1x1x8 -q")
        self._here(f"run layers.bin {SMALL} -q -o layers")
        self._here(f"{COMPILE} -q -o model")
        self._here(f"run net.bin {SMALL} --seeds 1..2 -q -o seeds")

    def _warm(self) -> None:
        """Run all commands once in this process: forks then have their kernels and templates."""
        for line in (*(job.line for job in JOBS), *READ):
            self.fresh()
            self._here(line)
        gc.collect()
        gc.freeze()  # collections in forks would copy its pages

    def _here(self, line: str) -> None:
        """Run a command that must succeed in this process; its threads end with it."""
        out, said = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.work), contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(said),
        ):  # fmt: skip
            code = main(line.split())
        if code:
            raise RuntimeError(f"mapper {line}: {code}: {said.getvalue()}")


def _copy(path: Path, target: Path) -> None:
    copy = shutil.copytree if path.is_dir() else shutil.copy2
    copy(path, target)


def of_output(found: Results, output: str) -> Results:
    """Return the results of one file or folder."""
    return {name: one for name, one in found.items() if name.split("/")[0] == output}
