"""Settings of a run, and the presets that name useful combinations of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np

from mapper.errors import UsageError

Objective = Literal["unicast", "cut", "multicast"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

MOST_MEMORY = 1 << 60
LEAST_SHARE = 0.001  # with next to none coarsening would go on without removing a vertex


@dataclass(frozen=True, slots=True)
class Settings:
    """Every number that steers the method.

    preset : name of the preset that the others are from
    objective : "unicast" (hops of spikes, one for each target), "cut" (no refinement by hops) or
        "multicast" (a spike goes once to each core: connectivity, then links of trees)
    method : "classic" (the nine steps as published) or "streamed" (mapper.partitioning.streamed)
    seed : the same seed gives the same bytes, for any number of threads
    threads : at work at a time
    memory_bytes : memory that the run is planned with; unless given, three quarters of what is free
    bisection_repeats : random starts of each bisection
    refinement_passes : visits to all vertices on every level while uncoarsening

    Of the classic method:

    matching_repeats : random orders tried for each round of pairing, 4 to 8
    size_divisor : a coarse vertex is at most the capacity of a core over this
    stop_shrink : coarsening stops when a round removes less than this share of the vertices
    force_share : share of the groups, those pulled hardest, that may swap in an iteration
    force_iterations : limit of iterations of force-directed refinement

    Of the streamed method:

    degree : connections of a neuron, in the mean, that the passes look at, heavy ones first
    cluster_rounds : rounds of label propagation that make clusters
    coarse_degree : mean connections of a cluster that the coarse graph keeps
    block_vertices : vertices of a block, which is cut into cores in memory
    block_passes : passes of refinement over the blocks
    fm_passes : passes of FM in each bisection of a block
    smoothing : steps that smooth the cut of a bisection
    placement : effort of the placement, "fast", "default" or "strong"
    level_budget : connections up to which the whole mapping is made on levels in memory
    starts : partitions of the coarsest level, of which the best is taken
    hop_passes : passes in which single neurons move to cores with fewer hops
    exchanges : rounds of exchanges of neurons between cores near each other
    hop_budget : connections that the passes, and the exchanges, look at in all: large networks have
        fewer of both, or none
    cycles : V-cycles over the mapping, of networks held in memory
    proposals : of annealing, for each neuron on each level, at most
    cycle_proposals : the same in V-cycles
    anneal_budget : connections that annealing of the neurons looks at: large networks have fewer
        proposals, but 30

    Of the objective multicast, for networks whose nets fit the memory:

    net_budget : pins of nets that a refinement of the partition looks at
    recuts : rounds in which pairs of parts are bisected anew
    tree_cycles : V-cycles over the mapping by tree hops
    tree_proposals : of their annealing, for each neuron on each level
    """

    preset: str = "classic"
    method: str = "classic"
    objective: Objective = "unicast"
    seed: int = 0
    threads: int = 1
    memory_bytes: int = 1 << 30
    matching_repeats: int = 8
    size_divisor: int = 15
    stop_shrink: float = 0.2
    bisection_repeats: int = 8
    refinement_passes: int = 4
    force_share: float = 0.05
    force_iterations: int = 1000
    degree: int = 1024
    cluster_rounds: int = 3
    coarse_degree: int = 100
    block_vertices: int = 8192
    block_passes: int = 3
    fm_passes: int = 1
    smoothing: int = 16
    placement: Literal["fast", "default", "strong"] = "default"
    level_budget: int = 5_000_000
    starts: int = 2
    hop_passes: int = 2
    exchanges: int = 6
    hop_budget: int = 50_000_000
    cycles: int = 1
    proposals: int = 50
    cycle_proposals: int = 0
    anneal_budget: int = 50_000_000
    net_budget: int = 30_000_000
    recuts: int = 10
    tree_cycles: int = 1
    tree_proposals: int = 30

    def __post_init__(self) -> None:
        for name, low, high in (
            ("matching_repeats", 1, 64),
            ("size_divisor", 1, 1 << 20),
            ("bisection_repeats", 1, 64),
            ("refinement_passes", 0, 1000),
            ("force_iterations", 0, 1 << 40),
            ("degree", 8, 1 << 30),
            ("cluster_rounds", 1, 100),
            ("coarse_degree", 1, 1 << 20),
            ("block_vertices", 64, 1 << 20),
            ("block_passes", 0, 1000),
            ("fm_passes", 0, 100),
            ("smoothing", 0, 1000),
            ("level_budget", 0, 1 << 50),
            ("starts", 1, 1000),
            ("hop_passes", 0, 1000),
            ("exchanges", 0, 1000),
            ("hop_budget", 0, 1 << 50),
            ("cycles", 0, 1000),
            ("proposals", 0, 1 << 20),
            ("cycle_proposals", 0, 1 << 20),
            ("anneal_budget", 0, 1 << 50),
            ("net_budget", 0, 1 << 50),
            ("recuts", 0, 1000),
            ("tree_cycles", 0, 1000),
            ("tree_proposals", 0, 1 << 20),
            ("threads", 1, 1024),
            ("seed", 0, 2**63 - 1),
            ("memory_bytes", 1 << 28, MOST_MEMORY),
        ):
            value: Any = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise UsageError(f"{name} is {value!r}; give a whole number, {low} to {high}")
            number = int(value)
            if not low <= number <= high:
                raise UsageError(f"{name} is {number}; give {low} to {high}")
            object.__setattr__(self, name, number)  # NumPy's are no numbers to JSON
        for name, known in (
            ("method", ("classic", "streamed")),
            ("objective", OBJECTIVES),
            ("placement", ("fast", "default", "strong")),
        ):
            if getattr(self, name) not in known:
                raise UsageError(f"{name} is {getattr(self, name)!r}; give {' or '.join(known)}")
        if self.objective == "multicast" and self.method == "classic":
            raise UsageError(
                "the preset classic has no objective multicast: it is the published method, for "
                "unicast; take the preset fast, default or strong"
            )
        for name in ("stop_shrink", "force_share"):
            share: Any = getattr(self, name)
            if not isinstance(share, Real) or not LEAST_SHARE <= float(share) <= 1:
                raise UsageError(f"{name} is {share!r}; give a share of {LEAST_SHARE} to 1")
            object.__setattr__(self, name, float(share))

    def seed_of(self, step: int) -> int:
        """A seed of its own for each step, below 2^31: neighbouring seeds share none."""
        return int(np.random.SeedSequence([self.seed, step]).generate_state(1)[0] >> 1)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PRESETS: dict[str, Settings] = {
    "fast": Settings(
        method="streamed",
        bisection_repeats=2,
        refinement_passes=2,
        degree=64,
        cluster_rounds=2,
        coarse_degree=70,
        block_passes=2,
        fm_passes=0,
        smoothing=8,
        placement="fast",
        starts=2,
        hop_passes=1,
        exchanges=0,
        cycles=0,
        proposals=0,
        net_budget=5_000_000,
        recuts=0,
        tree_proposals=8,
    ),
    "default": Settings(method="streamed", bisection_repeats=4, refinement_passes=5),
    "strong": Settings(
        method="streamed",
        bisection_repeats=8,
        refinement_passes=8,
        fm_passes=3,
        placement="strong",
        hop_passes=3,
        exchanges=12,
        level_budget=1 << 50,
        starts=16,
        hop_budget=1 << 50,
        cycles=4,
        proposals=5000,
        cycle_proposals=5000,
        anneal_budget=1_000_000_000,
        net_budget=1_000_000_000,
        recuts=60,
        tree_cycles=2,
        tree_proposals=120,
    ),
    "classic": Settings(),
}


def preset(name: str, **changes: Any) -> Settings:
    """The settings of a preset with some of them changed."""
    if name not in PRESETS:
        raise UsageError(f"preset {name!r} is not known; choose from {', '.join(PRESETS)}")
    known = [each.name for each in fields(Settings) if each.name != "preset"]
    for change in changes:
        if change not in known:
            near = get_close_matches(change, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"there is no setting {change!r}{hint}")
    return replace(PRESETS[name], preset=name, **changes)
