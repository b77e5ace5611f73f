"""Type checks of arguments given from Python, with messages in terms of the call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from mapper.errors import UsageError, shown

_PATH = (str, os.PathLike)
_WANTED: dict[str, tuple[tuple[type, ...], str]] = {
    "preset": ((str,), "the name of a preset"),
    "objective": ((str,), '"unicast", "cut" or "multicast"'),
    "seed": ((Integral,), "a whole number"),
    "threads": ((Integral,), "a whole number of 1 or more, or None for all cores"),
    "memory": ((str, Real), 'bytes, or a text such as "1GiB"'),
    "constraints": (_PATH, "the path of a TOML file"),
    "split_neurons": ((bool,), "True or False"),
    "neurons": ((Integral,), "a whole number"),
    "columns": ((Mapping,), 'names by role, as in {"source": "pre"}'),
    "workdir": (_PATH, "the path of a folder"),
    "shared": (_PATH, "the path of a folder"),
}


def check_arguments(**given: Any) -> None:
    """Raise `UsageError` for an argument of a wrong type.

    given : arguments by name: the names in `_WANTED`, where None stands for an omitted argument,
        and `progress`, a callable
    """
    for name, value in given.items():
        if name == "progress":
            if value is not None and not callable(value):
                raise UsageError(
                    f"progress is {shown(value)}; give a function (stage, fraction) -> None"
                )
            continue
        kinds, words = _WANTED[name]
        wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
        if wrong and (value is not None or name == "seed"):
            raise UsageError(f"{name} is {shown(value)}; give {words}")
    if given.get("threads") is not None and given["threads"] < 1:
        raise UsageError(f"threads is {given['threads']}; give {_WANTED['threads'][1]}")
