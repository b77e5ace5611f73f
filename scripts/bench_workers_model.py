"""Computed times on clusters from constants of this machine, for `bench_workers.py --model`.

Costs are linear: passes over rows, and blocks written to the shared folder and read back to be cut,
per entry; work of the driver, bytes to each worker and bytes from all workers, per neuron. The
model ignores that larger networks have more cache misses, and that driver and workers wait for each
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AT_WORKERS = 8  # cores per worker
SLOWER = 1.5
LAB, CLUSTER = (0.125e9, 0.5e9), (1.25e9, 10e9)  # bytes per second: network, shared files
NETWORKS = (
    ("1e8, 1e10, lab", 1e8, 1e10, LAB, (("natural", 8), ("shuffled", 8))),
    ("1e9, 1e11", 1e9, 1e11, CLUSTER, (
        ("natural", 16), ("natural", 64), ("natural", 256), ("shuffled", 64))),
    ("1e9, 1e12", 1e9, 1e12, CLUSTER, (("natural", 16), ("natural", 64), ("natural", 256))),
)  # fmt: skip
HEADS = (
    "network", "ids", "one machine, s", "workers", "read", "passes", "driver", "network", "steps",
    "s", "efficiency",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Constants:
    """Measured constants of one network.

    read, look : processor seconds per entry: the first pass, and all later passes
    settle : processor seconds of the driver per neuron
    file : bytes of the network file per entry
    to, back : bytes per neuron to each worker, and from all workers
    rows : bytes per entry written to the shared folder
    calls : calls of workers in a run; call : seconds of a call of two workers with empty tasks
    """

    read: float
    look: float
    settle: float
    file: float
    to: float
    back: float
    rows: float
    calls: int
    call: float

    @classmethod
    def of(cls, worked: dict[str, Any], milliseconds: float) -> Constants:
        """Compute the constants from the report of a run with workers."""
        network, used = worked["network"], worked["workers"]
        n, entries = network["neurons"], 2 * network["synapses"]
        stages = {stage["name"]: stage for stage in used["stages"]}
        first = stages.pop("read")["cpu_seconds"]
        look = sum(stage["cpu_seconds"] for stage in stages.values())
        driver = {one["name"]: one["cpu_seconds"] for one in worked["stages"]}
        settle = sum(took for name, took in driver.items() if name != "read")
        sent = sum(stage["bytes_to"] for stage in used["stages"]) / used["count"]
        got = sum(stage["bytes_from"] for stage in used["stages"])
        rows = sum(stage["bytes_shared"] for stage in used["stages"])
        calls = sum(stage["calls"] for stage in used["stages"])
        size = network["bytes"] / entries
        return cls(
            first / entries, look / entries, settle / n, size, sent / n, got / n,
            rows / entries, calls, milliseconds / 1000,
        )  # fmt: skip

    def seconds(
        self, n: float, synapses: float, speeds: tuple[float, float], workers: int
    ) -> list[float]:
        """Return the seconds of reading, passes, driver, network and steps."""
        network, shared = speeds
        entries, cores = 2 * synapses, workers * AT_WORKERS
        return [
            max(SLOWER * self.read * entries / cores, self.file * entries / shared),
            SLOWER * self.look * entries / cores,
            SLOWER * self.settle * n,
            n * (self.to * workers + self.back) / network + 2 * self.rows * entries / shared,
            self.calls * self.call * workers / 2,
        ]

    def alone(self, n: float, synapses: float) -> float:
        """Return the seconds of one machine without workers."""
        entries = 2 * synapses
        by_entry = self.read + self.look
        return SLOWER * (by_entry * entries / AT_WORKERS + self.settle * n)


def print_model(found: dict[str, Constants]) -> list[tuple[str, ...]]:
    """Print the constants and return the rows of the table of computed times."""
    for ids, one in found.items():
        print(
            f"{ids}: reading {1e9 * one.read:.0f} ns and passes {1e9 * one.look:.0f} ns per entry, "
            f"driver {1e9 * one.settle:.0f} ns per neuron, "
            f"{one.to:.1f} B per neuron to each worker, {one.back:.1f} B from all and "
            f"{one.rows:.1f} B per entry through the shared folder, {one.calls} calls of "
            f"{1000 * one.call:.1f} ms\n"
        )
    rows = [HEADS]
    for name, n, synapses, speeds, cases in NETWORKS:
        for ids, workers in cases:
            one = found[ids]
            parts = one.seconds(n, synapses, speeds, workers)
            alone, total = one.alone(n, synapses), sum(parts)
            rows.append((
                name, ids, f"{alone:,.0f}", str(workers), *(f"{part:,.0f}" for part in parts),
                f"{total:,.0f}", f"{alone / workers / total:.2f}",
            ))  # fmt: skip
    return rows
