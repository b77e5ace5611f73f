"""Packages with plugins, as an installer leaves them: modules next to a folder with metadata."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.test_structure import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "plugin"
Groups = Mapping[str, Mapping[str, str]]
"""Objects of entry points by name, by group without `mapper.`."""


def install(site: Path, name: str, version: str, groups: Groups) -> None:
    """Write the metadata of a package to a folder of packages."""
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(metadata)
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


def install_example(site: Path) -> None:
    """Install the package of the documentation; forget it if another test imported it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "mapper_example"]:
        del sys.modules[name]
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(site, project["name"], project["version"], project["entry-points"])
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(EXAMPLE / "mapper_example", site / "mapper_example", ignore=ignored)
