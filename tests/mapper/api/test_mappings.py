"""`map_network` returns the same result as `mapper run`."""

from __future__ import annotations

import copy
import gc
import json
import multiprocessing
import pickle
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from chipsim.chip.time import ChipTime
from mapper.cli.main import main
from mapper.errors import MapperError
from storage.store.network import NetworkFile
from tests.mapper.api.conftest import SMALL
from tests.mapper.conftest import Run, tree
from tests.mapper.helpers import random_network

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]


DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "python.md"
OPTIONS = ("--neurons-per-core", "4", "--threads", "1", "--memory", "300MiB", "--seed", "3")


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_path_maps_as_run_does(run: Run, folder: Path) -> None:
    path = random_network(folder / "net.bin", 50, 200)
    report = run("run", path, "--chip", "4x4", *OPTIONS, "-o", "run", "--json").json()
    for network in (path, str(path)):
        mapping = mapper.map_network(network, "4x4", seed=3, **SMALL)
        assert mapping.metrics == report["metrics"]
    with NetworkFile(path) as network:
        mapping = mapper.map_network(
            network, mapper.Chip("4x4", 4, 4, time=ChipTime()), seed=3, **SMALL
        )
        assert network.read_block(0).vertices == 50  # it is still open
    assert mapping.save("api") == Path("api")
    assert sorted(p.name for p in Path("api").iterdir()) == [
        "mapping.npz", "report.html", "report.json", "run.log", "traffic.npz",
    ]  # fmt: skip
    assert Path("api/traffic.npz").read_bytes() == Path("run/traffic.npz").read_bytes()
    assert Path("api/mapping.npz").read_bytes() == Path("run/mapping.npz").read_bytes()
    saved = json.loads(Path("api/report.json").read_text())
    assert saved == mapping.to_json()
    changing = ("stages", "resources")
    assert saved.keys() == report.keys() - {"output", "command"}
    for part in saved.keys() - set(changing):
        assert saved[part] == report[part], part
    assert saved["resources"].keys() == report["resources"].keys()
    assert "coarsen" in Path("api/run.log").read_text()
    assert run("verify", "api").code == 0


@pytest.mark.heavy
def test_the_report_page(folder: Path, run: Run) -> None:
    """It equals the page that `mapper report` creates for the saved folder."""
    path = random_network(folder / "net.bin", 50, 200)
    mapping = mapper.map_network(path, "4x4", **SMALL)
    page = mapping.report("same.html").read_bytes()
    assert f'<data value="{mapping.metrics["hops_mean"]}">'.encode() in page
    mapping.save("same")
    assert Path("same/report.html").read_bytes() == page
    assert run("report", "same").code == 0
    assert Path("same/report.html").read_bytes() == page
    with pytest.raises(mapper.MapperError, match=r"none/page.html: "):
        mapping.report("none/page.html")


def test_constraints_splitting_and_settings(folder: Path, run: Run) -> None:
    rng = np.random.default_rng(1)
    network = (rng.integers(0, 30, 300), np.zeros(300, np.int64) + rng.integers(0, 2, 300) * 7)
    Path("constraints.toml").write_text('[[pin]]\nneurons = [5, 6]\ncore = "1,2"\n')
    mapping = mapper.map_network(
        network, "4x4", synapses_per_core=20, split_neurons=True, constraints="constraints.toml",
        preset="fast", hop_passes=0, threads=1,
    )  # fmt: skip
    assert mapping.core[[5, 6]].tolist() == [9, 9]
    assert mapping.core.size == 30
    assert mapping.to_json()["split"]["helpers"] > 0
    assert (mapping.settings.preset, mapping.settings.hop_passes) == ("fast", 0)
    mapping.save("out")
    assert run("verify", "out").code == 0
    assert Path("out/constraints.toml").read_bytes() == Path("constraints.toml").read_bytes()


def test_progress_and_silence(
    folder: Path, edges: tuple[Any, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, float]] = []
    mapper.map_network(edges, "4x4", progress=lambda *told: seen.append(told), **SMALL)
    stages = [stage for stage, fraction in seen if fraction == 0]
    assert stages[:2] == ["compile kernels", "import"]
    assert stages[-1] == "baselines"
    for stage in stages:
        assert (stage, 1.0) in seen
    assert all(0 <= fraction <= 1 for _, fraction in seen)
    assert capfd.readouterr() == ("", "")


