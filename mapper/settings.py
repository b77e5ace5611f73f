"""The settings of a run in one table: `Settings` and their descriptions, `SETTINGS`.

Each setting is described here only. The checks, the presets, `--set` and other options of the
command line, and the tables of the documentation all derive from this table.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from math import inf
from numbers import Integral, Real
from typing import Any, Literal

from mapper.errors import UsageError, shown

OBJECTIVES = ("hops", "time", "unicast", "core", "multicast", "cut")
BY_NETS = ("time", "core", "multicast")
"""Objectives that treat a neuron and all its targets as one net."""
HOPS = {"synapse": "unicast", "core": "core", "tree": "multicast"}
"""The objective that counts the packets of a chip, by its delivery of spikes."""
EFFORTS = ("fast", "default", "strong")
METHODS = ("classic", "streamed")
PORTFOLIO = "portfolio"  # default of the setting `placer`
NO_YES = ("no", "yes")
Names = tuple[str, ...]

MOST_MEMORY = 1 << 60
LEAST_SHARE = 0.001  # at 0, coarsening would continue without removing a vertex
UNLIMITED = 1 << 50  # default of budgets without a limit: more than any network has

GROUPS = {
    "run": "The run",
    "all": "All presets",
    "classic": "The preset classic",
    "streamed": "The presets fast, default and strong",
    "multicast": "Objectives on nets: cycles per tick, or hops of packets to cores or of trees",
}
"""Runs that read a setting; settings of "run" have their own options and arguments."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the table.

    kind : int, float or str
    default : default of the preset classic and of all presets that are not in `presets`
    low, high : range of numbers, both included
    choices : allowed texts; other packages add placers, see `storage.plugins`
    unit : unit of a number, in the plural; empty if it has none
    """

    name: str
    kind: type[int] | type[float] | type[str]
    group: str
    help: str
    default: Any
    presets: dict[str, Any]
    low: float = 0
    high: float = 0
    choices: Names = ()
    unit: str = ""

    @property
    def option(self) -> str:
        """Return the name as written on the command line."""
        return self.name.replace("_", "-")

    @property
    def range(self) -> str:
        """Return the allowed values as text."""
        if self.choices:
            return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"
        return f"{amount(self.low)} to {amount(self.high)}"

    def in_preset(self, preset: str) -> Any:
        return self.presets.get(preset, self.default)

    def check(self, value: Any) -> Any:
        """Return the value as a Python number or text; raise `UsageError` if it is not allowed."""
        if self.choices == NO_YES and isinstance(value, bool):
            value = NO_YES[value]
        if self.kind is str:
            if isinstance(value, str) and (value in self.choices or value in self._added()):
                return str(value)
        elif isinstance(value, Integral if self.kind is int else Real):
            number: Any = value
            if not isinstance(value, bool) and self.low <= number <= self.high:  # False for NaN
                return self.kind(number)  # JSON cannot store NumPy numbers
        words = {int: "a whole number, ", float: "a number, ", str: ""}[self.kind]
        added = "".join(f", {name}" for name in self._added())
        raise UsageError(f"{self.name} is {shown(value)}; give {words}{self.range}{added}")

    def _added(self) -> list[str]:
        """Return the texts that other packages add."""
        if self.name != "placer":
            return []
        from storage.plugins import PLACERS, names_of

        return [name for name in names_of(PLACERS) if name not in self.choices]

    def parse(self, text: str) -> Any:
        """Parse the text of a command line; raises `UsageError`."""
        value: Any = text
        if self.kind is int and text.isdecimal():
            digits = text.lstrip("0") or "0"
            value = int(digits) if len(digits) < 40 else text  # Python limits the digits of int
        elif self.kind is float:
            with suppress(ValueError):
                value = float(text)
            if value in (inf, -inf):
                value = text  # quote the text as typed, e.g. 1e999
        return self.check(value)


def amount(number: float) -> str:
    """Format a number, large powers of two as 2^n."""
    if isinstance(number, float):
        return f"{number:g}"
    for near, text in ((number, ""), (number + 1, " - 1")):
        if near >= 1 << 30 and near.bit_count() == 1:
            return f"2^{near.bit_length() - 1}{text}"
    return f"{number:,}"


def _whole(
    group: str, text: str, usual: int, within: tuple[int, int], unit: str = "", /, **presets: int
) -> Any:
    """Return a field for a whole number; `presets` has the defaults of presets that differ."""
    low, high = within
    row = {"kind": int, "low": low, "high": high, "unit": unit, "presets": presets}
    return field(default=usual, metadata={"group": group, "help": text, **row})


def _share(group: str, text: str, usual: float, low: float = LEAST_SHARE) -> Any:
    """Return a field for a share; low : the least one."""
    row: dict[str, Any] = {"kind": float, "low": low, "high": 1.0, "presets": {}}
    return field(default=usual, metadata={"group": group, "help": text, **row})


def _choice(group: str, text: str, usual: str, choices: Names, /, **presets: str) -> Any:
    """Return a field for one of several names."""
    row = {"kind": str, "choices": choices, "presets": presets}
    return field(default=usual, metadata={"group": group, "help": text, **row})


@dataclass(frozen=True, slots=True)
class Settings:
    """All parameters of the method; `SETTINGS` describes each."""

    # fmt: off
    preset: str = _choice(
        "run", "supplies the defaults of all other settings", "classic",
        (*EFFORTS, "classic"), fast="fast", default="default", strong="strong",
    )
    method: str = _choice(
        "all", "chosen by the preset: as published (classic), or for networks larger than RAM",
        "classic", METHODS, fast="streamed", default="streamed", strong="streamed",
    )
    objective: Literal["hops", "time", "unicast", "core", "multicast", "cut"] = _choice(
        "all", "what to minimise: hops of the packets that the chip sends (hops), cycles of a tick "
        "on the chip (time), hops of one packet per synapse (unicast), of one packet per core "
        "reached (core), of one packet that branches (multicast), or "
        "the cut, without hop refinement; classic has unicast and cut",
        "hops", OBJECTIVES,
    )
    cores: int = _whole(
        "all", "cores to use; 0: the fewest, or all for time",
        0, (0, 2**31 - 1), "cores",
    )
    fill: float = _share("all", "share of a core's neurons that may be used", 1.0)
    min_fill: float = _share("all", "least share of its neurons that a core in use holds", 0.0, 0.0)
    spread: Literal["no", "yes"] = _choice("all", "use all cores, equally full", "no", NO_YES)
    seed: int = _whole(
        "run", "the same seed gives the same bytes for any number of threads", 0, (0, 2**63 - 1)
    )
    threads: int = _whole("run", "number of threads", 1, (1, 1024), "threads")
    memory_bytes: int = _whole(
        "run", "memory budget of the run", 1 << 30, (1 << 28, MOST_MEMORY), "bytes"
    )
    matching_repeats: int = _whole(
        "classic", "random orders tried in each round of matching", 8, (1, 64), "orders"
    )
    size_divisor: int = _whole(
        "classic", "a coarse vertex is at most the capacity of a core divided by this",
        15, (1, 1 << 20),
    )
    stop_shrink: float = _share(
        "classic", "coarsening stops when a round removes less than this share of the vertices", 0.2
    )
    bisection_repeats: int = _whole(
        "all", "random starts of each bisection", 8, (1, 64), "starts", fast=2, default=4
    )
    refinement_passes: int = _whole(
        "all", "max passes over all vertices per level of refinement", 4, (0, 1000), "passes",
        fast=2, default=5, strong=8,
    )
    force_share: float = _share(
        "classic", "share of the groups, strongest forces first, that may swap per iteration", 0.05
    )
    force_iterations: int = _whole(
        "classic", "max iterations of force-directed refinement", 1000, (0, 1 << 40), "iterations"
    )
    degree: int = _whole(
        "streamed", "mean connections per neuron examined in each pass, heaviest first",
        1024, (8, 1 << 30), "connections", fast=64,
    )
    cluster_rounds: int = _whole(
        "streamed", "rounds of label propagation that form clusters", 3, (1, 100), "rounds", fast=2
    )
    coarse_degree: int = _whole(
        "streamed", "mean connections per cluster for the initial partition",
        50, (1, 1 << 20), "connections", fast=32, strong=100,
    )
    block_vertices: int = _whole(
        "streamed", "neurons per block; blocks are split into cores in memory",
        8192, (64, 1 << 20), "neurons",
    )
    block_passes: int = _whole(
        "streamed", "max refinement passes over the blocks", 3, (0, 1000), "passes", fast=2
    )
    fm_passes: int = _whole(
        "streamed", "FM passes in each bisection of a block", 1, (0, 100), "passes",
        fast=0, strong=3,
    )
    smoothing: int = _whole(
        "streamed", "steps that smooth the cut of a bisection", 16, (0, 1000), "steps", fast=8
    )
    placement: Literal["fast", "default", "strong"] = _choice(
        "streamed", "effort of the placement", "default", EFFORTS, fast="fast", strong="strong"
    )
    placer: str = _choice(
        "streamed", "placement method: several, the best annealed (portfolio), a single one, or "
        "one of another package",
        PORTFOLIO, (PORTFOLIO, "curves", "spectral", "multilevel", "bisection"),
    )
    level_budget: int = _whole(
        "streamed", "networks of up to this many connections are mapped on levels in memory",
        5_000_000, (0, UNLIMITED), "connections", strong=UNLIMITED,
    )
    starts: int = _whole(
        "streamed", "partitions tried on the coarsest level; the best is kept",
        2, (1, 1000), "partitions", strong=16,
    )
    level_tries: int = _whole(
        "streamed", "random starts of each bisection of the coarsest level; half as many where the "
        "mesh is bisected with it", 16, (1, 64), "starts", fast=4,
    )
    level_fm_passes: int = _whole(
        "streamed", "FM passes in each bisection of the coarsest level", 3, (0, 100), "passes",
        fast=2,
    )
    hop_passes: int = _whole(
        "streamed", "passes that move single neurons to cores with fewer hops",
        2, (0, 1000), "passes", fast=1, strong=3,
    )
    exchanges: int = _whole(
        "streamed", "max rounds in which nearby cores exchange neurons; half as many on most "
        "levels", 6, (0, 1000), "rounds", fast=0, strong=12,
    )
    hop_budget: int = _whole(
        "streamed", "max connections that hop passes and exchanges examine; larger networks get "
        "one pass, unless it is 0", 50_000_000, (0, UNLIMITED), "connections", strong=UNLIMITED,
    )
    cycles: int = _whole(
        "streamed", "max V-cycles over the mapping, or with multicast over the partition, of "
        "networks held in memory", 1, (0, 1000), "V-cycles", fast=0, strong=4,
    )
    proposals: int = _whole(
        "streamed", "max annealing moves tried per neuron and level", 50, (0, 1 << 20), "moves",
        fast=0, strong=5000,
    )
    cycle_proposals: int = _whole(
        "streamed", "max annealing moves per neuron in V-cycles", 0, (0, 1 << 20), "moves",
        strong=5000,
    )
    anneal_budget: int = _whole(
        "streamed", "approx. number of connections annealing may examine; large networks get "
        "fewer moves, but at least 30 per neuron",
        50_000_000, (0, UNLIMITED), "connections", strong=1_000_000_000,
    )
    net_budget: int = _whole(
        "multicast", "max pins of nets that refinement of the partition examines per level",
        30_000_000, (0, UNLIMITED), "pins", fast=5_000_000, strong=1_000_000_000,
    )
    recuts: int = _whole(
        "multicast", "max rounds in which pairs of parts are bisected again", 10, (0, 1000),
        "rounds", fast=0, strong=60,
    )
    net_pins: int = _whole(
        "multicast", "networks of more synapses are partitioned by connections, not nets",
        6_000_000, (0, UNLIMITED), "synapses", strong=60_000_000,
    )
    net_time: int = _whole(
        "multicast", "max estimated time of a run, as a multiple of the time for unicast; networks "
        "of up to 100,000 synapses have no limit", 2, (0, UNLIMITED), "times", strong=UNLIMITED,
    )
    packet_cycles: int = _whole(
        "multicast", "max V-cycles over the mapping that minimise hops of packets to cores",
        3, (0, 1000), "V-cycles", fast=1, strong=6,
    )
    tick_proposals: int = _whole(
        "multicast", "max annealing moves per neuron that minimise cycles per tick", 30,
        (0, 1 << 20), "moves", fast=8, strong=200,
    )
    tree_cycles: int = _whole(
        "multicast", "max V-cycles over the mapping that minimise tree hops", 1, (0, 1000),
        "V-cycles", strong=2,
    )
    tree_proposals: int = _whole(
        "multicast", "max annealing moves per neuron and level in these V-cycles",
        30, (0, 1 << 20), "moves", fast=8, strong=120,
    )
    # fmt: on

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            object.__setattr__(self, name, setting.check(getattr(self, name)))
        if self.objective in BY_NETS and self.method == "classic":
            raise UsageError(
                f"the preset classic has no objective {self.objective}: it is the published "
                "method for unicast; use the preset fast, default or strong"
            )

    def seed_of(self, step: int) -> int:
        """Return a seed for a step, below 2^31; steps of neighbouring seeds get different ones."""
        from numpy.random import SeedSequence  # --help reads this table and needs no NumPy

        return int(SeedSequence([self.seed, step]).generate_state(1)[0] >> 1)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def resolved(self, delivery: str) -> Settings:
        """Replace the objective `hops` by the hops that a chip with this delivery has.

        The published method (classic) supports only one packet per synapse.
        """
        if self.objective != "hops":
            return self
        objective: Any = "unicast" if self.method == "classic" else HOPS[delivery]
        return replace(self, objective=objective)

    @property
    def bounds_fill(self) -> bool:
        """Return whether cores in use must hold a least number of neurons."""
        return self.min_fill > 0 or self.spread == "yes"

    @property
    def net_cycles(self) -> int:
        """Return the number of V-cycles over the mapping where nets are held in memory."""
        return {"core": self.packet_cycles, "time": 1}.get(self.objective, self.tree_cycles)

    def reads(self, name: str) -> bool:
        """Return whether a run with these settings reads a setting."""
        group = SETTINGS[name].group
        if name == "placement" and self.placer != PORTFOLIO:
            return False
        if group == "multicast":
            return self.objective in BY_NETS
        return group in ("run", "all", self.method)


SETTINGS: dict[str, Setting] = {
    each.name: Setting(name=each.name, default=each.default, **each.metadata)
    for each in fields(Settings)
}
"""The table, in the order of the fields."""

PRESETS: dict[str, Settings] = {
    name: Settings(**{each.name: each.in_preset(name) for each in SETTINGS.values()})
    for name in SETTINGS["preset"].choices
}


def setting_of(name: str, known: Collection[str]) -> Setting:
    """Return a row of the table; raise `UsageError` with the nearest name if it does not exist."""
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"there is no setting {shown(name)}{hint}")
    return SETTINGS[name]


def preset(name: str, **changes: Any) -> Settings:
    """Return the settings of a preset with some of them changed."""
    if name not in PRESETS:
        raise UsageError(f"preset {shown(name)} is not known; choose from {', '.join(PRESETS)}")
    for change in changes:
        setting_of(change, [each for each in SETTINGS if each != "preset"])
    return replace(PRESETS[name], preset=name, **changes)


PLACEMENT = {
    "streamed": ("placement", "placer"),
    "classic": ("bisection_repeats", "force_share", "force_iterations"),
}
"""Settings that `mapper place` reads, by method of the preset."""
