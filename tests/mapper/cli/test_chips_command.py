"""`mapper chips`: the list, the file of a chip, and a run with that file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from chipsim.chip.npu_shape import NPU_SHAPES, NpuShape
from chipsim.chip.presets import PRESETS, parse_chip
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "chips.md"


def test_list(run: Run) -> None:
    found = run("chips")
    assert (found.code, found.err) == (0, "")
    for name in PRESETS:
        assert name in found.out
    assert max(map(len, found.out.splitlines())) <= 80
    listed = run("chips", "list", "--json").json()["chips"]
    assert [entry["chip"] for entry in listed] == [chip.to_json() for chip in PRESETS.values()]
    assert "Davies" in listed[0]["sources"]["energy_link"]
    assert listed[0]["units"]["energy_link"] == "pJ"
    for name in NPU_SHAPES:
        assert f"  {name} " in found.out
    npus = run("chips", "list", "--json").json()["npus"]
    assert [NpuShape(**npu) for npu in npus] == list(NPU_SHAPES.values())


def test_show_as_json(run: Run) -> None:
    found = run("chips", "show", "truenorth", "--json").json()
    assert found["chip"] == PRESETS["truenorth"].to_json()
    assert (found["units"]["energy_link"], found["units"]["latency_link"]) == (
        "pJ", "relative units",
    )  # fmt: skip
    assert found["about"].startswith("TrueNorth")
    assert any("delays" in note for note in found["notes"])
    assert "Akopyan" in found["sources"]["neurons"]
    assert "npu" not in found
    assert run("chips", "show", "4x4", "--json").json()["npu"] == asdict(NpuShape())


def test_a_chip_shows_its_npu(run: Run) -> None:
    assert "# [npu]" in run("chips", "show", "loihi").out
    text = run("chips", "show", "4x4").out
    assert '\n[npu]\npreset = "npu"' in text
    assert "# weight_words = 512 " in text


def test_a_chip_shows_its_host(run: Run, folder: Path, fails: Callable[..., str]) -> None:
    """N10.5: as a comment if the chip does not define it."""
    text = run("chips", "show", "4x4").out
    assert "\n# [host] " in text
    assert "\n# ports = [[0, 0]] " in text
    (folder / "mine.toml").write_text(
        "width = 4\nheight = 4\nunavailable = [2]\n[host]\nports = [0, 15]\nlatency = 50\n"
    )
    text = run("chips", "show", "mine.toml").out
    assert "\n[host]\nports = [[0, 0], [3, 3]] " in text
    assert "\nlatency = 50 " in text
    shown = run("chips", "show", "mine.toml", "--json").json()["chip"]["host"]
    assert shown == {"ports": [0, 15], "latency": 50, "flits": 1.0, "operations": 1.0}
    (folder / "bad.toml").write_text(
        "width = 4\nheight = 4\nunavailable = [2]\n[host]\nports = [2]\n"
    )
    said = fails("chips", "show", "bad.toml")
    assert "bad.toml: chip bad: host: port [2, 0] is at an unavailable core" in said


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.usefixtures("light_placement")
@pytest.mark.jit
def test_a_run_with_the_file_equals_one_with_the_name(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 50, 200)
    Path("mine.toml").write_text(run("chips", "show", "loihi").out)
    for name, chip in (("by_name", "loihi"), ("by_file", "mine.toml")):
        assert run("run", "net.bin", "--chip", chip, "-o", name, "-q").code == 0
    reports = [json.loads(Path(n, "report.json").read_text()) for n in ("by_name", "by_file")]
    assert reports[0]["chip"] == reports[1]["chip"]
    assert reports[0]["metrics"] == reports[1]["metrics"]
    again = run("chips", "show", "mine.toml")
    assert again.out == Path("mine.toml").read_text()


def test_errors(fails: Callable[..., str], folder: Path) -> None:
    assert "lists them" in fails("chips", "show", code=2)
    assert "mapper chips show loihi" in fails("chips", "list", "loihi", code=2)
    assert "chip 'lohii' is unknown" in fails("chips", "show", "lohii", code=2)
    for name in ("bad.toml", "BAD.TOML"):
        (folder / name).write_text("width = 4\nheight = 4\nneuron = 4\n")
        assert fails("chips", "show", name).startswith(f"chip file {name}: unknown key 'neuron'")


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    text = DOCS.read_text().partition("```toml\n")[2].partition("```")[0]
    path = tmp_path / "docs.toml"
    path.write_text(text)
    chip = parse_chip(str(path))
    assert chip.unavailable == (9, 11)
    assert set(tomllib.loads(text)) < set(chip.to_json())
