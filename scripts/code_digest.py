"""Print a hash of the code of Python files, without comments, docstrings and layout.

    python scripts/code_digest.py FOLDER... [--used PACKAGE]

--used adds the modules of a package, such as tests.reference, that the files import, directly or
through others.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_of(path: Path) -> str:
    """Return the syntax tree of a file as text, without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def imported(path: Path, package: str) -> Iterator[Path]:
    """Yield the modules of a package that a file imports."""
    folder = Path(*package.split("."))
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            yield from (folder / f"{name.name}.py" for name in node.names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{package}."):
            yield Path(*str(node.module).split(".")).with_suffix(".py")


def used(files: list[Path], package: str) -> set[Path]:
    """Return the modules of a package that files import, directly or through others of it."""
    found: set[Path] = set()
    left = list(files)
    while left:
        more = set(imported(left.pop(), package)) - found
        found |= more
        left += more
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--used", metavar="PACKAGE")
    options = parser.parse_args()
    files = [file for folder in options.folders for file in folder.rglob("*.py")]
    files += used(files, options.used) if options.used else ()
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for file in sorted(files):
        digest.update(f"{file.as_posix()}\n{code_of(file)}\n".encode())
    print(digest.hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
