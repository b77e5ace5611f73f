"""The catalogue of finished runs, written by many processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mapper.cache import location
from mapper.cache.catalogue import FILE, Catalogue
from mapper.errors import MapperError
from storage.errors import StorageWarning

WRITER = """
import sys
from pathlib import Path
from mapper.cache.catalogue import Catalogue
catalogue = Catalogue(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    name = f"{sys.argv[2]}-{number}"
    catalogue.add("run", Path("net.bin"), Path(name), "4x4", {}, {"hops": number}, 1.0)
    print(name, flush=True)
"""


def add(catalogue: Catalogue, number: int) -> None:
    folder = Path(f"/results/{number}")
    catalogue.add(
        "run", Path("/data/net.bin"), folder, "4x4", {"seed": number},
        {"hops": 2.5 * number, "none": None}, 1.5,
    )  # fmt: skip


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    assert catalogue.rows() == []
    for number in range(5):
        add(catalogue, number)
    rows = Catalogue(tmp_path).rows()
    assert [row.settings["seed"] for row in rows] == list(range(5))
    assert rows[2].figures == {"hops": 5.0}
    assert (rows[2].folder, rows[2].input) == ("/results/2", "/data/net.bin")
    assert catalogue.folder_of(rows[3].id) == Path("/results/3")
    with pytest.raises(MapperError, match="run 'xyz': no run has it; `mapper runs` lists them"):
        catalogue.folder_of("xyz")
    with pytest.raises(MapperError, match="5 runs have it"):
        catalogue.folder_of("")


def test_a_catalogue_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="the run is not in the catalogue: .*file"):
        add(Catalogue(tmp_path / "file"), 1)
    monkeypatch.setattr(location, "is_shared", lambda folder: True)
    add(Catalogue.of_user(), 1)
    with pytest.raises(MapperError, match=r"no catalogue: .*: is on a network file system; set"):
        Catalogue.of_user().rows()


def test_a_damaged_row_is_reported(tmp_path: Path) -> None:
    catalogue = Catalogue(tmp_path)
    for number in range(3):
        add(catalogue, number)
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data.replace(b"/results/1", b"/results/7"))
    with pytest.warns(StorageWarning, match=r"runs\.mdb: 1 row is damaged and not listed"):
        rows = catalogue.rows()
    assert [row.folder for row in rows] == ["/results/0", "/results/2"]


@pytest.mark.heavy
def test_killed_writers_lose_nothing_that_they_reported(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Several processes write, and are killed at random, while this one reads."""
    draw, catalogue = random.Random(1), Catalogue(tmp_path)
    processes, reported = (16, list[str]()) if pytestconfig.option.thorough else (4, list[str]())
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number), "40"],
            stdout=subprocess.PIPE, text=True,
        )
        for number in range(processes)
    ]  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / FILE).exists() and time.monotonic() < end:
        time.sleep(0.01)
    for writer in writers:
        time.sleep(draw.random() / 4)
        seen = len(catalogue.rows())
        if draw.random() < 0.7:
            writer.send_signal(signal.SIGKILL)
        assert len(catalogue.rows()) >= seen
    for writer in writers:
        reported += writer.communicate()[0].split()
    names = [Path(row.folder).name for row in catalogue.rows()]
    assert set(reported) <= set(names)
    assert len(names) == len(set(names))
    assert reported
