"""Package structure: imports go down the levels, without cycles, and private names stay private."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("mapper", "storage", "chipsim", "hw")
LOOSE = 10  # modules directly in `mapper`, at most

# From the lowest level up: a module imports from its own folder and from lower lines.
LEVELS: dict[str, list[str]] = {
    "storage": ["printable csvcells system",
                "arrays errors address closing hashing jsontext parallel",
                "locks extras plugins typed exchange budget compression", "files", "npz blobs",
                "graph quantise", "sorting", "store", "scratch generate formats samples"],
    "chipsim": ["errors protocols parallel", "chip", "detours", "traffic", "noc",
                "npu ticks spiking"],
    "hw": ["errors strobe", "socket integers", "barrier flow axons", "noc", "core",
           "tables npu", "chip", "run"],
    "hw.npu": [
        "drain isa steps",
        "shape",
        "flit",
        "memories",
        "frontend load",
        "alu gemm store",
        "core loading",
        "core_run node",
        "chip socket",
        "host",
        "run synthesis",
    ],
    "mapper": [
        "errors version",
        "random_numbers settings frames",
        "planning",
        "resume",
        "concurrency",
        "monitoring",
        "cache",
        "executors",
        "graph",
        "scoring",
        "limits",
        "partitioning",
        "placement",
        "populations",
        "hop_refinement",
        "hypergraph",
        "results",
        "methods",
        "pipeline",
        "distributed",
        "kernels",
        "inputs",
        "session",
        "partitions",
        "reporting",
        "portfolio",
        "compiler spiking",
        "evaluation",
        "exports",
        "jobs",
        "result",
        "api",
        "extend",
        "cli",
        "__main__",
    ],
    "mapper.compiler": [
        "layer_bits",
        "settings stages log ir",
        "numerics memory",
        "program frontend quantisation",
        "tiling model",
        "partition codegen transforms",
        "caching request",
        "multicore compiled optimise trial",
        "outcome arguments",
        "jobs calibration explain",
        "pipeline model_inputs",
        "artifacts",
        "ablation",
        "output",
        "job",
    ],
}  # fmt: skip
ROOMS = 12  # folders in `mapper/compiler`, at most


class Import(NamedTuple):
    """An import of a name from another module."""

    importer: str
    imported: str
    name: str
    lazy: bool
    types_only: bool


@cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


@cache
def imports() -> list[Import]:
    """Return all imports of this project's packages, including imports inside functions."""
    return [one for name, tree in modules().items() for one in imports_of(name, tree)]


def imports_of(name: str, tree: ast.Module) -> Iterator[Import]:
    def walk(node: ast.AST, lazy: bool, types_only: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            typed = types_only or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            yield from walk(child, inside, typed)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(name, alias.name, "", lazy, types_only)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "imports are absolute"
                for alias in child.names:
                    whole = f"{child.module}.{alias.name}"
                    module = whole if whole in modules() else str(child.module)
                    yield Import(name, module, alias.name, lazy, types_only)

    for one in walk(tree, False, False):
        if one.imported.partition(".")[0] in PACKAGES:
            yield one


def test_imports_of_packages_go_one_way() -> None:
    """mapper -> storage, chipsim, hw, which do not import each other."""
    wrong = [
        one
        for one in imports()
        if one.importer.partition(".")[0] not in ("mapper", one.imported.partition(".")[0])
    ]
    assert not wrong


@pytest.mark.parametrize("package", LEVELS)
def test_imports_go_down(package: str) -> None:
    """Check the levels of a package, including imports in functions, except type-only imports."""
    level = {name: height for height, line in enumerate(LEVELS[package]) for name in line.split()}

    def part(module: str) -> str:
        """Return the name of a part of the package; "" for the package itself and for others."""
        return module.removeprefix(f"{package}.").partition(".")[0] * module.startswith(
            f"{package}."
        )

    assert {part(name) for name in modules()} - {""} == set(level), "add it to LEVELS"
    wrong = set()
    for one in imports():
        here, there = part(one.importer), part(one.imported)
        if one.types_only or not here or not there or here == there:
            continue
        if level[there] >= level[here]:
            wrong.add(f"{one.importer} imports {one.imported}")
    assert not wrong


def test_the_compiler_has_few_folders() -> None:
    folders = [path.name for path in (ROOT / "mapper" / "compiler").iterdir() if path.is_dir()]
    assert len(set(folders) - {"__pycache__"}) <= ROOMS, folders


TYPED_CYCLES = 0
"""Groups of modules that import each other, at most, if imports for types only count as well."""


def cycles(found: Iterable[Import]) -> list[list[str]]:
    """Return the groups of modules that reach each other through their imports, sorted.

    A name re-exported by a package is one of its modules, which are checked themselves.
    """
    below: dict[str, set[str]] = {}
    for one in found:
        if one.importer != one.imported:
            below.setdefault(one.importer, set()).add(one.imported)

    def reached(name: str) -> set[str]:
        done: set[str] = set()
        left = list(below.get(name, ()))
        while left:
            if (other := left.pop()) not in done:
                done.add(other)
                left += below.get(other, ())
        return done

    reach = {name: reached(name) for name in below}
    groups = {
        tuple(sorted(other for other in others if name in reach.get(other, ())))
        for name, others in reach.items()
        if name in others
    }
    return sorted(map(list, groups))


def test_no_import_cycles() -> None:
    assert cycles(one for one in imports() if not one.types_only) == []


def test_few_import_cycles_with_types() -> None:
    found = cycles(imports())
    assert len(found) <= TYPED_CYCLES, found


def test_cycles_are_groups() -> None:
    pairs = ("ab", "ba", "bc", "cd", "de", "ec", "ff", "eg")
    found = cycles(Import(*pair, "", False, False) for pair in pairs)
    assert found == [["a", "b"], ["c", "d", "e"]]


def test_no_private_name_crosses_a_folder() -> None:
    wrong = [
        f"{one.importer} imports {one.name} from {one.imported}"
        for one in imports()
        if one.name.startswith("_")
        and not one.name.startswith("__")
        and one.importer.rpartition(".")[0] != one.imported.rpartition(".")[0]
    ]
    assert not wrong


def test_few_modules_are_directly_in_mapper() -> None:
    loose = [path.name for path in (ROOT / "mapper").glob("*.py")]
    assert len(loose) <= LOOSE, loose


def test_the_checks_see_imports_inside_functions() -> None:
    source = """
if TYPE_CHECKING:
    from mapper.cli.main import main
def f():
    from storage.store.codec import _decode
"""
    typed, lazy = imports_of("mapper.some", ast.parse(source))
    assert typed == Import("mapper.some", "mapper.cli.main", "main", False, True)
    assert lazy == Import("mapper.some", "storage.store.codec", "_decode", True, False)


VAGUE = {"LARGEST", "MOST", "NEAR", "PIECE", "FEW"}
"""Names without a noun for the thing that is counted."""


def bound(node: ast.stmt) -> list[str]:
    """Return the names that an assignment binds."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


def test_constants_say_what_they_count() -> None:
    wrong = [
        f"{name}.{each}"
        for name, tree in modules().items()
        for node in tree.body
        for each in bound(node)
        if each in VAGUE
    ]
    assert not wrong


def test_a_class_name_means_one_thing() -> None:
    """At most two modules define a public class of the same name."""
    found: dict[str, list[str]] = {}
    for name, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(name)
    assert not {each: places for each, places in found.items() if len(places) > 2}


LONGEST_FUNCTION, LONGEST_MODULE = 80, 400
"""Lines; a function is counted without its docstring."""
FLAT = 20
"""Modules of a folder, at most, with one exception: the commands."""
COMMANDS = "mapper/cli"


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function from its first decorator on, without its docstring."""
    begin = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    first, told = node.body[0], 0
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        told = int(first.end_lineno or first.lineno) - first.lineno + 1
    return int(node.end_lineno or node.lineno) - begin + 1 - told


def test_functions_are_short() -> None:
    wrong = [
        f"{name}.{node.name}: {lines_of(node)}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if lines_of(node) > LONGEST_FUNCTION
    ]
    assert not wrong


def test_modules_are_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): path.read_text().count("\n")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert not {name: length for name, length in lengths.items() if length > LONGEST_MODULE}


