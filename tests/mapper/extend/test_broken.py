"""Broken plugins: one line names the package, and other plugins and formats still work."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import mapper
from mapper.errors import MapperError
from storage.errors import StorageWarning
from tests.mapper.conftest import Run
from tests.mapper.extend.packages import install, install_example
from tests.mapper.helpers import random_network

pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
Fails = Callable[..., str]

MODULE = """
import pathlib
from mapper.extend import Chip, Exporter, FileFormat, Importer, MappingExporter, Placed, Placer

def reader(name="odd", extensions=(".odd",), **more):
    return FileFormat(Importer(name, "an odd format", extensions, "odd_parts", **more))

NOT_A_FORMAT = Importer("odd", "an odd format", (".odd",), "odd_parts")
EMPTY, OTHER_NAME = FileFormat(), reader("even")
BAD_ENDING, NO_ENDING = reader(extensions=("odd",)), reader(extensions=())
ONE_ENDING = reader(extensions=".odd")
TURNED = FileFormat(Exporter("odd", "an odd format", (".odd",), "odd_parts"))
FORMAT = FileFormat(*reader()[:1], Exporter("odd", "an odd format", (".odd",), "odd_parts"))
MISSING = FileFormat(Importer("odd", "an odd format", (".odd",), "odd_missing"))
def probe(head):
    raise KeyError("probe")
PROBED = reader(probe=probe)
CHIP, CHIP_FILE, SIZE = Chip("even", 2, 2), pathlib.Path(__file__).with_name("odd.toml"), (2, 2)
EXPORT = MappingExporter("odd", "an odd export", (".odd",), "odd_parts:save_mapping")
class Broken(Placer):
    def __init__(self, change): self.change = change
    def place(self, problem, start, rng):
        x, y = start.x.copy(), start.y.copy()
        yield Placed(0, *self.change(x, y))
def fail(x, y):
    raise ZeroDivisionError("division by zero")
def twice(x, y):
    x[1], y[1] = x[0], y[0]
    return x, y
SHORT, TWICE = Broken(lambda x, y: (x[1:], y[1:])), Broken(twice)
FAR = Broken(lambda x, y: (x + 99, y))
REAL, LISTS = Broken(lambda x, y: (x * 1.0, y)), Broken(lambda x, y: (x.tolist(), y.tolist()))
FAILS, SILENT = Broken(fail), Broken(lambda x, y: (x, y))
SILENT.place = lambda *given: iter(())
"""
PARTS = """
def load(job):
    raise IndexError("list index out of range")
def save(net, destination):
    raise TypeError("unsupported operand\\nin two lines")
def save_mapping(run, destination, options):
    return 3
