"""Print a hash of the code of Python files, without comments, docstrings and layout.

python scripts/code_digest.py FOLDER...
"""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_of(path: Path) -> str:
    """Return the syntax tree of a file as text, without docstrings."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(tree)


def main() -> int:
    files = sorted(file for folder in sys.argv[1:] for file in Path(folder).rglob("*.py"))
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for file in files:
        digest.update(f"{file.as_posix()}\n{code_of(file)}\n".encode())
    print(digest.hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main())
