"""Which columns of an edge table are source, target and weight."""

from __future__ import annotations

from collections.abc import Sequence

from storage.errors import BadInputError

SOURCES = ("source", "src", "from", "pre", "source_id")
TARGETS = ("target", "dst", "to", "post", "target_id")
WEIGHTS = ("weight", "synapses", "count", "w")


def choose_columns(names: Sequence[str], where: str) -> tuple[int, int, int | None]:
    """Positions of source, target and weight (None if there is none), by name or else by place.

    The ends are the first two columns unless both are named; the weight is the column with a
    name for it, else the third of three. Raises `BadInputError` if that leaves no answer.
    """
    lower = [name.strip().lower() for name in names]
    source, target = _find(lower, SOURCES), _find(lower, TARGETS)
    if source is None or target is None:
        source, target = 0, 1
    weight = _find(lower, WEIGHTS)
    if weight is None and len(names) == 3:
        weight = 3 - source - target
    if len(names) < 2 or weight in (source, target):
        raise BadInputError(f"{where}: columns are {', '.join(names)}; name source and target")
    if weight is None and len(names) > 3:
        raise BadInputError(
            f"{where}: {len(names)} columns and none is called {', '.join(WEIGHTS)}; "
            "rename the one that is the weight"
        )
    return source, target, weight


def _find(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)