def test_a_progress_callback_may_abort_the_run(folder: Path, edges: tuple[Any, ...]) -> None:
    class EnoughError(Exception):
        pass

    def stop(stage: str, fraction: float) -> None:
        if stage == "score":
            raise EnoughError

    with pytest.raises(EnoughError):
        mapper.map_network(edges, "4x4", progress=stop, **SMALL)


def test_temporary_files_are_deleted_with_the_mapping(folder: Path, edges: tuple[Any, ...]) -> None:
    work = folder / "work"
    work.mkdir()
    mapping = mapper.map_network(edges, "4x4", workdir=work, **SMALL)
    assert list(work.iterdir()) == []  # its network is open but unlinked
    mapping.save("kept")
    assert Path("kept/network.bin").is_file()
    del mapping
    assert tree(work) == {}
    path = random_network(folder / "net.bin", 50, 200)
    mapper.map_network(path, "4x4", workdir=work, **SMALL)
    assert tree(work) == {}


def skip_kernels() -> None:
    """In a worker: compile kernels on demand, as in all tests."""
    import mapper.kernels.warmup

    mapper.kernels.warmup.compile_kernels = lambda *given, **named: None  # type: ignore[assignment]


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_mappings_of_worker_processes(folder: Path, edges: tuple[Any, ...]) -> None:
    """They are complete after the worker and its files are gone."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=skip_kernels) as pool:
        mapping = pool.submit(mapper.map_network, edges, "4x4", **SMALL).result()
    again = pickle.loads(pickle.dumps(copy.deepcopy(mapping)))
    whole = mapper.map_network(edges, "4x4", **SMALL)
    for name, found in (("here", whole), ("out", mapping), ("again", again)):
        found.save(name)
        assert main(["verify", name, "-q", "--json"]) == 0
        assert Path(name, "network.bin").read_bytes() == Path("here/network.bin").read_bytes()
        assert (found.core == mapping.core).all() or found is whole


def test_saving_does_not_replace(folder: Path, edges: tuple[Any, ...]) -> None:
    mapping = mapper.map_network(edges, "4x4", **SMALL)
    mapping.save("out")
    before = tree(folder)
    with pytest.raises(MapperError, match="out: exists"):
        mapping.save("out")
    assert tree(folder) == before
    mapping.save("out", force=True)
    assert tree(folder) == before


def test_html_table(folder: Path, edges: tuple[Any, ...]) -> None:
    chip = mapper.Chip("<b>&", 4, 4, neurons=4)
    mapping = mapper.map_network(edges, chip)
    shown = mapping._repr_html_()
    assert shown.startswith("<table>")
    assert "&lt;b&gt;&amp;, 4x4 cores" in shown
    assert "<b>" not in shown
    assert re.search(r">neurons</th><td[^>]*>50</td>", shown)
    assert repr(mapping).startswith("<NetworkMapping: 50 neurons on ")


def test_import_loads_few_modules() -> None:
    program = (
        "import sys, mapper; before = set(sys.modules); mapper.map_network; mapper.NetworkMapping;"
        "heavy = {'numba', 'scipy', 'rich', 'networkx'}; print(heavy & set(sys.modules),"
        "'numpy' in before, 'map_network' in dir(mapper), hasattr(mapper, 'nothing'))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("set() False True False\n", "")


@pytest.mark.heavy
@pytest.mark.sample(0.25)
def test_the_examples_of_the_docs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("networkx")
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert len(blocks) == 15
    names: dict[str, Any] = {}
    try:
        for block in blocks:
            exec(block, names)
        printed = capsys.readouterr().out.splitlines()
        promised = re.findall(r"^ *print\(.*\) +# (.*)$", "\n".join(blocks), re.MULTILINE)
        assert len(printed) == len(promised) == 2
        for line, text in zip(printed, promised, strict=True):
            assert line.startswith(text.removesuffix(" ..."))
    finally:
        names.clear()  # deletes the mappings, and with them their temporary files
        gc.collect()
