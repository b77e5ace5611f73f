"""Modules use only the environment variables of a list, and no hidden imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.test_structure import modules

# Each module with the variables that it reads or sets. A key that is not a literal is given as its
# expression; "*" is the whole environment, passed to another process.
ALLOWED = {
    "mapper.cache.location": {"FOLDER", "SIZE"},  # MAPPER_CACHE_DIR, MAPPER_CACHE_SIZE
    "hw.flow.yosys": {"PATH"},
    "mapper.cli.docs": {"LESS", "NO_COLOR"},
    "mapper.cli.warm": {"NUMBA_CACHE_DIR"},
    "mapper.distributed.engine": {"CACHE"},  # NUMBA_CACHE_DIR
    "mapper.distributed.owner": {"name"},  # variables of MALLOC
    "mapper.distributed.slurm_step": {
        "*", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_CPU", "SLURM_TMPDIR", "TMPDIR",
        "name",  # SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_ID, SLURM_STEP_ID
    },
    "mapper.kernels.installation": {
        "NUMBA_CACHE_DIR", "XDG_CACHE_HOME",
        "name",  # OPENBLAS_NUM_THREADS, MKL_NUM_THREADS, VECLIB_MAXIMUM_THREADS
    },
    "mapper.kernels.warmup": {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"},
    "storage.blobs.access": {"TIMEOUT"},  # MAPPER_STORE_TIMEOUT
    "storage.formats.layers.onnxruns": {"ORT_DISABLE_TELEMETRY"},
}  # fmt: skip

ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
HIDDEN = {"__import__", "eval", "exec"}


def variables(tree: ast.Module) -> Iterator[str]:
    """Yield the key of each use of the environment in a module, or "*" if it has no key."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            yield from ("*" for alias in node.names if alias.name in ENVIRONMENT)
        if not isinstance(node, ast.Attribute) or node.attr not in ENVIRONMENT:
            continue
        user = parents[node]
        if isinstance(user, ast.Attribute):  # a method of the mapping
            user = parents[user]
        if isinstance(user, ast.Call) and user.args and node is not user.args[0]:
            key: ast.expr | None = user.args[0]
        elif isinstance(user, ast.Subscript):
            key = user.slice
        elif isinstance(user, ast.Compare) and node in user.comparators:
            key = user.left
        else:
            key = None
        if isinstance(key, ast.Constant):
            yield str(key.value)
        else:
            yield "*" if key is None else ast.unparse(key)


def hidden_names(tree: ast.Module) -> set[str]:
    """Return the names in a module that import or run code without an import statement."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & HIDDEN


def test_modules_use_only_listed_environment_variables() -> None:
    found = {name: set(variables(tree)) for name, tree in modules().items()}
    assert {name: keys for name, keys in found.items() if keys} == ALLOWED


def test_no_module_imports_or_runs_code_from_text() -> None:
    found = {name: hidden_names(tree) for name, tree in modules().items()}
    assert not {name: names for name, names in found.items() if names}


def test_the_checks_find_every_form() -> None:
    source = """
import os
from os import environ
if __import__("os").environ.get("A"): pass
os.environ["B"], os.getenv("C"), "D" in os.environ, os.environ[name]
run(env=os.environ)
run(os.environ)
"""
    tree = ast.parse(source)
    assert sorted(variables(tree)) == ["*", "*", "*", "A", "B", "C", "D", "name"]
    assert hidden_names(tree) == {"__import__"}
