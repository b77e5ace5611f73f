"""Texts as people may read them: the one place where names from files become safe to print.

Names can contain escape sequences of terminals, marks that reverse the direction of writing
(U+202E and the other bidirectional controls), line breaks and invisible characters, which make a
line look like another one. They are shown as escapes such as ``\\u202e``. Data files keep them.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(r"[^ -~\n\t]")  # candidates: most texts have none


def plain(text: str) -> str:
    """Escape all unprintable characters, including line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def plain_lines(text: str) -> str:
    """Escape all unprintable characters, except line breaks and tabs."""
    return _HIDDEN.sub(lambda c: c[0] if c[0].isprintable() else _escape(c[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
