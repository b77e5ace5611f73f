"""List the plugins: objects that other installed packages add, and the faults of broken ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from chipsim.chip.presets import PRESETS
from mapper.exports import EXPORTS as MAPPINGS
from mapper.exports.added import mapping_exporter
from mapper.inputs.chips import added_chip
from mapper.placement.placers import PLACERS as BUILT_IN_PLACERS
from mapper.placement.placers import added_placer
from storage.formats import EXPORTS as WRITERS
from storage.formats import FORMATS as READERS
from storage.formats.added import file_format
from storage.plugins import (
    CHIPS,
    EXPORTS,
    FORMATS,
    KINDS,
    PLACERS,
    Plugin,
    PluginError,
    find_plugin,
    plugins_of,
)

BUILT_IN: dict[str, Collection[str]] = {
    FORMATS: READERS.keys() & WRITERS.keys(),
    PLACERS: BUILT_IN_PLACERS,
    CHIPS: PRESETS,
    EXPORTS: MAPPINGS,
}
"""Names that no plugin can have, by group."""


class InstalledPlugin(NamedTuple):
    """An object that another package adds, returned by `mapper.plugins`.

    kind : "format", "placer", "chip" or "export"
    name : as in `--format`, `--set placer=`, `--chip`
    package : name and version of the package
    about : description
    fault : reason why it cannot be used; None if it can
    """

    kind: str
    name: str
    package: str
    about: str
    fault: str | None


def installed_plugins() -> list[InstalledPlugin]:
    """Return all plugins by kind and name. Imports their packages."""
    return [_described(plugin) for group in KINDS for plugin in plugins_of(group)]


def _described(plugin: Plugin) -> InstalledPlugin:
    about, fault = "", None
    try:
        find_plugin(plugin.group, plugin.name)  # two packages may add the name
        about = _about(plugin)
    except PluginError as error:
        fault = str(error)
    if plugin.name in BUILT_IN[plugin.group]:
        fault = f"hidden by the built-in {plugin.kind} of this name"
    return InstalledPlugin(plugin.kind, plugin.name, plugin.package, about, fault)


def _about(plugin: Plugin) -> str:
    """Return the description of a plugin; raises `PluginError` if it cannot be loaded."""
    if plugin.group == FORMATS:
        reader, writer = file_format(plugin)
        part = reader or writer
        tasks = " and ".join(
            task for task, one in (("reads", reader), ("writes", writer)) if one is not None
        )
        return "" if part is None else f"{part.about} ({tasks})"
    if plugin.group == PLACERS:
        return (type(added_placer(plugin)).__doc__ or "").strip().partition("\n")[0]
    if plugin.group == CHIPS:
        chip = added_chip(plugin)
        size = f"{chip.width}x{chip.height} cores"
        return f"{chip.origin.about} ({size})" if chip.origin else size
    return mapping_exporter(plugin).about
