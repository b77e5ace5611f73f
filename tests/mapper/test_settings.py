"""One table of settings: presets, checks, options, `--set` and Python agree."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper
from mapper.api import mapping as api
from mapper.cli import place, tuning
from mapper.cli.main import build_parser
from mapper.errors import UsageError
from mapper.planning.rounds import cut_passes, hop_rounds
from mapper.session import MapRequest
from mapper.settings import GROUPS, PRESETS, SETTINGS, Setting, Settings, preset
from tests.mapper.conftest import Run
from tests.mapper.helpers import random_network

HUGE = "9" * 5000


def parsed(command: str, *words: str) -> argparse.Namespace:
    line = [command, "net.bin", "--chip", "2x2", "--memory", "1GiB", "--threads", "2"]
    return build_parser(command).parse_args([*line, *words])


def settings_of(*words: str) -> Settings:
    return tuning.settings_of(parsed("run", *words))


def other(setting: Setting) -> Any:
    """Return a value that differs from the default of the preset."""
    usual = setting.in_preset("default")
    if setting.kind is str:
        return next(choice for choice in setting.choices if choice != usual)
    return setting.low if setting.low != usual else setting.kind(setting.high)


def test_the_table_is_complete() -> None:
    assert list(SETTINGS) == [each.name for each in fields(Settings)]
    assert {each.group for each in SETTINGS.values()} == set(GROUPS)
    for each in SETTINGS.values():
        assert each.help, each.name
        assert "\n" not in each.help
        assert not each.help.endswith(".")
        assert each.choices if each.kind is str else each.low < each.high
        assert set(each.presets) <= set(PRESETS)
        for name, found in PRESETS.items():
            value = getattr(found, each.name)
            assert type(value) is each.kind
            assert each.check(value) == value == each.in_preset(name)
    for name, found in PRESETS.items():
        assert preset(name) == found


@pytest.mark.sample(22)
@pytest.mark.parametrize("name", tuning.METHOD)
def test_options_and_python_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = SETTINGS[name]
    value = other(setting)
    basis = "fast" if (name, value) == ("objective", "multicast") else "default"
    expected = preset(basis, threads=2, memory_bytes=1 << 30, **{name: value})
    assert expected != preset(basis, threads=2, memory_bytes=1 << 30)
    words = ("--preset", basis, "--set")
    assert settings_of(*words, f"{name}={value}") == expected
    assert settings_of(*words, f" {setting.option.upper()} = {value} ") == expected
    if name in ("objective", "cores", "fill", "min_fill"):
        flag = (f"--{setting.option}", str(value))
        assert settings_of("--preset", basis, *flag) == expected
        assert settings_of(*words, f"{name}={value}", *flag) == expected

    asked: list[MapRequest] = []
    monkeypatch.setattr(api, "_map", lambda request, *rest: asked.append(request))
    edges = (np.array([0, 1]), np.array([1, 0]))
    more: dict[str, Any] = {name: value}
    mapper.map_network(edges, "2x2", preset=basis, threads=2, memory="1GiB", **more)
    assert asked[0].settings == expected


def test_numbers_may_have_leading_zeros() -> None:
    assert settings_of("--set", "starts=0005").starts == 5


@pytest.mark.sample(36)
@pytest.mark.parametrize("name", [name for name in SETTINGS if SETTINGS[name].kind is not str])
@pytest.mark.parametrize(
    "text", ["x", "", "-1", "-1e5", "nan", "-nan", "inf", "-inf", "1e999", HUGE, "-" + HUGE, "1,5"]
)
def test_invalid_numbers_give_one_line(name: str, text: str, run: Run) -> None:
    line = ("run", "none.bin", "--chip", "2x2")
    ways = [("--set", f"{name}={text}")] if name in tuning.METHOD else []
    if name in ("cores", "fill", "min_fill"):
        ways.append((f"--{SETTINGS[name].option}", text))
    for words in ways:
        found = run(*line, *words)
        assert (found.code, found.out) == (2, "")
        assert found.err.count("\n") == 1
        assert found.err.startswith(f"mapper run: {name} is ")
        assert f"; give a {'whole ' if SETTINGS[name].kind is int else ''}number, " in found.err
        assert len(found.err) < 120
    for value in (text, float("nan"), float("inf"), -1, 10**400, True, None, 1 + 2j):
        with pytest.raises(UsageError, match=f"^{name} is .*; give a "):
            preset("default", **{name: value})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--set degre=4", "--set: there is no setting 'degre'; did you mean degree? `mapper docs "),
        ("--set hop.budget=4", "did you mean hop_budget? `mapper docs settings` lists all"),
        ("--set zzz=4", "--set: there is no setting 'zzz'; `mapper docs settings` lists all"),
        (f"--set {HUGE}=4", "`mapper docs settings` lists all"),
        ("--set =4", "there is no setting ''"),
        ("--set degree", "--set 'degree': expected NAME=VALUE, such as --set starts=4"),
        ("--set degree=", "degree is ''; give a whole number, 8 to 2^30"),
        ("--set degree=7", "degree is 7; give a whole number, 8 to 2^30"),
        ("--set degree=9.0", "degree is '9.0'; give a whole number, 8 to 2^30"),
        ("--set force-share=2", "force_share is 2.0; give a number, 0.001 to 1"),
        (
            "--set objective=hop",
            "objective is 'hop'; give hops, time, unicast, core, multicast or cut",
        ),
        ("--set placement=best", "placement is 'best'; give fast, default or strong"),
        ("--set degree=9 --set degree=9", "--set: duplicate degree; give it once"),
        ("--set hop-passes=1 --set hop_passes=2", "--set: duplicate hop_passes; give it once"),
        ("--cores 10 --set cores=11", "cores: option has 10, but --set has 11"),
        ("--objective cut --set objective=unicast", "objective: option has cut"),
        ("--set seed=3", "--set: seed is not a method setting; use --seed"),
        ("--set memory_bytes=3", "--set: memory_bytes is not a method setting; use --memory"),
        ("--set preset=fast", "--set: preset is not a method setting; use --preset"),
        ("--set objective=multicast --preset classic", "classic has no objective multicast"),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_values_that_set_rejects(command: str, words: str, said: str, run: Run) -> None:
    found = run(command, "none.bin", "--chip", "2x2", *words.split())
    assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    assert found.err.startswith(f"mapper {command}: ")
    assert said in found.err
    assert len(found.err) < 200


def test_place_accepts_placement_settings(run: Run, folder: Path) -> None:
    found = run("place", "none.bin", "--chip", "2x2", "--set", "degree=100")
    assert found.code == 2
    assert (
        "--set: degree has no effect here; choose from placement, placer, bisection_rep"
        in found.err
    )
    found = run("place", "x", "--chip", "2x2", "--effort", "fast", "--set", "placement=strong")
    assert "placement: option has fast, but --set has strong" in found.err
    assert set(place.SETTABLE) < set(tuning.METHOD)


@pytest.mark.parametrize("text", ["x", "", "0", "-1", "-1e5", "nan", "-inf", "inf", "1e999", HUGE])
@pytest.mark.parametrize("option", ["--time-limit", "--rates-duration"])
def test_wrong_seconds(option: str, text: str, run: Run) -> None:
    found = run("place", "none.bin", "--chip", "2x2", option, text)
    assert (found.code, found.out) == (2, "")
    line = found.err.splitlines()[-1]
    assert line.startswith(f"mapper place: error: argument {option}: ")
    assert line.endswith(" is not a number of seconds above 0")
    assert max(map(len, found.err.splitlines())) < 120


@pytest.mark.jit
def test_settings_without_effect_are_noted(run: Run, folder: Path) -> None:
    random_network(folder / "net.bin", 40, 100)
    line = ("place", "net.bin", "--chip", "8x8", "--preset", "fast", "--json")
    found = run(*line, "--set", "force-share=0.5", "--effort", "fast")
    assert found.code == 0
    assert found.err == "note: without effect with --preset fast: force_share\n"
    assert found.json()["settings"]["force_share"] == 0.5
    assert run(*line, "--set", "force-share=0.5", "-q").err == ""


def test_which_settings_are_used() -> None:
    assert preset("classic").reads("force_share")
    assert not preset("classic").reads("degree")
    assert preset("fast").reads("degree")
    assert not preset("fast").reads("recuts")
    assert preset("fast", objective="multicast").reads("recuts")
    assert all(found.reads("bisection_repeats") for found in PRESETS.values())
    assert preset("fast").reads("placement")
    assert not preset("fast", placer="curves").reads("placement")


def test_help_of_run_names_the_page_of_settings(run: Run) -> None:
    text = run("run", "--help").out
    for word in ("--chip", "--preset", "--seed", "--memory", "--set", "mapper docs settings"):
        assert word in text


def test_docs_list_all(run: Run) -> None:
    text = run("docs", "settings", "--json").json()["text"]
    for name, setting in SETTINGS.items():
        assert f"| `{name}` |" in text
        assert setting.range in text


@pytest.mark.parametrize(
    ("entries", "changes", "rounds", "cut"),
    [
        (10, {}, (2, 6), 5),
        (25_000_000, {}, (2, 2), 5),
        (50_000_000, {}, (1, 1), 5),
        (50_000_001, {}, (1, 0), 1),
        (10**10, {"hop_passes": 0}, (0, 0), 5),
        (10**10, {"hop_budget": 0}, (0, 0), 5),
        (10**10, {"objective": "cut"}, (1, 0), 5),
        (10**10, {"objective": "core", "refinement_passes": 0}, (1, 0), 0),
    ],
)
def test_large_networks_get_one_hop_pass_instead_of_cut_passes(
    entries: int, changes: dict[str, Any], rounds: tuple[int, int], cut: int
) -> None:
    settings = preset("default", **{"objective": "unicast", **changes})
    assert (hop_rounds(settings, entries), cut_passes(settings, entries)) == (rounds, cut)
