"""Parts of the reference that are generated from the code.

A page contains a comment, such as ``<!-- generated: commands -->``, which is replaced by the
Markdown of the part before Sphinx reads it. ``PARTS["commands"]()`` also works without Sphinx.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hw.npu.isa.table import FORMS, HEAD, MICRO_OP, RECORD, SCALE, UNITS, Field, Form
from mapper.cli.main import COMMANDS, build_whole_parser, subparsers
from mapper.compiler.transforms.registry import PASSES
from mapper.settings import GROUPS, PRESETS, SETTINGS, UNLIMITED

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from storage.formats import Exporter

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 80
MARK = re.compile(r"<!-- generated: ([\w-]+) -->")


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; cells are Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def plain(text: str) -> str:
    """Return text with Markdown characters escaped, except inside backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_<>\[\]|#])", r"\\\1", part)
        for part in parts
    )


# ---- commands -------------------------------------------------------------------------------


def commands() -> str:
    """Return a section for every command and subcommand, from its parser."""
    parsers = subparsers(build_whole_parser())
    assert list(parsers) == list(COMMANDS)
    return "\n".join("\n".join(_command(parser, 2)) for parser in parsers.values())


def _command(parser: argparse.ArgumentParser, depth: int) -> Iterator[str]:
    yield f"{'#' * depth} {parser.prog}\n"
    yield f"{plain(' '.join((parser.description or '').split()))}\n"
    yield f"```text\n{_usage(parser)}\n```\n"
    for group in parser._action_groups:
        rows = [
            [_spelling(action), plain(_help(parser, action))]
            for action in group._group_actions
            if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
            and action.help != argparse.SUPPRESS
        ]
        if rows:
            title = str(group.title)
            yield table([f"{title[0].upper()}{title[1:]}", ""], rows)
    yield from _epilog(parser.epilog or "")
    for sub in subparsers(parser).values():
        yield from _command(sub, depth + 1)


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, prefix="")
    return formatter.format_help().strip()


def _spelling(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else None
    if value is None and action.choices is not None:
        value = "|".join(str(choice) for choice in action.choices)
    if not action.option_strings:
        return f"`{value or action.dest}`"
    takes = f" {value or action.dest.upper()}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{takes}`" for option in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = argparse.HelpFormatter(parser.prog)._expand_help(action) if action.help else ""
    return " ".join(text.split())


def _epilog(text: str) -> Iterator[str]:
    """Yield the epilog as Markdown; indented lines are examples or lists."""
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0] == "examples:":
            examples = "\n".join(line.strip() for line in lines[1:])
            yield f"```sh\n{examples}\n```\n"
            continue
        listed = [line for line in lines if line.startswith("  ")]
        text = plain(" ".join(line for line in lines if line not in listed))
        yield f"{text}\n"
        if listed:  # columns of formats
            yield "\n".join(["```text", *listed, "```\n"])


# ---- settings -------------------------------------------------------------------------------

STREAMED = ("fast", "default", "strong")
COLUMNS = {"run": (), "all": tuple(PRESETS), "classic": ("classic",)}  # else STREAMED
GIVEN = {
    "preset": "`--preset`: `default`",
    "seed": "`--seed`: 0",
    "threads": "`--threads`: all cores",
    "memory_bytes": "`--memory`: 3/4 of the free memory",
}
"""Options and defaults of the settings that `--set` does not accept."""


def settings() -> str:
    """Return a table for each group of settings, with their values in the presets."""
    return "\n".join(f"## {title}\n\n{settings_table(name)}" for name, title in GROUPS.items())


def settings_table(group: str) -> str:
    """Return the settings of a group: name, default of each preset, range and help."""
    presets = COLUMNS.get(group, STREAMED)
    rows = [
        [f"`{each.name}`", *([GIVEN[each.name]] if group == "run" else [])]
        + [value(each.in_preset(preset)) for preset in presets]
        + [f"{each.range} {each.unit}".strip(), plain(each.help)]
        for each in SETTINGS.values()
        if each.group == group
    ]
    defaults = ["option and default"] if group == "run" else [f"`{preset}`" for preset in presets]
    return table(["setting", *defaults, "range", "meaning"], rows)


def value(found: Any) -> str:
    """Return the text of a setting's value."""
    if isinstance(found, int) and found >= UNLIMITED:
        return "none"
    return f"{found:,}" if isinstance(found, int) else str(found)


# ---- chips ----------------------------------------------------------------------------------


def chips() -> str:
    """Return the table of named chips."""
    from chipsim.chip.presets import PRESETS as CHIPS

    names = ("neurons", "synapses", "axons_in", "axons_out")
    costs = ("energy_router", "energy_link", "latency_router", "latency_link")
    rows = [
        [f"`{name}`", f"{chip.width}x{chip.height}"]
        + ["" if (n := getattr(chip, limit)) is None else f"{n:,}" for limit in names]
        + [chip.delivery]
        + [
            " / ".join(f"{one:g}" for one in (cost if isinstance(cost, tuple) else (cost,)))
            for cost in (getattr(chip, name) for name in costs)
        ]
        for name, chip in CHIPS.items()
    ]
    heads = (*names, "delivery", *costs)
    return table(["name", "cores", *(f"`{name}`" for name in heads)], rows)


