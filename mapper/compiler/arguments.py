"""Options of `mapper compile` for ONNX models as arguments of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from chipsim.chip.model import Chip
from mapper.cache.cache import OFF, Cache
from mapper.compiler.layer_bits import BITS
from mapper.compiler.request import (
    SETTINGS,
    CompileRequest,
    RequestedOutputs,
    RequestedSamples,
    settings_of,
)
from mapper.compiler.settings import EMITTED, CompileSettings
from mapper.compiler.transforms.switches import STEPS, SWITCHES, baselines_of, known_names
from mapper.errors import UsageError, shown
from mapper.inputs.samples import sample_table
from storage.samples import parse_form

REALS = ("headroom", "max_loss", "min_signal", "time_limit")
COUNTS = ("cores", "samples", "pack_chunk")
FLAGS = ("force", "keep_going", "explain", "keep_graphs", "no_cache")
TEXTS = ("normalise", "layout")
OF_FLOATS = (
    "bits", "scheme", "per", "method", "headroom", "rounding", "zero_point", "max_loss",
    "min_signal", "keep_going", "samples",
)  # fmt: skip
"""Arguments without effect on a model that is quantised already."""


class RequestedFile(NamedTuple):
    """A model to compile. path : its file; chips : smallest first, with NPUs"""

    path: Path
    chips: Sequence[Chip]


def request_of_arguments(
    model: RequestedFile, given: Mapping[str, Any], command: Sequence[str]
) -> CompileRequest:
    """Return the compilation that arguments request.

    given : arguments by name; omitted ones, and None, have the defaults of the command
    command : words for the report
    Raises `UsageError` for arguments of wrong types and values, in the words of the command.
    """
    given = {name: value for name, value in given.items() if value is not None}
    _require_types(given)
    settings = {name: given[name] for name in SETTINGS if name in given}
    if "bits" in settings:
        settings["bits"] = BITS.get(str(settings["bits"]), settings["bits"])
    settings |= {name: float(settings[name]) for name in REALS if name in settings}
    if "first_tile" in settings:
        settings["first_tile"] = _sizes(settings["first_tile"], "first_tile", 2)
    disable = _known(given, "disable", (*SWITCHES, *STEPS))
    samples = {
        name: sample_table(given[name], name) for name in ("calibrate", "verify") if name in given
    }
    return CompileRequest(
        model.path,
        model.chips,
        settings_of(
            settings,
            per=given.get("per"),
            samples=given.get("samples"),
            keep=tuple(_names(given, "keep")),
            disable=disable,
            baseline=_baselines(given),
        ),
        RequestedSamples(
            **samples,
            limit=given.get("samples"),
            form=parse_form(given.get("normalise"), given.get("layout")),
        ),
        RequestedOutputs(
            given.get("keep_going", False),
            given.get("keep_graphs", False),
            _known(given, "emit", EMITTED),
            command,
        ),
        _shapes(given.get("input_shape")),
        given.get("memory"),
        _of_floats(given, disable),
        OFF if given.get("no_cache") else Cache.of_user(),
    )


def _require_types(given: Mapping[str, Any]) -> None:
    """Raise `UsageError` for values that an argument does not have."""
    for name, words in _words().items():
        if name in given and given[name] not in words:
            raise UsageError(f"--{_option(name)} {shown(given[name])} is not known; give "
                             f"{', '.join(words)}")  # fmt: skip
    kinds: tuple[tuple[Sequence[str], type, str], ...] = (
        (REALS, Real, "a number"),
        (COUNTS, Integral, "a whole number of 1 or more"),
        (FLAGS, bool, "True or False"),
        (TEXTS, str, "a text"),
    )
    for names, kind, text in kinds:
        for name in names:
            if name not in given:
                continue
            value = given[name]
            wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
            if wrong or (kind is Integral and value < 1):
                raise UsageError(f"--{_option(name)} is {shown(value)}; give {text}")
    bits = given.get("bits", 8)
    if isinstance(bits, bool) or not isinstance(bits, int | str):
        raise UsageError(f'--bits is {shown(bits)}; give 8, 16, "auto", or a text with layers')


def _words() -> dict[str, tuple[str, ...]]:
    """Return the settings whose values are words, and the words."""
    found = {}
    for name, hint in get_type_hints(CompileSettings).items():
        words = _literals(hint)
        if name in (*SETTINGS, "per") and words and all(isinstance(one, str) for one in words):
            found[name] = words
    return found


def _literals(hint: Any) -> tuple[Any, ...]:
    """Return the values of a type that is a choice of values, () for others."""
    parts = get_args(hint)
    if get_origin(hint) not in (Union, UnionType):
        return parts
    return tuple(value for part in parts for value in get_args(part))


def _names(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return names that are given as a text, separated by commas, or as several texts."""
    value = given.get(name, ())
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Sequence) or not all(isinstance(one, str) for one in names):
        raise UsageError(f"--{name} is {shown(value)}; give names, as a list or in one text")
    return tuple(filter(None, names))


def _known(given: Mapping[str, Any], name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return names without duplicates; raise `UsageError` for unknown ones."""
    try:
        return known_names(_names(given, name), known)
    except ValueError as error:
        raise UsageError(f"--{name}: {error}") from error


def _baselines(given: Mapping[str, Any]) -> dict[str, str]:
    try:
        return baselines_of(_names(given, "baseline"))
    except ValueError as error:
        raise UsageError(f"--baseline: {error}") from error


def _shapes(given: Any) -> dict[str, tuple[int, ...]]:
    """Return the sizes of inputs by name."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): _sizes(sizes, "input_shape") for name, sizes in given.items()}
    return {"": _sizes(given, "input_shape")}


def _sizes(given: Any, name: str, count: int | None = None) -> tuple[int, ...]:
    """Return whole numbers of 1 or more; raise `UsageError` for others, or another count."""
    several = isinstance(given, Sequence) and not isinstance(given, str)
    sizes = tuple(given) if several else ()
    whole = all(isinstance(one, Integral) and not isinstance(one, bool) for one in sizes)
    if not sizes or not whole or min(sizes) < 1 or len(sizes) != (count or len(sizes)):
        many = "whole numbers" if count is None else f"{count} whole numbers"
        raise UsageError(f"--{_option(name)} is {shown(given)}; give {many} of 1 or more")
    return tuple(int(one) for one in sizes)


def _of_floats(given: Mapping[str, Any], disable: Sequence[str]) -> list[str]:
    """Return the given arguments that apply to floating-point models only."""
    usual = CompileSettings()
    found = [
        f"--{_option(name)}"
        for name in OF_FLOATS
        if name in given and (name in ("per", "samples") or given[name] != getattr(usual, name, 0))
    ]
    return found + ["--disable bias-correction"] * ("bias-correction" in disable)


def _option(name: str) -> str:
    return name.replace("_", "-")