"""


@pytest.fixture
def odd(site: Path) -> Callable[..., None]:
    """Return a function that installs a package with one plugin called `odd`."""
    (site / "odd.py").write_text(MODULE)
    (site / "odd_parts.py").write_text(PARTS)
    (site / "odd.toml").write_text("width = 0\nheight = 1\n")

    def write(group: str, value: str) -> None:
        install(site, "odd-package", "0.3", {f"mapper.{group}": {"odd": value}})

    return write


FAULTS = [
    ("formats", "missing:ODD", "ModuleNotFoundError: No module named 'missing'"),
    ("formats", "odd:NOTHING", "AttributeError: module 'odd' has no attribute 'NOTHING'"),
    ("formats", "odd:NOT_A_FORMAT", "is of the type Importer, not FileFormat"),
    ("formats", "odd:EMPTY", "has neither a reader nor a writer"),
    ("formats", "odd:OTHER_NAME", "has the name 'even' instead of 'odd'"),
    ("formats", "odd:BAD_ENDING", "has the extension 'odd', which is not like '.abc'"),
    ("formats", "odd:NO_ENDING", "has no tuple of extensions"),
    ("formats", "odd:ONE_ENDING", "has no tuple of extensions"),
    ("formats", "odd:TURNED", "has a part that is of the type Exporter, not Importer"),
    ("placers", "odd:CHIP", "is of the type Chip, not Placer"),
    ("chips", "odd:CHIP", "has the name 'even' instead of 'odd'"),
    ("chips", "odd:CHIP_FILE", "is faulty: "),
    ("chips", "odd:SIZE", "is of the type tuple, not Chip or Path"),
    ("exports", "odd:FORMAT", "is of the type FileFormat, not MappingExporter"),
]
USES = {
    "formats": ("import", "net.csv", "net.bin", "--format", "odd"),
    "placers": ("run", "net.csv", "--chip", "2x2", "--set", "placer=odd", "-o", "out"),
    "chips": ("check", "net.csv", "--chip", "odd"),
    "exports": ("export", "out", "a", "--format", "odd"),
}


@pytest.mark.parametrize(("group", "value", "fault"), FAULTS)
def test_one_line_names_the_package(
    group: str, value: str, fault: str, odd: Callable[..., None], folder: Path, run: Run
) -> None:
    odd(group, value)
    (folder / "net.csv").write_text("source,target\n0,1\n1,2\n")
    found = run(*USES[group])
    said = f"{group[:-1]} odd of the package odd-package 0.3 "
    assert (found.code, found.out) == (1, "")
    line = found.err.removeprefix("note: columns used: source (source), target (target); every row")
    line = line.removeprefix(" weighs 1\n")
    assert line.startswith(f"mapper {USES[group][0]}: {said}")
    assert fault in line
    assert line.endswith("; update or uninstall odd-package\n")
    assert line.count("\n") == 1
    (listed,) = run("plugins", "--json").json()["plugins"]
    assert listed["fault"] in found.err
    assert "odd-package 0.3" in run("plugins").out


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("odd:SHORT", "yields 15 places for 16 groups"),
        ("odd:TWICE", "places two groups on one core"),
        ("odd:FAR", "places groups outside of the region"),
        ("odd:REAL", "yields places that are not arrays of integers"),
        ("odd:LISTS", "yields places that are not arrays of integers"),
        ("odd:FAILS", "failed: ZeroDivisionError: division by zero"),
    ],
)
def test_faulty_placements(
    value: str, fault: str, odd: Callable[..., None], folder: Path, fails: Fails
) -> None:
    odd("placers", value)
    random_network(folder / "net.bin", 16, 60)
    told = fails("place", "net.bin", "--chip", "4x4", "--set", "placer=odd")
    assert told.startswith("placer odd of the package odd-package 0.3 ")
    assert fault in told


def test_a_placer_without_a_placement(odd: Callable[..., None], folder: Path, run: Run) -> None:
    """The result is the start along a curve."""
    odd("placers", "odd:SILENT")
    random_network(folder / "net.bin", 16, 60)
    found = run("place", "net.bin", "--chip", "4x4", "--set", "placer=odd", "--json").json()
    assert sorted(found["core"]) == list(range(16))


@pytest.mark.parametrize(
    ("value", "words", "fault"),
    [
        ("odd:FORMAT", ("import", "a.odd", "net.bin"), "IndexError: list index out of range"),
        ("odd:MISSING", ("import", "a.odd", "b.bin"), "ModuleNotFoundError: No module named 'odd_"),
        ("odd:FORMAT", ("export", "net.bin", "b.odd"), "TypeError: unsupported operand in two lin"),
    ],
)
def test_failing_formats(
    value: str, words: tuple[str, ...], fault: str, odd: Callable[..., None], folder: Path,
    fails: Fails,
) -> None:  # fmt: skip
    odd("formats", value)
    (folder / "a.odd").write_text("x y\n")
    random_network(folder / "net.bin", 16, 60)
    told = fails(*words)
    path = words[1] if words[0] == "import" else words[2]
    assert told.startswith(f"{path}: format odd of the package odd-package 0.3 failed: {fault}")
    assert told.rstrip().endswith("; report it to the authors of odd-package")
    with pytest.raises(MapperError, match=r"format odd of the package odd-package 0\.3 fail"):
        if words[0] == "import":
            mapper.import_network(path)
        else:
            mapper.export(words[1], path)


def test_a_failing_export(odd: Callable[..., None], folder: Path, run: Run) -> None:
    odd("exports", "odd:EXPORT")
    random_network(folder / "net.bin", 16, 60)
    assert run("run", "net.bin", "--chip", "2x2", "-q", "-o", "out").code == 0
    found = run("export", "out", "a.odd")
    assert (found.code, found.err.count("\n")) == (1, 1)
    assert "a.odd: export odd of the package odd-package 0.3 failed: TypeError: " in found.err


@pytest.mark.parametrize("value", ["missing:ODD", "odd:PROBED"])
def test_other_packages_are_asked_nevertheless(
    value: str, odd: Callable[..., None], site: Path, folder: Path, run: Run
) -> None:
    odd("formats", value)
    install_example(site)
    (folder / "a.pairs").write_bytes(b"PAIRS01\n" + bytes([3] + [0] * 7))
    found = run("import", "a.pairs", "net.bin")
    assert found.code == 0
    assert (
        found.err.count("\n")
        == found.err.count("note: format odd of the package odd-package 0")
        == 1
    )
    assert run("import", "a.pairs", "net.bin", "-q").err == ""
    (folder / "b.none").write_text("x y\n")
    found = run("import", "b.none", "net.bin")
    assert found.code == 1
    assert found.err.splitlines()[-1].startswith("mapper import: b.none: unknown format; choose on")
    with pytest.warns(StorageWarning, match=r"^format odd of the package odd-package 0\.3 "):
        assert mapper.import_network("a.pairs").neurons == 3


def test_a_broken_chip_is_left_out_of_the_list(odd: Callable[..., None], run: Run) -> None:
    odd("chips", "odd:CHIP_FILE")
    found = run("chips")
    assert found.code == 0
    assert "loihi" in found.out
    assert found.err.startswith(
        "note: chip odd of the package odd-package 0.3 is faulty: chip file"
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert "odd" not in mapper.chips()
    assert len(told) == 1


def test_two_packages_with_one_name(odd: Callable[..., None], site: Path, folder: Path,
                                    fails: Fails, run: Run) -> None:  # fmt: skip
    odd("formats", "odd:FORMAT")
    install(site, "even-package", "1", {"mapper.formats": {"odd": "odd:FORMAT"}})
    (folder / "a.odd").write_text("x y\n")
    told = fails("import", "a.odd", "net.bin", "--format", "odd")
    assert told == (
        "format odd: even-package 1 and odd-package 0.3 both add it; uninstall one of them"
    )
    assert {one["fault"] for one in run("plugins", "--json").json()["plugins"]} == {told}
    found = run("import", "a.odd", "net.bin")
    assert found.err.startswith(f"note: {told}\nmapper import: a.odd: unknown format; choose one ")


def test_built_in_names_win(site: Path, run: Run, folder: Path) -> None:
    groups = {"formats": "csv", "placers": "curves", "chips": "loihi", "exports": "json"}
    entries = {f"mapper.{group}": {name: "missing:ODD"} for group, name in groups.items()}
    install(site, "odd-package", "0.3", entries)
    listed = run("plugins", "--json").json()["plugins"]
    assert {one["fault"] for one in listed if one["name"] != "csv"} == {
        f"hidden by the built-in {kind} of this name" for kind in ("placer", "chip", "export")
    }
    random_network(folder / "net.bin", 16, 60)
    words = ("run", "net.bin", "--chip", "loihi", "--set", "placer=curves", "-q", "-o", "out")
    assert run(*words).code == 0
    assert run("export", "out", "a.json", "-q").code == 0
    assert run("export", "net.bin", "a.csv", "-q").code == 0
