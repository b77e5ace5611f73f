"""Contract of everything that writes csv: spreadsheets evaluate no cell."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from mapper.exports import EXPORTS as MAPPING_EXPORTS
from storage.formats import EXPORTS as NETWORK_EXPORTS
from storage.store.network import NetworkFile
from tests.mapper.conftest import Run
from tests.mapper.helpers import synapses_of

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

NAMES = ["=1+1", "'=1+1", "''+a", "+a", "-b", "@c", 'a,"b', "-5", "'", "'x", "=cmd|' /C calc'!A0"]
CHIP = ("--chip", "@chip.toml", "--preset", "fast", "--threads", "1", "-q")
SWEEP = 'network = ["=net.bin", "@net.csv"]\nchip = "@chip.toml"\npreset = "fast"\n'


def export_network(run: Run) -> str:
    assert run("export", "=net.bin", "new.csv", "-q").code == 0
    return Path("new.csv").read_text()


def export_packed(run: Run) -> str:
    assert run("export", "=net.bin", "new.csv.gz", "-q").code == 0
    return gzip.decompress(Path("new.csv.gz").read_bytes()).decode()


def export_mapping(run: Run) -> str:
    assert run("run", "=net.bin", *CHIP, "-o", "out").code == 0
    assert run("export", "out", "new.csv", "-q").code == 0
    return Path("new.csv").read_text()


def place(run: Run) -> str:
    assert run("place", "=net.bin", *CHIP, "-o", "new.csv").code == 0
    return Path("new.csv").read_text()


def sweep(run: Run) -> str:
    Path("s.toml").write_text(SWEEP)
    Path("@net.csv").write_text("source,target\na,b\nb,c,d\n")
    assert run("sweep", "s.toml", "-q", "-o", "new").code == 1
    text = Path("new/sweep.csv").read_text()
    assert "'@net.csv: " in text  # the error of a run
    return text


WRITERS: dict[str, Callable[[Run], str]] = {
    "network csv": export_network, "network csv.gz": export_packed,
    "mapping csv": export_mapping, "place": place, "sweep": sweep,
}  # fmt: skip


@pytest.fixture
def named(folder: Path, run: Run) -> Path:
    """A network whose neurons have the `NAMES`, in a folder of files with such names."""
    (folder / "@chip.toml").write_text("width = 4\nheight = 3\nneurons = 8\n")
    ends = zip(NAMES, NAMES[1:] + NAMES[:1], strict=True)
    edges = "".join('<edge source="{}" target="{}"/>'.format(*map(_escaped, e)) for e in ends)
    nodes = "".join(f'<node id="{_escaped(name)}"/>' for name in NAMES)
    head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed">'
    (folder / "net.graphml").write_text(f"{head}{nodes}{edges}</graph></graphml>")
    assert run("import", "net.graphml", "=net.bin", "-q").code == 0
    return folder / "=net.bin"


def _escaped(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def names_of(path: Path) -> list[str]:
    """Return the name of every neuron."""
    with NetworkFile(path) as net:
        ids = net.attribute("id")
        assert ids.labels is not None
        return [ids.labels[place] for place in ids.stored]


def named_synapses(path: Path) -> set[tuple[str, str]]:
    names = names_of(path)
    return {(names[source], names[target]) for source, target in synapses_of(path)}


def test_every_exporter_has_a_case() -> None:
    registered = {
        f"{kind} {exporter.name}"
        for kind, exports in (("network", NETWORK_EXPORTS), ("mapping", MAPPING_EXPORTS))
        for exporter in exports.values()
        if ".csv" in exporter.extensions
    }
    assert registered <= WRITERS.keys()


@pytest.mark.heavy
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_no_cell_is_a_formula(writer: Callable[[Run], str], named: Path, run: Run) -> None:
    rows = list(csv.reader(writer(run).splitlines()))
    assert len(rows) > 1
    wrong = [cell for row in rows for cell in row
             if cell[:1] in tuple("=+-@\t\r") and not _is_number(cell)]  # fmt: skip
    assert not wrong


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz"])
def test_exported_names_are_read_back(name: str, named: Path, run: Run) -> None:
    assert run("export", named.name, name, "-q").code == 0
    assert run("import", name, "again.bin", "-q").code == 0
    assert sorted(names_of(Path("again.bin"))) == sorted(NAMES)
    assert named_synapses(Path("again.bin")) == named_synapses(named)


def test_rates_of_guarded_names(named: Path, run: Run) -> None:
    rows = "".join(
        '"{}",{}\n'.format(("'" if name[:1] in "=+@" or name == "-b" else "") + name.replace(
            '"', '""'), place)
        for place, name in enumerate(NAMES)
        if not name.startswith("'")
    )  # fmt: skip
    rows += "''=1+1,1\n'''+a,1\n',1\n'x,1\n"
    Path("rates.csv").write_text(f"neuron,rate\n{rows}")
    assert run("import", named.name, "rated.bin", "--rates", "rates.csv", "-q").code == 0


def test_half_guarded_names_are_refused(folder: Path, fails: Callable[..., str], run: Run) -> None:
    Path("a.csv").write_text("source,target\n'=a,b\nb,=a\n")
    assert "a.csv: line 3: '=a' needs a single quote in front, because \"'=a\" has one" in fails(
        "import", "a.csv", "a.bin"
    )
    Path("b.csv").write_text("source,target\n=a,b\nb,-c\n")
    assert run("import", "b.csv", "b.bin", "-q").code == 0
