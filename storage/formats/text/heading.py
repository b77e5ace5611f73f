"""Header lines of a text table: the first line, or a comment above the rows.

Comments that name columns are written by `numpy.savetxt` (``# source target weight delay``) and
PyNN (``# columns = ['i', 'j', 'weight', 'delay']``). Nothing here needs compiled kernels, since
format detection also uses these lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from storage.errors import BadInputError
from storage.formats.base import is_text
from storage.formats.columns import names_ends

COMMENTS = "#%"
_PYNN = re.compile(r"columns\s*=\s*[\[(](.*)[\])]")


def separator(line: str) -> str | None:
    """Return the separator of the columns of a line; None for blanks."""
    return next((mark for mark in ",;\t" if mark in line.strip()), None)


def split_line(line: str, mark: str | None, where: str) -> list[str]:
    """Split a line into columns, without surrounding blanks and quotes.

    where : file and line, for the message of a `BadInputError`
    """
    if mark is None:
        return [part.strip('"') for part in line.split()]
    try:
        fields = next(csv.reader([line.strip()], delimiter=mark), [])
    except csv.Error as error:
        raise BadInputError(f"{where}: {reason_of(error)}; repair it") from error
    return [field.strip() for field in fields]


def reason_of(error: csv.Error) -> str:
    if "new-line" in str(error):  # its advice concerns a Python call
        return "a CR that is not the end of a line"
    return str(error)


def names_in(comments: Sequence[str], count: int) -> list[str] | None:
    """Return the `count` names in the last comment that names source and target, if any."""
    for comment in reversed(comments):
        names = _names(comment)
        if (
            len(names) > count == 3
        ):  # PyNN splits the name of a single attribute into letters: 'w', 'e', 'i' ...
            names = [*names[:2], "".join(names[2:])]
        if len(names) == count and names_ends(names):
            return names
    return None


def _names(comment: str) -> list[str]:
    text = comment.strip().lstrip(COMMENTS).strip()
    pynn = _PYNN.fullmatch(text)
    if pynn is not None:
        return [name.strip(" \"'") for name in pynn[1].split(",")]
    try:
        return split_line(text, separator(text), "")
    except BadInputError:
        return []


def names_columns(head: bytes) -> bool:
    """Return whether the first lines of a file name source and target, as in edge lists."""
    if not is_text(head):
        return False
    comments: list[str] = []
    for line in head.decode("utf-8", "replace").splitlines():
        if line.strip() and line.strip()[0] not in COMMENTS:
            fields = _names(line)
            return names_ends(fields) or names_in(comments, len(fields)) is not None
        comments.append(line)
    return False
