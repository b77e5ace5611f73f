"""Efforts of the search for several cores, and its time limit."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chipsim.chip.model import Chip
from chipsim.chip.npu_shape import NpuShape
from mapper.compiler.artifacts.manifest import Target
from mapper.compiler.artifacts.simulate import simulate
from mapper.compiler.artifacts.verify import verify_compiled
from mapper.compiler.compiled import Compiled
from mapper.compiler.log import CompileLog
from mapper.compiler.multicore import search, simulated
from mapper.compiler.multicore.cuts.period import Grouped
from mapper.compiler.multicore.cuts.tries import Tried
from mapper.compiler.multicore.cuts.ways import PLANS, WAYS
from mapper.compiler.multicore.job import CompileJob, Whole
from mapper.compiler.multicore.simulated import Programs, Site
from mapper.compiler.pipeline import compile_model
from mapper.compiler.program.image import pack_image
from mapper.compiler.settings import CompileSettings, SearchEffort
from mapper.concurrency.processes import Calls
from mapper.errors import UsageError
from mapper.placement.clock import ENDLESS
from tests.compiler.networks import Builder, residual
from tests.compiler.programs import SHAPE, folder_of, source_of

pytestmark = pytest.mark.jit


LIMITS = {"method": "minmax", "min_signal": -100, "max_loss": 100}
HOW = CompileSettings(**LIMITS)  # type: ignore[arg-type]


def made(**settings: object) -> Compiled:
    how = LIMITS | settings
    source, samples = source_of(residual())
    found = CompileSettings(**how)  # type: ignore[arg-type]
    return compile_model(source, SHAPE, samples, found, chip=Chip("mesh", 2, 2))


def search_line(found: Compiled) -> str:
    (line,) = [one for one in found.log if "simulated cuts" in one and "best of" in one]
    return line


def bytes_of(found: Compiled) -> list[bytes]:
    return [pack_image(one.image()) for one in found.codes]


def period(found: Compiled) -> float:
    return float(search_line(found).split("period ")[1].split(" cycles")[0].replace(",", ""))


def cuts(found: Compiled) -> int:
    return int(search_line(found).split("best of ")[1].split()[0])


@pytest.mark.heavy
def test_more_effort_tries_more_cuts_and_is_not_worse() -> None:
    fast, default, strong = (made(effort=one) for one in ("fast", "default", "strong"))
    assert cuts(fast) < cuts(default) < cuts(strong)
    assert period(strong) <= period(default)
    assert not any("--time-limit" in one for each in (fast, default, strong) for one in each.notes)


@pytest.mark.heavy
@pytest.mark.parametrize("effort", PLANS)
def test_a_time_limit_ends_the_search_after_the_first_cut(effort: SearchEffort) -> None:
    found = made(effort=effort, time_limit=1e-9)
    assert cuts(found) == 1
    (note,) = [one for one in found.notes if "--time-limit" in one]
    assert note == (
        "--time-limit ended the search over cores (simulated cuts: 1); a longer limit may give a "
        "shorter period"
    )
    assert len(found.codes) > 1


@pytest.mark.heavy
def test_a_cut_that_was_simulated_is_not_simulated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[object] = []
    run = simulated.run_mesh
    monkeypatch.setattr(simulated, "run_mesh", lambda *given: runs.append(given) or run(*given))
    monkeypatch.setitem(PLANS, "default", [PLANS["default"][0]._replace(ways=WAYS[:1] * 2)])
    found = made()
    assert cuts(found) <= len(runs) <= cuts(found) + 1  # parts of the best cut are placed again


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_several_processes_find_the_same(
    objective: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if one of them fails."""
    alone = made(objective=objective)
    monkeypatch.setattr(search, "WORTH", 0.0)
    monkeypatch.setattr(search, "all_cores", lambda: 2)
    far: list[object] = []

    def results(self: Calls) -> list[object]:
        far.extend(whole(self))
        return [None for _ in far] if fails else far

    whole = Calls.results
    monkeypatch.setattr(Calls, "results", results)
    found = made(objective=objective)
    assert len(far) == 1
    assert far != [None]
    assert search_line(found) == search_line(alone)
    assert bytes_of(found) == bytes_of(alone)


