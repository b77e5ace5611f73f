"""Ctrl-C: message, exit code 130, and remaining files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]

CHIP = ("--chip", "4x4", "--neurons-per-core", "4")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_run_ends_with_130_and_can_be_resumed(
    network: Path, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mapper.pipeline.place_groups", interrupted)
        found = run("run", network, *CHIP, "-o", "out")
    assert (found.code, found.out) == (130, "")
    assert found.err == "mapper run: interrupted; repeat the command with --resume to continue\n"
    assert sorted(path.name for path in folder.iterdir()) == ["net.bin", "out.partial"]
    assert (folder / "out.partial" / "run.json").is_file()
    assert not (folder / "out.partial" / "report.json").exists()
    resumed = run("run", network, *CHIP, "-o", "out", "--resume", "--json")
    assert (resumed.code, resumed.err) == (0, "")
    assert resumed.json()["resources"]["resumed"] is True
    assert sorted(path.name for path in folder.iterdir()) == ["net.bin", "out"]


def test_an_interrupt_while_results_are_written_leaves_nothing_under_the_final_name(
    network: Path, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mapper.portfolio.run.write_results", interrupted)
    assert run("run", network, *CHIP, "-o", "out").code == 130
    assert sorted(path.name for path in folder.iterdir()) == ["net.bin", "out.partial"]


@pytest.mark.parametrize(
    ("where", "arguments"),
    [
        ("mapper.jobs.place.place_groups", ("place", "net.bin", "--chip", "8x8", "-o", "out.npz")),
        (
            "mapper.jobs.score.measure_network",
            ("score", "net.bin", "map.csv", "--chip", "8x8"),
        ),
    ],
)
def test_an_interrupt_of_another_command_ends_with_130_and_leaves_nothing(
    where: str, arguments: tuple[str, ...], network: Path, run: Run, folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    Path("map.csv").write_text("0\n" * 50)
    monkeypatch.setattr(where, interrupted)
    found = run(*arguments)
    assert (found.code, found.out) == (130, "")
    assert found.err == f"mapper {arguments[0]}: interrupted; nothing was kept\n"
    assert sorted(path.name for path in folder.iterdir()) == ["map.csv", "net.bin"]


@pytest.mark.parametrize(
    ("preset", "step"),
    [
        ("classic", "force._swap_pulled"),
        ("fast", "portfolio._tries"),
        ("default", "annealing.dense.anneal"),
    ],
)
def test_an_interrupted_placement_is_kept(
    preset: str, step: str, network: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"mapper.placement.{step}", interrupted)
    found = run("run", network, *CHIP, "--preset", preset, "-o", "out", "--json")
    assert found.code == 130
    assert found.err.startswith("interrupted during the stage ")
    assert found.json()["resources"]["resumed"] is False
    assert not Path("out.partial").exists()
    assert run("verify", "out").code == 0
