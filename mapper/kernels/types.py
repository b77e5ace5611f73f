"""Text form of the argument types of kernels, as stored in `mapper/kernels/warmup.json`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

PLAIN = "tuple"


def _types() -> Any:
    """Return numba's types module, which lacks type annotations."""
    from numba import types

    return types


def types_of(text: str) -> tuple[Any, ...]:
    """Return the numba types of a signature in the table; see `name_of`."""
    return tuple(map(_type_of, text.split()))


def _type_of(word: str) -> Any:
    types = _types()
    if word.endswith(")"):
        name, _, inner = word[:-1].partition("(")
        fields = list(map(_type_of, _split(inner)))
        if name == PLAIN:
            return types.BaseTuple.from_types(fields)
        module, _, kind = name.rpartition(".")
        return types.BaseTuple.from_types(fields, getattr(import_module(module), kind))
    name, _, shape = word.partition("[")
    scalar = types.boolean if name == "bool" else getattr(types, name)
    if not shape:
        return scalar
    return types.Array(scalar, int(shape[0]), shape[1], readonly="r" in shape)


def _split(fields: str) -> list[str]:
    """Split at commas outside of brackets."""
    found, depth = [""], 0
    for letter in fields:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def name_of(kind: Any) -> str:
    """Return the text form of a numba type.

    Examples: `int64`, `int32[1C]`, read-only `uint8[1Cr]`, `module.Class(int64,int32[1C])` for a
    named tuple, `tuple(int64,int64)` for a plain one; tuples may be nested.
    """
    types = _types()
    if isinstance(kind, types.Array):
        return f"{kind.dtype}[{kind.ndim}{kind.layout}{'' if kind.mutable else 'r'}]"
    if isinstance(kind, types.BaseNamedTuple):
        named = kind.instance_class
        return f"{named.__module__}.{named.__qualname__}({','.join(map(name_of, kind.types))})"
    if isinstance(kind, types.BaseTuple):
        return f"{PLAIN}({','.join(map(name_of, kind.types))})"
    if isinstance(kind, types.Boolean | types.Integer | types.Float):
        return str(kind)
    raise TypeError(
        f"{kind}: unsupported type of a kernel argument; use an array, a number or a tuple of these"
    )
