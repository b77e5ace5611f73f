"""Settings of a run, and the presets that name useful combinations of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from mapper.errors import UsageError


@dataclass(frozen=True, slots=True)
class Settings:
    """Every number that steers the method; the defaults are those of the `classic` preset.

    matching_repeats : random orders tried for each round of pairing, 4 to 8
    size_divisor : a coarse vertex is at most the capacity of a core over this
    stop_shrink : coarsening stops when a round removes less than this share of the vertices
    bisection_repeats : random starts of each bisection, 4 to 8
    refinement_passes : visits to all vertices on every level while uncoarsening
    force_share : share of the groups, those pulled hardest, that may swap in an iteration
    force_iterations : limit of iterations of force-directed refinement
    """

    preset: str = "classic"
    objective: str = "unicast"
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

    def __post_init__(self) -> None:
        for name, low, high in (
            ("matching_repeats", 1, 64),
            ("size_divisor", 1, 1 << 20),
            ("bisection_repeats", 1, 64),
            ("refinement_passes", 0, 1000),
            ("force_iterations", 0, 1 << 40),
            ("threads", 1, 1024),
            ("seed", 0, 2**63 - 1),
            ("memory_bytes", 1 << 26, 1 << 60),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{name} is {value}; give {low} to {high}")
        for name in ("stop_shrink", "force_share"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} is {getattr(self, name)}; give a share above 0, up to 1")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PRESETS: dict[str, Settings] = {"classic": Settings()}


def preset(name: str, **changes: Any) -> Settings:
    """The settings of a preset with some of them changed."""
    if name not in PRESETS:
        raise UsageError(f"preset {name!r} is not known; choose from {', '.join(PRESETS)}")
    return replace(PRESETS[name], preset=name, **changes)
