"""Imports go one way: mapper -> storage, chipsim, hw; nothing imports mapper."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("mapper", "storage", "chipsim", "hw")
ALLOWED = {
    "mapper": {"mapper", "storage", "chipsim", "hw"},
    "storage": {"storage"},
    "chipsim": {"chipsim"},
    "hw": {"hw"},
}


def imported_packages(source: str) -> set[str]:
    """Top-level names that a module imports, inside functions as well."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(str(node.module).partition(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_go_one_way(package: str) -> None:
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    for module in modules:
        ours = imported_packages(module.read_text()) & set(PACKAGES)
        assert ours <= ALLOWED[package], f"{module.relative_to(ROOT)} imports {ours}"


def test_the_check_sees_imports_inside_functions() -> None:
    source = "def f():\n    from mapper.cli.main import main\n    import storage.store.graph as g\n"
    assert imported_packages(source) == {"mapper", "storage"}
