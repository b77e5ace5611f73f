"""No unused names: names are used outside the tests, and every test can fail."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import jinja2
import jinja2.nodes
import pytest

import mapper
from mapper import extend
from tests.test_structure import PACKAGES, ROOT, modules

# Names that no code refers to, and the reason to keep them.
REASONS = {
    **dict.fromkeys(
        ("chipsim.noc.deliver.deliver", "chipsim.noc.patterns.PATTERNS"),
        "for users of the mesh simulator (docs/simulator.md)",
    ),
    "hw.core.arithmetic.simulate": "for users of hw (docs/core.md)",
    "mapper.inputs.model_arguments.OnnxArguments.no_cache": "read by name",
    **dict.fromkeys(
        (
            f"mapper.api.networkx_backend.BackendInterface.{name}"
            for name in (
                "convert_from_nx",
                "convert_to_nx",
                "can_run",
                "should_run",
                "kernighan_lin_bisection",
            )
        ),
        "called by networkx",
    ),
    "mapper.api.networkx_backend.BackendInterface": "the entry point of packages/networkx",
    "mapper.exports.tables_file.Tables": "the schema of exported tables",
    "mapper.kernels.types.name_of": "inverse of types_of, to record kernels",
    "mapper.portfolio.portfolio_file.Portfolio.tool": "key of a file",
    "storage.samples.samples.read_samples": "for users of storage",
    **dict.fromkeys(
        (
            "mapper.distributed.clusters.dask_setup",
            "mapper.distributed.clusters.LastClient.remove_client",
        ),
        "called by the engine's scheduler",
    ),
    "mapper.monitoring.console.ResultConsole.on_broken_pipe": "called by rich",
    "mapper.portfolio.processes.work": "entry point of the processes of runs",
    "mapper.kernels.parallel_compilation.work": "called by the processes of a team",
    "hw.npu.isa.assembly.assemble": "inverse of disassemble, for programs written by hand",
    "hw.npu.loading.contents_flits": "for users of hw (docs/npu.md)",
    "hw.npu.loading.frames_flit": "for users of hw (docs/npu.md)",
    "hw.npu.socket.SocketedNode": "for users of hw (docs/core.md)",
    "storage.blobs.blob.BlobFile.readable": "called by `zipfile`",
    "storage.blobs.blob.BlobFile.seekable": "called by `zipfile`",
    **dict.fromkeys(
        (
            "mapper.exports.tables_file.TablesHead.load_port",
            "mapper.exports.tables_file.CoreTable.exponents",
        ),
        "field of x.tables.json, for its readers",
    ),
    "mapper.cli.parser.Parser._check_value": "called by argparse",
    "mapper.kernels.warmup.trust_kernels": "for a checkout with kernels newer than their table",
    "storage.formats.export_network": "the counterpart of import_network, for users of storage",
    "storage.formats.sinks.Stream.writable": "called by pyarrow",
    "storage.store.memory.MemoryGraph.from_edges": "creates graphs in the tests of all packages",
}

# Names looked up by text: functions of commands and of registered modules; methods that Amaranth
# calls.
LOOKED_UP = {
    "mapper.cli": ("add_arguments", "run", "EPILOG", "FREQUENT", "topic"),
    "mapper.exports": (
        "save",
        "save_csv",
        "save_parquet",
        "save_arrays",
        "save_cores",
        "save_partition",
        "save_spiking",
        "save_sanafe",
        "save_nir",
    ),
    "storage.formats": ("load", "save"),
    "hw": ("elaborate", "clocked"),
}
KEYS = (
    "mapper.results.report_file",
    "mapper.reporting.compiled.report_file",
    "mapper.portfolio.figures",
    "hw.npu.isa.table",
    "mapper.compiler.quantisation.losses",
    "mapper.spiking.artifacts.manifest_file",
    "mapper.spiking.artifacts.report_file",
)  # their classes define the keys of files


PUBLIC = {
    f"{place}.{name}"
    for places in (mapper._PLACES, extend._PLACES)
    for name, place in places.items()
}
"""Names for users of Python, with their members."""


class Definition(NamedTuple):
    """A name of a module, or of a class in it (`owner`)."""

    module: str
    owner: str
    name: str
    node: ast.AST

    @property
    def path(self) -> str:
        return ".".join(filter(None, (self.module, self.owner, self.name)))


def definitions(module: str, tree: ast.Module) -> Iterator[Definition]:
    classes = [(node.name, node.body) for node in tree.body if isinstance(node, ast.ClassDef)]
    for owner, body in [("", tree.body), *classes]:
        for node in body:
            for name in _bound(node):
                if not name.startswith("__"):
                    yield Definition(module, owner, name, node)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


class Module:
    """Uses in a module: count of each name and attribute, and imported names."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self.name = name
        self.names, self.attributes = reads(nodes)
        self.imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        self.dotted = {
            (dotted(node.value), node.attr) for node in nodes if isinstance(node, ast.Attribute)
        }


