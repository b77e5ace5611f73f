"""The reference of the Python interface, generated from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import mapper
from mapper import extend

WIDTH = 100
SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
FIELDS = re.compile(r"^\w+(, \w+)* : ")
"""Start of a paragraph that describes attributes."""
ENTRY = re.compile(r"^(\S.*?)(?: : (.*))?$")


def python() -> str:
    """Return a section for every public name of the package `mapper`."""
    return _reference(mapper, [name for name in mapper.__all__ if name != "__version__"])


def extensions() -> str:
    """Return a section for the interfaces of plugins, without names that `mapper` also has."""
    return _reference(extend, [name for name in extend.__all__ if name not in mapper.__all__])


def _reference(package: ModuleType, names: list[str]) -> str:
    """Return sections for names of a package: functions, then classes."""
    found = {name: getattr(package, name) for name in names}
    classes = {name: one for name, one in found.items() if inspect.isclass(one)}
    functions = {name: one for name, one in found.items() if name not in classes}
    errors = {name: one for name, one in classes.items() if issubclass(one, Exception)}
    results = {name: one for name, one in classes.items() if name not in errors}
    lines = ["### Functions\n"]
    for name, one in functions.items():
        lines += _function(package.__name__, name, one)
    lines.append("### Classes\n")
    for name, one in results.items():
        lines += _class(package.__name__, name, one)
    lines.append("### Errors\n")
    where = package.__name__
    lines += [f"`{where}.{name}`: {_first_line(one)}\n" for name, one in errors.items()]
    return "\n".join(lines)


def _function(package: str, name: str, one: Any) -> Iterator[str]:
    yield f"#### {package}.{name}\n"
    yield f"```python\n{_signature(name, one)}\n```\n"
    yield from _docstring(one)


def _class(package: str, name: str, one: Any) -> Iterator[str]:
    yield f"#### {package}.{name}\n"
    yield from _docstring(one)
    rows = []
    for member, value in vars(one).items():
        if member.startswith("_") or not (callable(value) or isinstance(value, property)):
            continue
        called = "" if isinstance(value, property) else _arguments(value)
        rows.append(f"| `{member}{called}` | {_escaped(_first_line(value))} |")
    if rows:
        yield "\n".join(["| member | |", "| --- | --- |", *rows, ""])


def _first_line(one: Any) -> str:
    paragraph = (inspect.getdoc(one) or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def _signature(name: str, one: Any) -> str:
    """Return the signature with an argument per line, as the source has it."""
    signature = inspect.signature(one)
    lines, star = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            lines.append("    *,")
            star = True
        stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
        given = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
        lines.append(f"    {stars}{parameter.name}: {parameter.annotation}{given},")
    inside = "\n".join(["", *lines, ""]) if lines else ""
    return f"{name}({inside}) -> {signature.return_annotation}"


def _arguments(one: Any) -> str:
    """Return the names of the arguments of a method."""
    parameters = list(inspect.signature(one).parameters.values())[1:]
    return f"({', '.join(each.name for each in parameters)})"


def _docstring(one: Any) -> Iterator[str]:
    """Yield a docstring as Markdown: paragraphs, and a table of each section."""
    text = inspect.getdoc(one) or ""
    pieces = SECTION.split(text)
    for paragraph in pieces[0].strip().split("\n\n"):
        if FIELDS.match(paragraph):
            yield _table("", _entries(paragraph)[0])
        else:
            yield f"{_paragraphs(paragraph)}\n"
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        entries, rest = _entries(body)
        yield _table(title, entries)
        if rest:
            yield f"{_paragraphs(rest)}\n"


def _table(title: str, entries: list[tuple[str, str]]) -> str:
    rows = [f"| {_named(name)} | {_escaped(what)} |" for name, what in entries]
    return "\n".join([f"| {title} | |", "| --- | --- |", *rows, ""])


def _entries(body: str) -> tuple[list[tuple[str, str]], str]:
    """Return names and descriptions of a section, and the paragraphs after it."""
    block, _, rest = body.strip().partition("\n\n")
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith(" "):
            name, what = found[-1]
            found[-1] = name, f"{what} {line.strip()}".strip()
        elif entry := ENTRY.match(line):
            found.append((entry[1], entry[2] or ""))
    return found, rest


def _named(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(one.split()) for one in text.strip().split("\n\n"))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