def test_a_single_way_needs_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "WORTH", 0.0)
    assert cuts(made(effort="fast")) > 0


@pytest.mark.heavy
def test_programs_of_another_process_are_generated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last way is tried in another process; its last cut is taken to be the best."""
    ways = (*WAYS[::2], WAYS[1])
    monkeypatch.setitem(PLANS, "default", [PLANS["default"][0]._replace(ways=ways, again=0)])
    taken: list[Any] = []

    def last(ran: list[Any]) -> Any:
        taken.append(ran[-1])
        return ran[-1]

    monkeypatch.setattr(search, "best_of", last)
    alone = made()
    monkeypatch.setattr(search, "WORTH", 0.0)
    monkeypatch.setattr(search, "all_cores", lambda: 2)
    assert bytes_of(made()) == bytes_of(alone)
    assert [one.made.made is None for one in taken] == [False, True]


@pytest.mark.heavy
def test_fewer_cores_are_used_where_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that several cores need pass the host's port several times."""
    build = Builder(24, 24, 8)
    build.end(build.relu(build.conv(build.input, 4)))
    source, samples = source_of(build)
    how, chip = CompileSettings(method="minmax", min_signal=-100), Chip("mesh", 4, 4)
    found = compile_model(source, SHAPE, samples, how, chip=chip)
    monkeypatch.setattr(search._Search, "_on_fewer_cores", lambda *_: [])
    other = compile_model(source, SHAPE, samples, how, chip=chip)
    assert len(found.codes) < len(other.codes)
    assert period(found) < 0.95 * period(other)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_layer_is_cut_by_rows_and_by_output_blocks() -> None:
    """A core can store neither all weights of the second layer, nor all rows of its input."""
    build = Builder(20, 20, 16)
    build.end(build.conv(build.relu(build.conv(build.input, 64)), 64))
    small = NpuShape("small", map_vectors=1024, weight_words=64, instructions=1 << 16)
    chip = Chip("mesh", 5, 5)
    source, samples = source_of(build)
    found = compile_model(source, small, samples, HOW, chip=chip)
    folder = folder_of(found, Target(chip, small, HOW))
    (end,) = {one["name"] for one in folder.manifest["host_maps"]}
    maps = [one for one in folder.manifest["maps"] if one["whole"] == [1, 20, 20, 64]]
    rows = Counter(tuple(one["rows"]) for one in maps if one["name"] != end)
    assert len(rows) > 1 and max(rows.values()) > 1
    outcome = simulate(folder, samples.x, threads=1, check=True)
    assert {one.differences for one in outcome.compared} == {0}
    verify_compiled(folder)


@pytest.mark.parametrize(("period", "latency", "kept"), [
    (100, 1000, True), (100.9, 1009, True), (101.1, 1000, False), (100, 1011, False),
])  # fmt: skip
def test_a_placement_with_fewer_hops_may_be_slightly_slower(
    period: float, latency: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both placements have the same parts; energy grows with the flit-hops."""

    def one(time: float, first: int, hops: float) -> Tried[Programs]:
        programs = Programs(None, CompileLog(), job, [], "core (0, 0)", hops)
        return Tried(Grouped([], [], []), programs, [time], time, first)

    class Placing(search._Search):
        def __init__(self) -> None:
            self.job, self.chip, self.ended, self._known = job, Chip("mesh", 2, 2), False, {}
            self.ports, self._site = [], Site(self.chip, [], Whole([], {}, {}, {}, []))

    job = cast(CompileJob, SimpleNamespace(settings=HOW, clock=ENDLESS))
    again = one(period, latency, 50)
    monkeypatch.setattr(search, "simulated", lambda *_, **__: again)
    cut = one(100, 1000, 100)
    assert (Placing()._placed_again([cut], 1) is again) == kept


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_time_limits_out_of_range(seconds: float) -> None:
    with pytest.raises(UsageError, match=r"--time-limit is .*; give seconds above 0"):
        CompileSettings(time_limit=seconds)
