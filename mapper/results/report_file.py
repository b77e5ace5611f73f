"""What report.json must hold for all who read it: checked once, where it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from storage.jsontext import shown

SCHEMA = 1
LARGEST = 32 << 20  # bytes: a chip may list a million unavailable cores


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that is no object; what it must be, in words, and whether one is that."""

    what: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value)


TEXT = Plain("a text", lambda value: isinstance(value, str))
PATH = Plain("a path", lambda value: isinstance(value, str) and "\0" not in value)
FLAG = Plain("true or false", lambda value: isinstance(value, bool))
COUNT = Plain("a whole number from 0", _is_count)
AMOUNT = Plain("a number from 0", lambda value: _is_number(value) and value >= 0)
MEASURED = Plain("a number from 0, or null", lambda value: value is None or AMOUNT.fits(value))
ANY = Plain("a text, a number, true, false or null", _is_plain)
_ANYTHING = Plain("anything", lambda value: True)
OBJECT = Plain("an object", lambda value: isinstance(value, dict))

Form: TypeAlias = "Plain | Object | list[Form]"


@dataclass(frozen=True, slots=True)
class Object:
    """An object: keys that it must have, keys that it may have, and what all others hold.

    null : whether it may be null instead; rest : None if others hold anything
    """

    must: dict[str, Form]
    may: dict[str, Form]
    rest: Form | None = ANY
    null: bool = False


_NETS = Object({}, {}, AMOUNT)
_COSTS: dict[str, Form] = {
    "cut_weight": MEASURED,
    "hops_total": MEASURED,
    "multicast": _NETS,
    "estimated": FLAG,
    "cpu_seconds": AMOUNT,
}
_LINK_LOADS = ("link_load_max", "link_load_mean", "link_load_p99")
_METRICS = (
    "cut_weight", "cut_fraction", "hops_total", "hops_mean", "hops_max", "energy", "latency_mean",
    "latency_max", *_LINK_LOADS, "congestion_mean", "congestion_max", "cores_used",
    "core_fill_mean", "core_fill_max",
)  # fmt: skip
_MULTICAST = ("connectivity", "hops_total", *_LINK_LOADS)
_TRAFFIC = Object({"source": TEXT, "multicast": TEXT}, {"file": TEXT}, null=True)
_COLUMNS: dict[str, Form] = {"columns": Object({}, {}), "columns_ignored": [ANY]}
_LINK = Object(
    {"x": COUNT, "y": COUNT, "direction": TEXT, "flits_per_cycle": AMOUNT, "expected": AMOUNT}, {}
)
_SAMPLE = Object(
    {"clusters": COUNT, "connections": COUNT, "per_cluster": AMOUNT, "enough_memory": MEASURED}, {}
)
_SIMULATION = Object(
    {},
    {
        "latency": Object({}, {}, MEASURED, null=True),
        "saturation": Object({}, {}, null=True),
        "links": [_LINK],
        "model": Object({}, {}, TEXT),
    },
    null=True,
)
REPORT = Object(
    {
        "network": Object(
            {"path": PATH, "neurons": COUNT, "synapses": COUNT},
            {"imported_from": PATH, "traffic": _TRAFFIC, **_COLUMNS},
        ),
        "chip": OBJECT,  # which `chipsim.chip.presets.from_fields` checks
        "settings": Object({"preset": TEXT, "objective": TEXT, "seed": COUNT}, {}),
        "metrics": Object(
            {
                **dict.fromkeys(_METRICS, AMOUNT),
                "multicast": Object(dict.fromkeys(_MULTICAST, AMOUNT), {}, AMOUNT),
            },
            {},
            AMOUNT,
        ),
        "levels": [
            Object({"vertices": COUNT, "connections": COUNT, "cut_weight": MEASURED}, _COSTS)
        ],
        "stages": [Object({"name": TEXT, "seconds": AMOUNT, "peak_anon_bytes": COUNT}, _COSTS)],
        "resources": Object({"seconds": AMOUNT, "peak_rss_bytes": COUNT}, {}),
    },
    {
        "tool": Object({}, {}),
        "command": [TEXT],
        "split": Object({"neurons": COUNT, "helpers": COUNT}, {}, COUNT, null=True),
        "simulation": _SIMULATION,
        "interrupted": TEXT,
        "sample": _SAMPLE,
    },
    rest=None,
)


def fault(value: Any, form: Form = REPORT, place: str = "") -> str:
    """What is wrong with a value, in a few words that name the place; "" if it has the form."""
    if isinstance(form, Plain):
        return "" if form.fits(value) else f"{place} is {shown(value)}, not {form.what}"
    if isinstance(form, list):
        if not isinstance(value, list):
            return f"{place} is {shown(value)}, not a list"
        found = (fault(each, form[0], f"{place}[{i}]") for i, each in enumerate(value))
        return next(filter(None, found), "")
    if value is None and form.null:
        return ""
    if not isinstance(value, dict):
        return f"{place or 'it'} is {shown(value)}, not an object"
    missing = next((key for key in form.must if key not in value), None)
    if missing is not None:
        return f"lacks {_inner(place, missing)}"
    known = form.must | form.may
    found = (
        fault(each, known.get(key, form.rest or _ANYTHING), _inner(place, key))
        for key, each in value.items()
    )
    return next(filter(None, found), "")


def _inner(place: str, key: str) -> str:
    name = key if key.isidentifier() and len(key) < 40 else shown(key)
    return f"{place}.{name}" if place else name
