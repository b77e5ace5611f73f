"""Text in cells of csv files: the one place where spreadsheets are kept from evaluating names.

A spreadsheet evaluates a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
return, also if the cell is in quotes. Such a text, unless it is a number, gets a single quote in
front (OWASP, CSV Injection). A text that begins with single quotes and then one of these characters
gets one more, so that every text can be restored.
"""

from __future__ import annotations

import re

EVALUATED = "=+-@\t\r"
"""Characters that begin a formula."""
_QUOTED = re.compile(f"'+[{re.escape(EVALUATED)}]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would evaluate a text that is not a number."""
    return text.startswith(tuple(EVALUATED)) and _NUMBER.fullmatch(text) is None


def is_guarded(cell: str) -> bool:
    """Return whether a cell begins with the quote of `guarded`."""
    return _QUOTED.match(cell) is not None


def guarded(text: str) -> str:
    """Return a text as a cell that spreadsheets do not evaluate."""
    return f"'{text}" if is_formula(text) or is_guarded(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell; inverts `guarded`."""
    return cell[1:] if is_guarded(cell) else cell
