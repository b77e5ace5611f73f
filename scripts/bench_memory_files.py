"""Peak memory of all commands against their `--memory`, on files of networks and models.

::

    python scripts/bench_memory_files.py graphs/*.graph models/*.onnx --work /tmp/memory

Each file passes through all commands that accept it, once per budget. See `bench_memory.py` for
what counts.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from bench_common import mapper, say
from bench_memory import Measured, measure, table

BUDGETS = (256, 384, 768)  # MiB
LIMIT = 1200  # seconds
CHIP = ["--chip", "8x8"]
SWEEP = """network = "{net}"
chip = ["8x8", "4x16"]
seed = [1, 2]
"""


def of_network(file: Path, work: Path) -> Iterator[list[str]]:
    """Yield the commands that import a network, map it, and read the result."""
    net, out = f"{work}/net.bin", f"{work}/out"
    yield ["import", str(file), net]
    (work / "sweep.toml").write_text(SWEEP.format(net=net))
    yield ["info", net]
    yield ["verify", net]
    for kind in ("csv", "npz", "parquet", "metis", "sonata"):
        yield ["export", net, f"{work}/net-{kind}", "--format", kind]
    yield ["check", net, *CHIP]
    yield ["run", net, *CHIP, "-o", out, "--force"]
    yield ["run", net, *CHIP, "-o", f"{work}/seeds", "--seeds", "2", "--force"]
    yield ["sweep", f"{work}/sweep.toml", "-o", f"{work}/sweep", "--force"]
    yield ["info", out]
    yield ["verify", out]
    yield ["report", out]
    yield ["simulate", out, "--cycles", "1000"]
    yield ["export", out, f"{work}/mapping.csv"]
    yield ["score", net, f"{work}/mapping.csv", *CHIP]


def of_model(file: Path, work: Path) -> Iterator[list[str]]:
    """Yield the commands that compile a model and read the result."""
    out, samples = f"{work}/out", work / "samples.npz"
    make_samples(file, samples)
    calibrated = [] if is_quantised(file) else ["--calibrate", str(samples)]
    yield [
        "compile",
        str(file),
        "--chip",
        "4x4",
        "--npu",
        "npu",
        *calibrated,
        "-o",
        out,
        "--no-cache",
    ]
    yield ["info", out]
    yield ["simulate", out, "--input", str(samples)]
    yield ["verify", out]
    yield ["disassemble", f"{out}/core_0_0.npc"]


def is_quantised(model: Path) -> bool:
    """Return whether a model has integers, and so needs no samples."""
    import onnx

    words = ("Quant", "QLinear", "Integer")
    return any(word in node.op_type for node in onnx.load(model).graph.node for word in words)


def make_samples(model: Path, path: Path) -> None:
    """Write 16 random samples of a model's first input."""
    import numpy as np
    import onnx

    first = onnx.load(model).graph.input[0]
    shape = [max(1, one.dim_value) for one in first.type.tensor_type.shape.dim]
    data = np.random.default_rng(1).random((16, *shape[1:]), np.float32)
    np.savez(path, **{first.name: data})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--work", type=Path, required=True, help="folder for results")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS, help="MiB")
    parser.add_argument("--json", type=Path, help="write the measurements")
    options = parser.parse_args()
    found: list[Measured] = []
    for file in options.files:
        for memory in options.budgets:
            shutil.rmtree(options.work, ignore_errors=True)
            options.work.mkdir(parents=True)
            commands = of_model if file.suffix == ".onnx" else of_network
            for words in commands(file, options.work):
                if words[1].startswith(str(options.work)) and not Path(words[1]).exists():
                    continue  # the command that makes it was refused
                words += ["--memory", f"{memory}MiB", "-q"]
                found.append(measure(file.name, memory, mapper(*words), LIMIT))
                say(table(found[-1:]).splitlines()[-1])
    print(table([one for one in found if not one.kept]))
    print(f"{len(found)} commands, {sum(not one.kept for one in found)} above the budget or failed")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))
    return 0 if all(one.kept for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
