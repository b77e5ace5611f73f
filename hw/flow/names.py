r"""Names for RTLIL that every tool keeps as they are.

Amaranth joins the parts of a name by two underscores (``local_in__0__payload``), and marks fields
and names that occur again by ``.`` and ``$``. Verilog has to escape the latter, and Verilator
rewrites all of them (``local_in___05F0___05Fpayload``). Here such a name becomes plain: letters,
digits, and single underscores.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_TOKEN = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"|\\(?P<name>[^\s"\[\]{}]+)')
"""A string, or a name that was given by someone: those that tools made up begin with a $."""
_PLAIN = re.compile(r"[A-Za-z_](?:_?[A-Za-z0-9])*_?", re.ASCII)
_MEMORY = re.compile(r"(\\\\)([^\s\\]+)")  # of a string that names a memory, as in "\\rows"


def plain_names(text: str, first: Iterable[str] = ()) -> str:
    """RTLIL with plain names only, those of modules included; different ones stay different.

    first : names, such as those of ports, that become plain before others may take their place
    """
    found = [match["name"] or _memory(match["text"]) for match in _TOKEN.finditer(text)]
    names = dict.fromkeys([*first, *filter(None, found)])
    new = {name: name for name in names if _PLAIN.fullmatch(name)}
    taken = set(new)
    for name in names:
        if name not in new:
            new[name] = plain = _free(plain_name(name), taken)
            taken.add(plain)

    def replace(match: re.Match[str]) -> str:
        if match["name"]:
            return f"\\{new[match['name']]}"
        memory = _memory(match["text"])
        return f'"\\\\{new[memory]}"' if memory else match[0]

    return _TOKEN.sub(replace, text)


def plain_name(name: str) -> str:
    """A name in letters, digits, and single underscores."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name, flags=re.ASCII)
    return f"_{plain}" if plain[0].isdecimal() else plain


def _memory(text: str | None) -> str:
    """The name of the memory that a string stands for, or nothing."""
    found = _MEMORY.fullmatch(text or "")
    return found[2] if found else ""


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken."""
    if name not in taken:
        return name
    return next(n for i in range(2, 10**9) if (n := f"{name}_{i}") not in taken)
