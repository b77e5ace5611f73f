"""Texts avoid phrases that hide their subject or verb; the number of such phrases may only fall.

A phrase of the list is not always wrong, so the limits are not all 0. Lower a limit when you remove
phrases; never raise one: rewrite the new text instead.
"""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PHRASES = {
    "name the noun instead of a clause with 'what'": (
        r"what(ever)? (a|all|an|are|comes|each|goes|has|have|is|it|lies|moves|stands|takes|the|they"
        r"|was|were)"
    ),
    "repeat the noun": r"(that|the ones?|these|those) (of|that are|who)",
    "places: 'behind' is after, 'beside' is next to or compared with": r"behind|beside",
    "consecutive, contiguous": r"one (after|behind) the other",
    "programs report, print, estimate": r"foret(ell|old)\w*|tells?|(are|be|is|was|were) told",
    "read, scan, process": r"look(ed|ing|s)? at",
    "on average": r"in the mean",
    "except": r"but for",
    "unchanged": r"as (it is|it was|such|they are|they were)",
    "continue": r"go(es)? on",
    "its, separate": r"of (her|his|its|their) own",
    "exist": r"(are|is) there",
    "per": (
        r"(bits|bytes|connections|cycles|entries|flits|frames|hops|packets|pixels|spikes|times) an?"
        r" (call|connection|core|cycle|frame|neuron|part|pixel|second|spike|step|synapse|tick"
        r"|vertex)"
    ),
    "the term of the field": r"basket|conduct|fleet|house rules|ledger|stray|strays|wish|wishes",
    "equal, the same": r"alike|likewise",
    "computed": r"worked out",
    "the negated verb": r"(fits|has|have) (no|none) (room|place|bits)|anew",
}
FOUND = {why: re.compile(rf"\b({pattern})\b", re.IGNORECASE) for why, pattern in PHRASES.items()}
LIMITS = {"pages and screens": 0, "code": 40}
SCREENS = ("CHANGELOG.md", "README.md", "docs/", "mapper/cli/", "mapper/reporting/")


def texts(path: str) -> Iterator[str]:
    """Return comments and strings of Python files, and the lines of other files."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if not path.endswith(".py"):
        yield from text.splitlines()
        return
    middle = getattr(tokenize, "FSTRING_MIDDLE", None)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING, middle) and " " in token.string:
            yield re.sub(r"\{[^{}]*\}", "{}", token.string)


def phrases() -> dict[str, Counter[str]]:
    """Return the number of phrases of each file, by kind of text."""
    endings = ("*.py", "*.md", "*.j2", "*.js", "*.toml")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *endings],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found: dict[str, Counter[str]] = {kind: Counter() for kind in LIMITS}
    for path in filter(None, listed.stdout.split("\0")):
        if (ROOT / path) == Path(__file__).resolve() or not (ROOT / path).exists():
            continue
        kind = "pages and screens" if path.startswith(SCREENS) else "code"
        whole = "\n".join(texts(path))
        found[kind][path] += sum(len(pattern.findall(whole)) for pattern in FOUND.values())
    return found


@pytest.mark.parametrize("kind", LIMITS)
def test_phrases_do_not_come_back(kind: str) -> None:
    found = phrases()[kind]
    if not found:
        pytest.skip("not a git clone")
    most = ", ".join(f"{path} ({count})" for path, count in found.most_common(8) if count)
    assert found.total() <= LIMITS[kind], f"rewrite new phrases; most are in {most}"


def test_phrases_are_found(tmp_path: Path) -> None:
    for wrong in ("what is sent", "those of cores", "two flits a core", "it goes on", "looks at"):
        assert any(pattern.search(wrong) for pattern in FOUND.values())
    for right in ("traffic", "flits per core", "it continues", "the nearest core with room"):
        assert not any(pattern.search(right) for pattern in FOUND.values())
    (tmp_path / "code.py").write_text('behind = 1  # a comment\nvalue = f"text {behind} end"\n')
    comment, *rest = texts(str(tmp_path / "code.py"))
    assert comment == "# a comment"
    assert re.sub('[f"{}]', "", "".join(rest)) == "text  end"  # in parts since Python 3.12