def dotted(node: ast.expr) -> str:
    """Return `a.b` for dotted names, an empty text for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def reads(nodes: Iterable[ast.AST]) -> tuple[Counter[str], Counter[str]]:
    """Count the reads of each name and of each attribute."""
    names, attributes = [], []
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            attributes.append(node.attr)
    return Counter(names), Counter(attributes)


def taken_from_modules(found: dict[str, Module]) -> set[tuple[str, str]]:
    """Return (module, name) of all names that modules import and use.

    A name that a package only re-exports counts if it is imported from there.
    """
    taken: set[tuple[str, str]] = set()
    handed: dict[tuple[str, str], tuple[str, str]] = {}
    for importer in found.values():
        aliases = {}
        for node in importer.imports:
            for one in node.names:
                whole, known_as = f"{node.module}.{one.name}", one.asname or one.name
                if whole in found:
                    aliases[known_as] = whole
                elif importer.names[known_as]:
                    taken.add((str(node.module), one.name))
                else:
                    handed[importer.name, known_as] = (str(node.module), one.name)
        taken |= {(aliases.get(value, value), name) for value, name in importer.dotted}
    for name in list(taken):
        while name in handed:
            name = handed[name]
            taken.add(name)
    return taken


def unused(trees: dict[str, ast.Module], users: dict[str, ast.Module]) -> set[str]:
    """Return the paths of names in `trees` that neither they nor `users` use."""
    found = {name: Module(name, tree) for name, tree in (trees | users).items()}
    taken = taken_from_modules(found)
    attributes: Counter[str] = Counter()
    for module in found.values():
        attributes.update(module.attributes)
    wrong = set()
    for name, tree in trees.items():
        for one in definitions(name, tree):
            if one.owner:
                read = attributes[one.name]
            elif (name, one.name) in taken:
                continue
            else:
                read = found[name].names[one.name]
            # use of a name inside its own definition does not count
            if not read or read == reads(ast.walk(one.node))[bool(one.owner)][one.name]:
                wrong.add(one.path)
    return wrong


def is_looked_up(path: str) -> bool:
    base, _, name = path.rpartition(".")
    if path in PUBLIC or (base in PUBLIC and (name == "_repr_html_" or name[0] != "_")):
        return True
    return base.rpartition(".")[0] in KEYS or any(
        path.startswith(f"{base}.") and name in names for base, names in LOOKED_UP.items()
    )


@cache
def users() -> dict[str, ast.Module]:
    """Return the generator of the documentation, and the attributes that templates read.

    Benchmarks and other scripts do not count: what only they use belongs to them.
    """
    found = {"docs.generated": ast.parse((ROOT / "docs" / "generated.py").read_text())}
    for path in (ROOT / "mapper" / "reporting" / "templates").glob("*.j2"):
        read = jinja2.Environment().parse(path.read_text()).find_all(jinja2.nodes.Getattr)
        found[path.name] = ast.parse("\n".join(f"it.{node.attr}" for node in read))
    return found


@pytest.mark.heavy
def test_no_unused_names() -> None:
    """Public and private constants, functions, classes and their members."""
    found = {path for path in unused(modules(), users()) if not is_looked_up(path)}
    assert not found - set(REASONS), "use it, delete it with its tests, or give a reason"
    assert not set(REASONS) - found, "used or removed: delete it from the list"


def test_unused_names_are_found() -> None:
    sources = {
        "p": "from p.a import handed",
        "p.a": "def used(): pass\ndef alone(): alone()\ndef handed(): pass\nLEFT = 1\n"
        "class Kind:\n    def read(self): pass\n    def other(self): self.other()\n",
        "p.b": "from p import handed\nfrom p import a\nfrom p.a import Kind\n"
        "def _private(): a.used(); handed(); Kind().read()\n",
    }
    trees = {name: ast.parse(source) for name, source in sources.items()}
    assert unused(trees, {}) == {"p.a.alone", "p.a.LEFT", "p.a.Kind.other", "p.b._private"}


def test_private_names_in_comments_exist() -> None:
    """A name `_name` in a comment exists."""
    wrong = []
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        text = path.read_text()
        pointed = set(re.findall(r"`(_[a-z]\w+)`", text))
        missing = [name for name in pointed if not re.search(rf"(?<![`\w]){name}\b", text)]
        wrong += [f"{path.relative_to(ROOT)}: {name}" for name in missing]
    assert not wrong


# ---- tests ----------------------------------------------------------------------------------

CHECKS = (
    "raises", "warns", "fail",
    "run_yosys",  # its scripts have assertions
    *(name for name in extend.__all__ if name.startswith("check_")),  # raise a `ContractError`
)  # fmt: skip
UNCHECKED = {  # tests without a check, and why
    "tests.mapper.kernels.test_installation.test_nothing_is_hidden_here": "it must not raise",
}


def unchecked(trees: dict[str, ast.Module]) -> set[str]:
    """Return tests that neither assert nor call a function that asserts, in any module."""
    functions = [
        (name, node)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    checks: set[str] = set(CHECKS)
    called: dict[tuple[str, str], set[str]] = {}
    for name, node in functions:
        inside = list(ast.walk(node))
        found = {dotted(one.func).rpartition(".")[2] for one in inside if isinstance(one, ast.Call)}
        found |= {one.arg for one in node.args.args}  # fixtures
        if any(isinstance(one, ast.Assert) for one in inside):
            found.add("assert_")
        checks |= {one for one in found if one.startswith("assert_")}
        called[name, node.name] = called.get((name, node.name), set()) | found
    while more := {name for (_, name), found in called.items() if found & checks} - checks:
        checks |= more
    return {
        f"{module}.{name}"
        for (module, name), found in called.items()
        if name.startswith("test_") and not found & checks
    }


@pytest.mark.heavy
def test_every_test_can_fail() -> None:
    trees = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text())
        for path in (ROOT / "tests").rglob("*.py")
    }
    found = unchecked(trees)
    assert not found - set(UNCHECKED), "add an assertion, or give a reason"
    assert not set(UNCHECKED) - found, "checked or removed: delete it from the list"


def test_tests_without_a_check_are_found() -> None:
    source = """
def check(): assert True
def test_by_another(): check()
def test_of_nothing(): print(check)
def test_of_faults():
    with pytest.raises(ValueError):
        pass
"""
    assert unchecked({"t": ast.parse(source)}) == {"t.test_of_nothing"}
