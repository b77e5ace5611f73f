"""Every chip of `mapper chips` on five networks: processor time, memory and hops, or the reason
why the network does not fit.

    python scripts/bench_chips.py FOLDER [--chips C ...] [--networks N ...] [--limit SECONDS]
                                  [--json FILE]

Runs use no option but the chip. Hops count the packets that the chip sends, in millions.
Networks missing in FOLDER are generated. The table is Markdown.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

from bench_common import last_object, machine, mapper, need, run, say
from bench_estimates import scale_free

from chipsim.chip.presets import NAMES, parse_chip
from mapper.settings import HOPS

NETWORKS = {
    "circuit 0.1": "microcircuit --scale 0.1",
    "circuit": "microcircuit --scale 1.0",
    "cortex": "cortex --side 316 --fanout 50 --sigma 6",
    "CNN": "layered --layers 64x64x8,32x32x16,32x32x16,16x16x16,1x1x256,1x1x10",
    "scale-free": "",
}


def network(folder: Path, name: str) -> Path:
    path = folder / f"chips-{name.replace(' ', '-')}.bin"
    if not path.exists():
        kind, *words = NETWORKS[name].split() or [""]
        if kind:
            need(mapper("generate", kind, str(path), *words, "--seed", "1", "-q"))
        else:
            scale_free(path)
    return path


def measure(folder: Path, name: str, chip: str, limit: float) -> dict[str, Any]:
    words = [str(network(folder, name)), "--chip", chip]
    process = run(
        mapper("run", *words, "-o", str(folder / "mapping"), "--force", "--json", "-q"), limit
    )
    found: dict[str, Any] = {"network": name, "chip": chip, "seconds": process.cpu_seconds}
    if process.failed:
        return found | {"failed": process.failed}
    report = last_object(process.output)
    metrics = report["metrics"]
    kind = HOPS[parse_chip(chip).delivery]
    return found | {
        "memory": process.rss_bytes,
        "objective": kind,
        "hops": metrics.get(kind, metrics)["hops_total"],
        "cores": metrics["cores_used"],
    }


def cell(one: dict[str, Any]) -> str:
    """Return a cell of the table."""
    if "failed" in one:
        return reason(one["failed"])
    hops = one["hops"] / 1e6
    rounded = f"{hops:.3g}" if hops < 1000 else f"{hops:,.0f}"
    return f"{one['seconds']:.0f} s, {one['memory'] / 2**20:,.0f} MiB, {rounded}"


REASONS = (
    (r"(\d+) of (\d+) cores remain above a limit", r"not found: \1 of \2 cores above a limit"),
    (r"vertex \d+ needs ([\d,]+ \w+)", r"a neuron needs \1"),
    (r"needs ([\d,]+ \w+); the chip holds ([\d,]+)", r"\1; \2 fit"),
)


def reason(failed: str) -> str:
    """Return the part of an error that names the shortage."""
    for pattern, words in REASONS:
        if found := re.search(pattern, failed):
            return found.expand(words)
    return failed.partition(": ")[2]


def table(found: list[dict[str, Any]], networks: list[str]) -> str:
    lines = [f"| chip | {' | '.join(networks)} |", "|---" * (len(networks) + 1) + "|"]
    cells = {(one["chip"], one["network"]): cell(one) for one in found}
    for chip in dict.fromkeys(one["chip"] for one in found):
        row = " | ".join(cells.get((chip, name), "") for name in networks)
        lines.append(f"| `{chip}` | {row} |")
    return "\n".join(lines)


def main() -> int:
    words = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=words[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chips", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--limit", type=float, default=300.0, help="time limit of a run, seconds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name in options.networks:
        for chip in options.chips:
            say(f"{name}, {chip}")
            found.append(measure(options.folder, name, chip, options.limit))
            if options.json:
                options.json.write_text(json.dumps({"machine": machine(), "runs": found}))
    print(table(found, options.networks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
