"""Exports of mappings that other packages add, as entry points `mapper.exports`.

The object of an entry point is a `MappingExporter`. A built-in one of the same name has precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mapper.exports.base import MappingExporter
from storage.formats.added import fault_of_extensions
from storage.plugins import EXPORTS, Plugin, find_plugin, skipping, usable_plugins


def find_export(name: str) -> MappingExporter | None:
    """Return an exporter that another package adds; None if there is none.

    Raises `PluginError` if the package is broken.
    """
    plugin = find_plugin(EXPORTS, name)
    return None if plugin is None else mapping_exporter(plugin)


def added_exports() -> Iterator[MappingExporter]:
    """Yield the exporters of other packages by name; broken ones are reported as warnings."""
    for plugin in usable_plugins(EXPORTS):
        with skipping():
            yield mapping_exporter(plugin)


def mapping_exporter(plugin: Plugin) -> MappingExporter:
    """Return the exporter of an entry point; raise `PluginError` if it is not one."""
    found = plugin.load(MappingExporter)
    if found.name != plugin.name:
        raise plugin.error(f"has the name {found.name!r} instead of {plugin.name!r}")
    fault = fault_of_extensions(found.extensions)
    if fault:
        raise plugin.error(fault)
    return replace(found, package=plugin.package)
