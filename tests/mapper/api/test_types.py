"""Type checkers find mistakes in the scripts of users."""

from __future__ import annotations

import typing
from pathlib import Path

import pytest

from mapper.api.types import MethodSettings
from mapper.settings import SETTINGS, Settings

ROOT = Path(__file__).resolve().parents[3]
GIVEN = {"objective", "seed", "threads", "memory_bytes", "preset"}
"""Settings with a separate argument."""

SCRIPT = """
from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mapper

Pair = tuple[NDArray[np.int64], NDArray[np.int64]]


def ring(neurons: int) -> Pair:
    ids = np.arange(neurons)
    return ids, (ids + 1) % neurons


def loads(mapping: mapper.NetworkMapping) -> list[int]:
    return [int(count) for count in np.bincount(mapping.core, minlength=mapping.chip.cores)]


def told(stage: str, fraction: float) -> None:
    print(f"{stage}: {fraction:.0%}", file=sys.stderr)


def compare(network: mapper.Network, chips: list[mapper.Chip]) -> dict[str, float]:
    hops: dict[str, float] = {}
    for chip in chips:
        checked = mapper.check(network, chip, preset="fast")
        if not checked.fits:
            print(checked.reasons[0])
            continue
        mapping = mapper.map_network(
            network, chip, preset="fast", seed=3, progress=told, hop_passes=2, fill=0.9
        )
        hops[chip.name] = mapping.metrics["hops_mean"]
    return hops


def main(folder: Path) -> int:
    network = mapper.import_network(ring(64), folder / "ring.bin")
    loihi = replace(mapper.chips()["loihi"], neurons=512)
    print(compare(network, [loihi]))
    mapping = mapper.map_network(ring(64), (4, 4), neurons_per_core=8, memory="1GiB")
    print(max(loads(mapping)), mapping.x.max(), mapper.__version__)
    mapping.save(folder / "result", force=True)
    scored = mapper.score(network, mapping.core, "4x4")
    assert scored.valid and not scored.violations
    print(mapper.verify(folder / "result").facts)
    print(mapper.simulate(mapping, cycles=100, seed=1).facts["saturation"])
    placement = mapper.place(ring(16), (4, 4), effort="fast", time_limit=1.5)
    print(placement.core.dtype, placement.metrics["hops_mean"])
    print(mapper.export(mapping, folder / "cores.csv").notes)
    loaded = mapper.load(folder / "result")
    if isinstance(loaded, mapper.NetworkMapping):
        print(mapper.report(loaded, path=folder / "page.html"))
    try:
        mapper.map_network(network, (2, 2), neurons_per_core=1)
    except mapper.DoesNotFitError as error:
        print(error)
        return 1
    return 0


sys.exit(main(Path(sys.argv[1])))
"""
MISTAKES = [
    ("mapper.map_network(ring(64), (4, 4)", "mapper.map_network(3, (4, 4)",
     'Argument 1 to "map_network" has incompatible type "int"'),
    ('mapper.score(network, mapping.core, "4x4")', "mapper.score(network, mapping.core, [4])",
     'Argument 3 to "score" has incompatible type "list[int]"'),
    ('network, chip, preset="fast", seed', 'network, chip, preset="quick", seed',
     'Argument "preset" to "map_network" has incompatible type'),
    ("hop_passes=2", "hop_pass=2", 'Unexpected keyword argument "hop_pass"'),
    ("neurons_per_core=8", 'neurons_per_core="8"',
     'Argument "neurons_per_core" to "map_network" has incompatible type "str"'),
    ("mapping.x.max()", "mapping.column.max()", 'has no attribute "column"'),
]  # fmt: skip


def test_the_settings_of_a_method_are_all_named() -> None:
    hints, own = typing.get_type_hints(MethodSettings), typing.get_type_hints(Settings)
    assert hints == {name: own[name] for name in SETTINGS if name not in GIVEN}


@pytest.mark.heavy
def test_mypy_finds_mistakes_in_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api")
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(SCRIPT)
    wrong = SCRIPT
    for right, mistake, _ in MISTAKES:
        assert wrong.count(right) == 1, right
        wrong = wrong.replace(right, mistake)
    bad.write_text(wrong)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    options = ["--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "users"), "--no-error-summary",
               "--config-file", "", "--follow-imports", "silent"]  # fmt: skip
    said, errors, code = api.run([*options, str(good)])
    assert (said, errors, code) == ("", "", 0)
    said, errors, code = api.run([*options, str(bad)])
    assert not errors
    assert said.count(": error: ") == len(MISTAKES), said
    for _, mistake, message in MISTAKES:
        assert message in said, mistake


@pytest.mark.jit
def test_the_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["script", str(tmp_path)])
    with pytest.raises(SystemExit) as stop:
        exec(compile(SCRIPT, "script.py", "exec"), {"__name__": "script"})
    assert stop.value.code == 1  # the last network does not fit
    assert (tmp_path / "page.html").stat().st_size > 1000
    assert len((tmp_path / "cores.csv").read_text().splitlines()) == 65