def npus() -> str:
    """Return the parameters of an NPU and their values in the presets."""
    from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
    from chipsim.chip.tables import meanings

    rows = [
        [f"`{key}`", *(_toml(getattr(shape, key)) for shape in NPU_SHAPES.values()), plain(meaning)]
        for key, meaning in meanings(NpuShape).items()
    ]
    return table(["key of `[npu]`", *(f"`{name}`" for name in NPU_SHAPES), "meaning"], rows)


def _toml(found: Any) -> str:
    """Return a value in TOML syntax."""
    return str(found).lower() if isinstance(found, bool) else str(found)


# ---- formats --------------------------------------------------------------------------------


def formats() -> str:
    """Return the table of input formats."""
    from storage.formats import FORMATS

    rows = [
        [
            f"`{name}`",
            " ".join(f"`{suffix}`" for suffix in importer.extensions),
            plain(importer.about),
        ]
        for name, importer in FORMATS.items()
    ]
    return table(["name", "files", "content"], rows)


def exports() -> str:
    """Return the table of output formats of networks, with the attributes that each can store."""
    from storage.formats import EXPORTS
    from storage.formats.losses import HELD

    heads = ["name", "files", "content", *(plain(text) for text in HELD.values())]
    rows = [
        [
            f"`{name}`",
            " ".join(f"`{suffix}`" for suffix in exporter.extensions),
            plain(exporter.about),
            *(_place(exporter, kind) for kind in HELD),
        ]
        for name, exporter in EXPORTS.items()
    ]
    return table(heads, rows)


def _place(exporter: Exporter, kind: str) -> str:
    if kind in exporter.partly:
        return "partly"
    return "yes" if kind in exporter.holds else "no"


# ---- instructions ---------------------------------------------------------------------------


def isa_form(form: Form) -> str:
    """Return the section of an instruction form: its kinds and its fields."""
    kinds = [
        [f"`{form.op}.{kind}`", str(code), plain(meaning)]
        for kind, (code, meaning) in form.kinds.items()
    ]
    return "\n".join(
        [
            f"## {form.op}: {form.title}\n",
            table(["instruction", "kind", "operation"], kinds),
            isa_fields(form.fields),
        ]
    )


def isa_fields(fields: tuple[Field, ...]) -> str:
    """Return the table of the fields of a word: bits, name, values and meaning."""
    return table(["bits", "field", "values", "meaning"], [_isa_field(field) for field in fields])


def _isa_field(field: Field) -> list[str]:
    bits = f"{field.high}:{field.low}" if field.width > 1 else str(field.low)
    named = [f"{code} `{name}`" for code, name in enumerate(field.values)]
    values = ", ".join(named) or f"{field.least:,} to {field.most:,}"
    return [bits, f"`{field.name}`", values, plain(field.meaning)]


def isa_record() -> str:
    """Return the table of the lanes of the first word of a record."""
    rows = [
        [str(lane), f"`{name}`", plain(what)] for lane, (name, what) in enumerate(RECORD.items())
    ]
    return table(["lane", "name", "meaning"], rows)


def isa_units() -> str:
    """Return the table of the bits of `wait` and `signal`."""
    return table(["bit", "unit"], [[str(bit), f"`{unit}`"] for bit, unit in enumerate(UNITS)])


# ---- passes ---------------------------------------------------------------------------------


def passes() -> str:
    """Return the table of the compiler passes, in their order."""
    heads = ["pass", "action", "legal if", "applied if", "gain in the log"]
    rows = [
        [f"`{one.name}`", texts.what, texts.legal_if, texts.applied_if,
         f"{texts.gains}{'' if one.measured else '; estimated'}"]
        for one, texts in ((one, one.texts) for one in PASSES)
    ]  # fmt: skip
    return table(heads, rows)


def reference(part: str) -> str:
    """Return the reference of Python; part : "python" or "extensions"."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        return str(getattr(import_module("generated_python"), part)())
    finally:
        sys.path.pop(0)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    **{f"settings-{group}": partial(settings_table, group) for group in GROUPS},
    "chips": chips,
    "npus": npus,
    "formats": formats,
    "exports": exports,
    "passes": passes,
    "python": partial(reference, "python"),
    "extensions": partial(reference, "extensions"),
    "isa-head": partial(isa_fields, HEAD),
    "isa-units": isa_units,
    **{
        f"isa-{form.op}-{next(iter(form.kinds))}".lower(): partial(isa_form, form) for form in FORMS
    },
    "isa-micro-op": partial(isa_fields, MICRO_OP),
    "isa-scale": partial(isa_fields, SCALE),
    "isa-record": isa_record,
}


def fill(text: str) -> str:
    """Return the text of a page with its generated parts filled in."""
    return MARK.sub(lambda found: PARTS[found[1]](), text)


def _fill_source(app: Sphinx, name: str, source: list[str]) -> None:
    if MARK.search(source[0]):
        app.env.note_dependency(__file__)
        for package in ("mapper", "storage", "chipsim", "hw"):
            for module in (ROOT / package).rglob("*.py"):
                app.env.note_dependency(str(module))
        source[0] = fill(source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _fill_source)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
