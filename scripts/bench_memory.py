"""Peak memory of commands against their `--memory`, on inputs that need much memory.

::

    python scripts/bench_memory.py --work /tmp/memory
    python scripts/bench_memory.py --work /tmp/memory --cases names sheet --json memory.json

`--memory` limits anonymous memory (docs/howto/memory.md); resident memory also includes the files
of libraries. A command that refuses to start with exit code 3 has kept the limit. Inputs are
created once, in separate processes. After a change of kernels run a case twice: the first run
compiles.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench_common import mapper, need, say

SLACK = 1.05  # factor on --memory: rounding of the allocator and the operating system
DOES_NOT_FIT = 3  # exit code of a refusal
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """A command on an input; `{input}` and `{output}` in it are replaced by paths.

    suffix : suffix of the input's name; make : command that creates it, its path is appended
    memory : value of --memory, MiB
    """

    name: str
    suffix: str
    make: Sequence[str]
    memory: int
    command: Sequence[str]


def _own(name: str) -> list[str]:
    return [sys.executable, __file__, "--make", name]


SHEET = mapper("generate", "cortex", "--side", "512", "--fanout", "50", "--sigma", "12")
SHEET += ["--long-range", "0.1", "-q"]
SMALL = mapper("generate", "cortex", "--side", "100", "--fanout", "50", "--sigma", "6", "-q")
CASES = (
    Case("names", ".csv", _own("names"), 256, ["import", "{input}", "{output}.bin"]),
    Case("sparse", ".txt", _own("sparse"), 256, ["import", "{input}", "{output}.bin"]),
    Case("parquet", ".parquet", _own("parquet"), 256, ["import", "{input}", "{output}.bin"]),
    Case(
        "sheet",
        ".bin",
        SHEET,
        512,
        ["run", "{input}", "--chip", "32x32", "--neurons-per-core", "264", "-o", "{output}"],
    ),
    Case(
        "axons",
        ".bin",
        SMALL,
        256,
        ["run", "{input}", "--chip", "16x16", "--neurons-per-core", "64",
         "--axons-per-core", "600", "-o", "{output}"],
    ),
)  # fmt: skip


def make_names(path: Path, names: int = 3_000_000) -> None:
    """Write a table of synapses between named neurons; each neuron is a source once."""
    import numpy as np

    rng = np.random.default_rng(1)
    order = rng.permutation(names)
    with path.open("w") as file:
        file.write("source,target,weight\n")
        for first in range(0, names, 1 << 16):
            source = order[first : first + (1 << 16)].tolist()
            target = rng.integers(0, names, len(source)).tolist()
            file.writelines(
                f"neuron-{u:07d},neuron-{v:07d},{u % 9 + 1}\n"
                for u, v in zip(source, target, strict=True)
            )


def make_sparse(path: Path, ids: int = 10_000_000) -> None:
    """Write an edge list between ids with gaps; each id is a source once."""
    import numpy as np

    rng = np.random.default_rng(2)
    with path.open("w") as file:
        for first in range(0, ids, 1 << 18):
            source = np.arange(first, min(first + (1 << 18), ids))
            target = rng.integers(0, ids, source.size)
            rows = np.column_stack([source * 7919 + 11, target * 7919 + 11])
            file.write("".join(f"{u} {v}\n" for u, v in rows.tolist()))


def make_parquet(path: Path, edges: int = 8_000_000) -> None:
    """Write a table of weighted edges in one large row group."""
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(3)
    columns = rng.integers(0, 1_000_000, (2, edges)) * 3 + 1
    table = pyarrow.table(
        {"source": columns[0], "target": columns[1], "weight": rng.integers(1, 9, edges)}
    )
    pyarrow.parquet.write_table(table, path, row_group_size=edges)


MAKERS: dict[str, Callable[[Path], None]] = {
    "names": make_names,
    "sparse": make_sparse,
    "parquet": make_parquet,
}


@dataclass(slots=True)
class Measured:
    """Peaks in bytes (`anonymous` is sampled) and state: ok, refused or the reason of failure."""

    case: str
    command: str
    promised: int
    anonymous: int
    resident: int
    cpu_seconds: float
    seconds: float
    state: str

    @property
    def kept(self) -> bool:
        return self.state in ("ok", "refused") and self.anonymous <= SLACK * self.promised


def anonymous(process: int) -> int:
    """Return the anonymous memory of a process and of all that it started, bytes."""
    total = 0
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                total = int(line.split()[1]) * 1024
    except OSError:  # it has ended
        return 0
    return total + sum(anonymous(int(child)) for child in children)


def measure(case: str, memory: int, command: Sequence[str], limit: float) -> Measured:
    """Run a command in a separate process and sample its memory."""
    import os

    peak = 0
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    done = threading.Event()
    late = False

    def watch() -> None:
        nonlocal peak, late
        while not done.wait(0.005):
            peak = max(peak, anonymous(child.pid))
            if time.perf_counter() - start > limit:
                late = True
                child.kill()
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert child.stderr is not None
    said = child.stderr.read().strip()
    _, code, used = os.wait4(child.pid, 0)
    done.set()
    watcher.join()
    child.returncode = os.waitstatus_to_exitcode(code)
    state = "ok"
    if late:
        state = f"over {limit:g} s"
    elif child.returncode == DOES_NOT_FIT:
        state = "refused"
    elif child.returncode:
        state = f"exit {child.returncode}"
    if said:
        say(said.splitlines()[-1])
    return Measured(
        case,
        command[3],
        memory * MIB,
        peak,
        used.ru_maxrss * 1024,
        used.ru_utime + used.ru_stime,
        time.perf_counter() - start,
        state,
    )


def table(found: Sequence[Measured]) -> str:
    lines = [
        "| case | command | promised MiB | anonymous | resident | CPU s | state | kept |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.case} | {one.command} | {one.promised // MIB} | {one.anonymous // MIB} "
        f"| {one.resident // MIB} | {one.cpu_seconds:.0f} | {one.state} "
        f"| {'yes' if one.kept else 'NO'} |"
        for one in found
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--work", type=Path, help="folder for inputs and results")
    parser.add_argument("--cases", nargs="*", default=[case.name for case in CASES])
    parser.add_argument("--memory", type=int, help="MiB (default: set by each case)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, help="time limit of a command, seconds")
    parser.add_argument("--json", type=Path, help="write the measurements")
    parser.add_argument(
        "--make", nargs=2, metavar=("NAME", "FILE"), help="create an input and exit"
    )
    options = parser.parse_args()
    if options.make:
        MAKERS[options.make[0]](Path(options.make[1]))
        return 0
    if options.work is None:
        parser.error("--work: missing; name a folder")
    options.work.mkdir(parents=True, exist_ok=True)
    found = []
    for case in CASES:
        if case.name not in options.cases:
            continue
        source = options.work / f"{case.name}{case.suffix}"
        if not source.exists():
            say(f"creating {source.name}")
            need([*case.make, str(source)])
        output = options.work / f"{case.name}-result"
        memory = options.memory or case.memory
        words = [
            word.format(input=source, output=output) for word in case.command
        ]  # --force replaces the result of an earlier call
        if case.command[0] == "run":
            words.append("--force")
        words += ["--memory", f"{memory}MiB", "--threads", str(options.threads), "-q"]
        found.append(measure(case.name, memory, mapper(*words), options.limit))
        say(table(found[-1:]).splitlines()[-1])
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return 0 if all(one.kept for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
