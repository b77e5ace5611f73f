"""Which columns of an edge table are source, target and weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storage.errors import BadInputError
from storage.formats.base import plain

SOURCES = (
    "source", "src", "from", "pre", "source_id", "pre_id", "presynaptic", "pre_root_id",
    "pre_pt_root_id", "bodyid_pre", "source_node_id",
)  # fmt: skip
TARGETS = (
    "target", "dst", "to", "post", "target_id", "post_id", "postsynaptic", "post_root_id",
    "post_pt_root_id", "bodyid_post", "target_node_id",
)  # fmt: skip
WEIGHTS = ("weight", "synapses", "count", "w", "syn_count", "nsyns", "number", "syn_weight")
MOST_LISTED = 8  # columns in a message
NO_WEIGHT = "-"  # asks for rows that count 1 each


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Columns that the user names; None where the names above, or the places, decide.

    weight : `NO_WEIGHT` if every row is one synapse of weight 1
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None


def choose_columns(
    names: Sequence[str], where: str, wanted: ColumnNames | None = None
) -> tuple[int, int, int | None]:
    """Positions of source, target and weight (None if there is none), by name or else by place.

    The ends are the first two columns unless both are named; the weight is the column with a
    name for it, else the third of three. Raises `BadInputError` if that leaves no answer.
    """
    wanted = wanted or ColumnNames()
    lower = [name.strip().lower() for name in names]
    source = _named(lower, wanted.source, SOURCES, where)
    target = _named(lower, wanted.target, TARGETS, where)
    if (source is None) != (target is None) and (wanted.source or wanted.target):
        other = "--target-column" if target is None else "--source-column"
        raise BadInputError(f"{where}: columns are {listed(names)}; name the other: {other}")
    if source is None or target is None:
        source, target = 0, 1
    if len(names) < 2 or source == target:
        raise BadInputError(f"{where}: columns are {listed(names)}; name source and target")
    if wanted.weight == NO_WEIGHT:
        return source, target, None
    weight = _named(lower, wanted.weight, WEIGHTS, where)
    if weight is None and len(names) == 3:
        weight = 3 - source - target
    if weight in (source, target):
        raise BadInputError(f"{where}: columns are {listed(names)}; name source and target")
    if weight is None and len(names) > 3:
        raise BadInputError(
            f"{where}: {len(names)} columns and none is called {', '.join(WEIGHTS)}; "
            "rename the one that is the weight, or name it: --weight-column"
        )
    return source, target, weight


def listed(names: Sequence[str]) -> str:
    """Names of columns for a message, long ones and long lists cut short."""
    shown = [name if len(name) <= 24 else f"{name[:24]}..." for name in names[:MOST_LISTED]]
    return plain(", ".join(shown + ["..."] * (len(names) > MOST_LISTED)))


def names_ends(names: Sequence[str]) -> bool:
    """Whether a line of words names source and target, so that it cannot be an edge itself."""
    lower = [name.strip().lower() for name in names]
    return _find(lower, SOURCES) is not None and _find(lower, TARGETS) is not None


def _named(
    names: Sequence[str], wanted: str | None, usual: Sequence[str], where: str
) -> int | None:
    if wanted is None:
        return _find(names, usual)
    place = _find(names, (wanted.strip().lower(),))
    if place is None:
        raise BadInputError(f"{where}: columns are {listed(names)}; none is {wanted!r}")
    return place


def _find(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)