def test_folders_have_few_modules() -> None:
    counts = {
        str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) - 1
        for package in PACKAGES
        for folder in [ROOT / package, *(ROOT / package).rglob("*")]
        if folder.is_dir()
    }
    assert {name for name, count in counts.items() if count > FLAT} == {COMMANDS}


def test_lengths_are_counted() -> None:
    source = """
@cached
def f():
    \"\"\"Text
    of two lines.\"\"\"
    return 1
"""
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    assert lines_of(node) == 3


RENAMES = (
    "storage.exchange", "storage.system.files",
    "storage.scratch.run_file", "storage.scratch.nameless",
)  # fmt: skip
"""The module of durable renames, and its call of the system; files whose content can be computed
again."""


def is_rename(call: ast.Call) -> bool:
    """Return whether a call renames a file; `replace` of texts and of fields has more arguments."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return isinstance(function, ast.Name) and function.id == "replace_file"
    if function.attr in ("rename", "renames"):
        return True
    if isinstance(function.value, ast.Name) and function.value.id in ("os", "shutil"):
        return function.attr in ("replace", "move")
    return function.attr == "replace" and len(call.args) == 1 and not call.keywords


POSIX = {
    "os": "open pread preadv pwrite pwritev fork register_at_fork link kill getuid geteuid getgid"
    " sched_getaffinity sched_setaffinity fdatasync posix_fallocate posix_fadvise O_CLOEXEC"
    " O_BINARY O_DIRECTORY O_TMPFILE name",
    "signal": "pthread_sigmask pthread_kill SIGKILL alarm setitimer pause",
    "sys": "platform",
}
"""Names that Windows does not have, or that need other arguments there, by module."""
PORTABLE = {
    "storage.system.files": "twins",
    "storage.system.processes": "twins",
    "storage.formats.hdf5.structure": "only where `can_fork`",
    "mapper.distributed.certificates": "os.open with a mode",
    "mapper.cli.main": "os.open of the null device",
    "chipsim.traffic.pairs": "posix_fallocate, only where it exists",
}


def posix_calls(tree: ast.Module) -> set[str]:
    """Return the names of `POSIX` that a module uses, and the modules that Windows lacks."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX.get(node.value.id, "").split():
                found.add(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found |= {"fcntl", "msvcrt", "resource"} & set(names)
    return found


def test_posix_calls_are_in_one_place() -> None:
    """Names given as texts, as in `getattr(os, "fork")`, are guarded."""
    found = {name for name, tree in modules().items() if posix_calls(tree)}
    assert found - set(PORTABLE) == set()


def test_posix_calls_are_found() -> None:
    source = "import fcntl\nfrom resource import getrusage\nos.pread(1, os.O_RDONLY)\nsys.platform"
    assert posix_calls(ast.parse(source)) == {"fcntl", "resource", "os.pread", "sys.platform"}


def test_renames_are_in_one_place() -> None:
    wrong = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in modules().items()
        if name not in RENAMES
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and is_rename(node)
    ]
    assert not wrong
