"""Choice of the columns of an edge table: source, target, weight, and populations of both ends.

Ids per population are ambiguous on their own: neuron 0 of one population is not neuron 0 of
another. A table with a population column for only one end, or two for one end, is refused, since
it would be read as a different network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storage.errors import BadInputError
from storage.printable import plain

SOURCES = (
    "source", "src", "from", "pre", "source_id", "pre_id", "presynaptic", "pre_root_id",
    "pre_pt_root_id", "bodyid_pre", "source_node_id", "source_index", "pre_index", "pre_idx",
    "source_gid", "pre_gid", "source_neuron", "pre_neuron", "fromnodeid", "sources", "i",
)  # fmt: skip
TARGETS = (
    "target", "dst", "to", "post", "target_id", "post_id", "postsynaptic", "post_root_id",
    "post_pt_root_id", "bodyid_post", "target_node_id", "target_index", "post_index", "post_idx",
    "target_gid", "post_gid", "target_neuron", "post_neuron", "tonodeid", "targets", "j",
)  # fmt: skip
WEIGHTS = (
    "weight", "synapses", "count", "w", "syn_count", "nsyns", "number", "syn_weight", "weights",
)  # fmt: skip
NO_WEIGHTS = ("delay", "delays", "delay_ms", "", "unnamed:_0")
"""Never used as the weight: delays, and the row numbers that pandas and R write."""
_GROUPS = (
    "pop", "population", "pop_name", "population_name", "pop_id", "population_id",
    "node_population", "group", "layer",
)  # fmt: skip
SOURCE_POPULATIONS = tuple(
    name
    for end in ("pre", "source", "src", "from", "presynaptic")
    for group in _GROUPS
    for name in (f"{end}_{group}", f"{group}_{end}", f"{end}{group}")
)
TARGET_POPULATIONS = tuple(
    name
    for end in ("post", "target", "dst", "to", "postsynaptic")
    for group in _GROUPS
    for name in (f"{end}_{group}", f"{group}_{end}", f"{end}{group}")
)
POPULATIONS = ("population", "pop")  # of an unspecified end
MOST_LISTED = 8  # columns listed in a message
NONE = "-"  # selects no column

ROLES = ("source", "target", "weight", "source-population", "target-population")
"""Roles of columns, as named in `parse_columns` and in messages."""


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Columns named by the user; None where the usual names or the positions decide.

    weight : `NONE` if each row is one synapse of weight 1
    source_population, target_population : `NONE` if ids are unique in the whole network
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    source_population: str | None = None
    target_population: str | None = None

    def of(self, role: str) -> str | None:
        """Return the name for one of the `ROLES`."""
        name: str | None = getattr(self, role.replace("-", "_"))
        return name


def parse_columns(text: str, chosen: ColumnNames | None = None) -> ColumnNames:
    """Parse `source=pre,target=post`: names by `ROLES`, added to those chosen before.

    Raises `ValueError` for an unknown, missing or repeated role.
    """
    named: dict[str, str] = {}
    for part in re.split(rf",(?=(?:{'|'.join(ROLES)})=)", text):
        role, _, name = part.partition("=")
        if role not in ROLES or not name:
            raise ValueError(f"{part!r} is not ROLE=NAME; roles are {', '.join(ROLES)}")
        if role in named or (chosen is not None and chosen.of(role) is not None):
            raise ValueError(f"{role} is named twice")
        named[role] = name
    return name_columns(named, chosen)


def name_columns(named: Mapping[str, str], chosen: ColumnNames | None = None) -> ColumnNames:
    """Add names by `ROLES` to those chosen before. Raises `ValueError` for an unknown role."""
    for role, name in named.items():
        if role not in ROLES or not isinstance(name, str) or not name:
            raise ValueError(f"{role!r}: {name!r}; give names by {', '.join(ROLES)}")
    given = {role.replace("-", "_"): name for role, name in named.items()}
    return replace(chosen or ColumnNames(), **given)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table and their roles.

    names : all columns; their numbers from 1 if the file does not name them
    source, target : indices into `names`, like the following
    weight : None if each row weighs 1
    populations : of source and target; None if ids are unique in the whole network
    """

    names: tuple[str | int, ...]
    source: int
    target: int
    weight: int | None = None
    populations: tuple[int, int] | None = None

    @property
    def places(self) -> list[int]:
        """Return the indices of the used columns: source, target, weight, populations."""
        weight = [] if self.weight is None else [self.weight]
        return [self.source, self.target, *weight, *(self.populations or ())]

    def split(self, values: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Split values given in the order of `places` into source, target, weight, populations."""
        weight = None if self.weight is None else values[2]
        populations = None if self.populations is None else tuple(values[-2:])
        return values[0], values[1], weight, populations

    @property
    def facts(self) -> dict[str, Any]:
        """Return the entries for the provenance of a network."""
        return {
            "columns": {role: self.names[place] for role, place in self._used()},
            "columns_ignored": [
                name for place, name in enumerate(self.names) if place not in self.places
            ],
        }

    def _used(self) -> Iterator[tuple[str, int]]:
        yield from (("source", self.source), ("target", self.target))
        if self.weight is not None:
            yield "weight", self.weight
        if self.populations is not None:
            yield from zip(ROLES[3:], self.populations, strict=True)


def said(provenance: Mapping[str, Any]) -> str | None:
    """Describe the columns of a network in one line; None if it is not from a table."""
    used = provenance.get("columns")
    if not isinstance(used, dict):
        return None
    parts = ", ".join(f"{listed([str(name)])} ({role})" for role, name in used.items())
    weight = "" if "weight" in used else "; every row weighs 1"
    ignored = [str(name) or "one unnamed" for name in provenance.get("columns_ignored", [])]
    return f"columns used: {parts}{weight}" + (f"; ignored: {listed(ignored)}" if ignored else "")


def number_columns(count: int, where: str, wanted: ColumnNames | None = None) -> Columns:
    """Choose columns without names: source, target and weight if there are two or three.

    wanted : their numbers from 1, as text
    """
    numbers = tuple(range(1, count + 1))
    names = () if wanted is None else map(wanted.of, ROLES)
    if any(name is not None and name != NONE and not name.isdecimal() for name in names):
        raise BadInputError(
            f"{where}: columns have no names; add a header line, or give their numbers, as in "
            "--columns source=1,target=2"
        )
    if wanted is None and count not in (2, 3):
        raise BadInputError(
            f"{where}: {count} columns without names; give 2 (source, target) or 3 (and weight), "
            "a header line, or --columns source=1,target=2,weight=3"
        )
    found = choose_columns([str(number) for number in numbers], where, wanted)
    return Columns(numbers, found.source, found.target, found.weight, found.populations)


def choose_columns(
    names: Sequence[str], where: str, wanted: ColumnNames | None = None, *, places: bool = True
) -> Columns:
    """Choose the columns of a table by their names, or in small tables by their positions.

    Without the usual names, the first two of two or three columns are source and target. The
    weight is the column with a usual name, otherwise the only remaining one. Raises
    `BadInputError` if the choice is ambiguous.
    places : whether positions are significant
    """
    wanted = wanted or ColumnNames()
    lower = [_usual(name) for name in names]
    populations = _choose_populations(names, lower, where, wanted)
    source, target = _choose_ends(names, lower, where, wanted, places)
    used = (source, target, *(populations or ()))
    weight = None
    if wanted.weight != NONE:
        weight = _named(names, lower, wanted.weight, WEIGHTS, where)
        rest = [
            place
            for place, name in enumerate(lower)
            if place not in used and name not in NO_WEIGHTS
        ]
        if weight is None and len(rest) == 1 and places:
            weight = rest[0]
        if weight is None and rest and places:
            raise BadInputError(
                f"{where}: {len(names)} columns, none called {', '.join(WEIGHTS)}; "
                "rename the weight column, or name it: --columns weight=NAME (weight=- "
                "if none)"
            )
    if weight in used or set(used[2:]) & {source, target}:
        raise BadInputError(f"{where}: columns are {listed(names)}; name source and target")
    return Columns(tuple(names), source, target, weight, populations)


def _choose_ends(
    names: Sequence[str], lower: Sequence[str], where: str, wanted: ColumnNames, places: bool
) -> tuple[int, int]:
    """Return the indices of source and target."""
    source = _named(names, lower, wanted.source, SOURCES, where)
    target = _named(names, lower, wanted.target, TARGETS, where)
    if (source is None) != (target is None) and (wanted.source or wanted.target):
        other = "target" if target is None else "source"
        raise BadInputError(
            f"{where}: columns are {listed(names)}; name the other one: --columns {other}=NAME"
        )
    if source is None or target is None:
        if len(names) > 3 or not places:
            raise BadInputError(
                f"{where}: columns are {listed(names)}; which are source and target? Name them: "
                "--columns source=NAME,target=NAME"
            )
        source, target = 0, 1
    if len(names) < 2 or source == target:
        raise BadInputError(f"{where}: columns are {listed(names)}; name source and target")
    return source, target


def _choose_populations(
    names: Sequence[str], lower: Sequence[str], where: str, wanted: ColumnNames
) -> tuple[int, int] | None:
    """Return the indices of the populations of source and target; None if there are none."""
    asked = wanted.source_population, wanted.target_population
    usual = SOURCE_POPULATIONS, TARGET_POPULATIONS
    found = [
        [_one(names, lower, name, where)] if name else _find(lower, group)
        for name, group in zip(asked, usual, strict=True)
        if name != NONE
    ]
    if not any(found):
        either = _find(lower, POPULATIONS)
        if either and NONE not in asked:
            shown = listed([names[either[0]]])
            raise BadInputError(
                f"{where}: {shown} is the population of which end? Name both: --columns "
                "source-population=NAME,target-population=NAME (- for both if ids are unique)"
            )
        return None
    for end, group in zip(("source", "target"), found, strict=False):
        if len(group) > 1:
            shown = listed([names[place] for place in group])
            raise BadInputError(
                f"{where}: {shown} are candidates for the population of the {end}; name one: "
                f"--columns {end}-population=NAME"
            )
    if len(found) != 2 or not all(found):
        shown = listed([names[place] for group in found for place in group])
        raise BadInputError(
            f"{where}: {shown} is the population of only one end; name both: --columns "
            "source-population=NAME,target-population=NAME (- for both if ids are unique)"
        )
    return found[0][0], found[1][0]


def listed(names: Sequence[str]) -> str:
    """Join column names for a message; long names and lists are truncated."""
    shown = [name if len(name) <= 24 else f"{name[:24]}..." for name in names[:MOST_LISTED]]
    return plain(", ".join(shown + ["..."] * (len(names) > MOST_LISTED)))


def names_ends(names: Sequence[str]) -> bool:
    """Return whether a line names source and target, so that it cannot be an edge."""
    lower = [_usual(name) for name in names]
    return bool(_find(lower, SOURCES)) and bool(_find(lower, TARGETS))


def _usual(name: str) -> str:
    """Normalise a name to the spelling of the lists above."""
    return re.sub(r"[\s.-]+", "_", name.strip().lower())


def _named(
    names: Sequence[str],
    lower: Sequence[str],
    wanted: str | None,
    usual: Sequence[str],
    where: str,
) -> int | None:
    if wanted is not None:
        return _one(names, lower, wanted, where)
    return next(iter(_find(lower, usual)), None)


def _one(names: Sequence[str], lower: Sequence[str], wanted: str, where: str) -> int:
    """Return the index of a column named by the user."""
    exact = [place for place, name in enumerate(names) if name.strip() == wanted.strip()]
    place = exact or _find(lower, (_usual(wanted),))
    if not place:
        raise BadInputError(f"{where}: columns are {listed(names)}; none is {wanted!r}")
    return place[0]


def _find(lower: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the indices of columns with one of the wanted names, in the order of `wanted`."""
    return [lower.index(name) for name in wanted if name in lower]
