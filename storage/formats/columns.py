"""Which columns of an edge table are source, target, weight, and the populations of both ends.

Ids that count through populations say nothing alone: neuron 0 of one population is another than
neuron 0 of the next. A table that has a column for the population of one end only, or two for one
end, is refused rather than read as another network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storage.errors import BadInputError
from storage.formats.base import plain

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
"""Never taken for the weight: delays, and the numbers of rows that pandas and R write."""
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
POPULATIONS = ("population", "pop")  # of which end is not said
MOST_LISTED = 8  # columns in a message
NONE = "-"  # asks to do without a column

ROLES = ("source", "target", "weight", "source-population", "target-population")
"""What columns are chosen for, as `parse_columns` and messages call it."""


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """Columns that the user names; None where the names above, or the places, decide.

    weight : `NONE` if every row is one synapse of weight 1
    source_population, target_population : `NONE` if ids are those of the whole network
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    source_population: str | None = None
    target_population: str | None = None

    def of(self, role: str) -> str | None:
        """The name for one of the `ROLES`."""
        name: str | None = getattr(self, role.replace("-", "_"))
        return name


def parse_columns(text: str, chosen: ColumnNames | None = None) -> ColumnNames:
    """`source=pre,target=post`: names by `ROLES`, added to those chosen before.

    Raises `ValueError` for another role, for none, and for one that is given twice.
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
    """Names by `ROLES`, beside those chosen before. Raises `ValueError` for another role."""
    for role, name in named.items():
        if role not in ROLES or not isinstance(name, str) or not name:
            raise ValueError(f"{role!r}: {name!r}; give names by {', '.join(ROLES)}")
    given = {role.replace("-", "_"): name for role, name in named.items()}
    return replace(chosen or ColumnNames(), **given)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table, and what each is for.

    names : of all columns; where a file names none, their numbers from 1
    source, target : places in `names`, as all that follow
    weight : None if every row weighs 1
    populations : of source and target; None if ids are those of the whole network
    """

    names: tuple[str | int, ...]
    source: int
    target: int
    weight: int | None = None
    populations: tuple[int, int] | None = None

    @property
    def places(self) -> list[int]:
        """Of all columns that are used: source, target, weight, populations."""
        weight = [] if self.weight is None else [self.weight]
        return [self.source, self.target, *weight, *(self.populations or ())]

    def split(self, values: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Source, target, weight and populations of what there is for each of the `places`."""
        weight = None if self.weight is None else values[2]
        populations = None if self.populations is None else tuple(values[-2:])
        return values[0], values[1], weight, populations

    @property
    def facts(self) -> dict[str, Any]:
        """What is said in the provenance of a network."""
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
    """One line on the columns that a network is from; None if it is not from a table."""
    used = provenance.get("columns")
    if not isinstance(used, dict):
        return None
    parts = ", ".join(f"{listed([str(name)])} ({role})" for role, name in used.items())
    weight = "" if "weight" in used else "; every row weighs 1"
    ignored = [str(name) or "one without a name" for name in provenance.get("columns_ignored", [])]
    return f"columns used: {parts}{weight}" + (f"; ignored: {listed(ignored)}" if ignored else "")


def number_columns(count: int, where: str, wanted: ColumnNames | None = None) -> Columns:
    """Columns that a file gives no names: source, target and weight if there are two or three.

    wanted : their numbers from 1, as text
    """
    numbers = tuple(range(1, count + 1))
    names = () if wanted is None else map(wanted.of, ROLES)
    if any(name is not None and name != NONE and not name.isdecimal() for name in names):
        raise BadInputError(
            f"{where}: no line names the columns; add one, or give their numbers, as in "
            "--columns source=1,target=2"
        )
    if wanted is None and count not in (2, 3):
        raise BadInputError(
            f"{where}: {count} columns without names; give 2 (source, target) or 3 (and weight), "
            "a first line that names them, or --columns source=1,target=2,weight=3"
        )
    found = choose_columns([str(number) for number in numbers], where, wanted)
    return Columns(numbers, found.source, found.target, found.weight, found.populations)


def choose_columns(
    names: Sequence[str], where: str, wanted: ColumnNames | None = None, *, places: bool = True
) -> Columns:
    """The columns of a table by their names, or in small tables by their places.

    Where they are not named as usual, the first two of two or three columns are the ends; the
    weight is the column with a name for it, else the only other one. Raises `BadInputError` if
    that leaves no answer.
    places : whether they tell anything
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
                f"{where}: {len(names)} columns and none is called {', '.join(WEIGHTS)}; "
                "rename the one that is the weight, or name it: --columns weight=NAME (weight=- "
                "if there is none)"
            )
    if weight in used or set(used[2:]) & {source, target}:
        raise BadInputError(f"{where}: columns are {listed(names)}; name source and target")
    return Columns(tuple(names), source, target, weight, populations)


def _choose_ends(
    names: Sequence[str], lower: Sequence[str], where: str, wanted: ColumnNames, places: bool
) -> tuple[int, int]:
    """The places of source and target."""
    source = _named(names, lower, wanted.source, SOURCES, where)
    target = _named(names, lower, wanted.target, TARGETS, where)
    if (source is None) != (target is None) and (wanted.source or wanted.target):
        other = "target" if target is None else "source"
        raise BadInputError(
            f"{where}: columns are {listed(names)}; name the other: --columns {other}=NAME"
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
    """The places of the populations of source and target; None if there are none."""
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
                "source-population=NAME,target-population=NAME (- for both if ids need none)"
            )
        return None
    for end, group in zip(("source", "target"), found, strict=False):
        if len(group) > 1:
            shown = listed([names[place] for place in group])
            raise BadInputError(
                f"{where}: {shown} may all be the population of the {end}; name one: "
                f"--columns {end}-population=NAME"
            )
    if len(found) != 2 or not all(found):
        shown = listed([names[place] for group in found for place in group])
        raise BadInputError(
            f"{where}: {shown} gives the population of one end only; name both: --columns "
            "source-population=NAME,target-population=NAME (- for both if ids need none)"
        )
    return found[0][0], found[1][0]


def listed(names: Sequence[str]) -> str:
    """Names of columns for a message, long ones and long lists cut short."""
    shown = [name if len(name) <= 24 else f"{name[:24]}..." for name in names[:MOST_LISTED]]
    return plain(", ".join(shown + ["..."] * (len(names) > MOST_LISTED)))


def names_ends(names: Sequence[str]) -> bool:
    """Whether a line of words names source and target, so that it cannot be an edge itself."""
    lower = [_usual(name) for name in names]
    return bool(_find(lower, SOURCES)) and bool(_find(lower, TARGETS))


def _usual(name: str) -> str:
    """A name as the lists above have it."""
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
    """The place of a column that the user names."""
    exact = [place for place, name in enumerate(names) if name.strip() == wanted.strip()]
    place = exact or _find(lower, (_usual(wanted),))
    if not place:
        raise BadInputError(f"{where}: columns are {listed(names)}; none is {wanted!r}")
    return place[0]


def _find(lower: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The places of all columns that have one of the wanted names, in the order of these."""
    return [lower.index(name) for name in wanted if name in lower]
