"""The reference matches the code."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import mapper
from hw.npu.isa.table import FORMS, HEAD, MICRO_OP, RECORD, SCALE
from mapper.cli.main import COMMANDS, build_whole_parser, main, subparsers
from mapper.exports import EXPORTS as MAPPINGS
from mapper.graph.rows import COPY
from mapper.settings import PRESETS, SETTINGS
from storage.formats import EXPORTS, FORMATS
from storage.scratch.directions import directions_of
from storage.scratch.packed import pack_block, write_packed
from storage.scratch.scratch import Scratch
from tests.chipsim.measured import score
from tests.docs.blocks import DOCS
from tests.mapper.helpers import random_network
from tests.mapper.reporting.made import random_folder

STEPS = ("classic", "streamed", "multicast")
"""Groups of settings that control the steps of the method."""


@pytest.fixture(scope="module")
def generated() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["reference/settings.md", "method.md"])
def test_settings_have_rows(page: str, generated: ModuleType) -> None:
    """Tables of settings are generated from the code, and every setting has a row."""
    text = generated.fill((DOCS / page).read_text())
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    described = [each for each in SETTINGS.values() if page != "method.md" or each.group in STEPS]
    for each in described:
        cells = [cell.strip() for cell in rows[each.name].split(" | ")]
        assert cells[-1] == generated.plain(each.help)
        assert cells[-2] == f"{each.range} {each.unit}".strip()
        if each.group in STEPS:
            presets = ["classic"] if each.group == "classic" else ["fast", "default", "strong"]
            found = [generated.value(getattr(PRESETS[preset], each.name)) for preset in presets]
            assert cells[:-2] == found
    assert len(described) > 20
    assert "--set" in text


def test_every_metric_has_a_row() -> None:
    from chipsim.chip.energy import ChipEnergy
    from chipsim.chip.model import Chip
    from chipsim.chip.time import ChipTime

    chip = Chip(
        "c", 1, 1, time=ChipTime(), memory_bits=9, weight_bits=1, delivery="core",
        single_target=True, sharing="offset", energy_unit="pJ",
        energy=ChipEnergy(event=1.0, neuron=1.0),
    )  # fmt: skip
    found = score(chip, np.zeros(0, np.int32), [], sizes=np.ones(0, np.int64))
    parts = ("core", "energy_parts", "multicast", "tick_bounds", "noc_latency")
    inner = {f"{part}.{name}" for part in parts for name in found.pop(part)}
    text = (DOCS / "reference" / "metrics.md").read_text()
    table = text.partition("| name | meaning |")[2].partition("\n\n")[0]
    cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    sampled = {"congestion", "congestion_pairs", "congestion_share"}  # only for large chips
    assert set(re.findall(r"`([\w.]+)`", cells)) == set(found) | inner | sampled


@pytest.mark.jit
def test_every_key_of_a_report_is_explained(folder: Path) -> None:
    random_network(Path("net.bin"), 60, 300)
    chip = ["--chip", "2x2", "--neurons-per-core", "20"]
    assert main(["run", "net.bin", *chip, "--preset", "fast", "-o", "out", "-q"]) == 0
    assert main(["simulate", "out", "--cycles", "200", "-q"]) == 0
    report = json.loads(Path("out/report.json").read_text())
    text = (DOCS / "reference" / "report.md").read_text()
    for name in report:
        assert f"| `{name}` |" in text, name
    for part in ("network", "resources", "simulation"):
        section = text.partition(f"\n## {part}\n")[2].partition("\n## ")[0]
        named = set(re.findall(r"`(\w+)`", section))
        assert set(report[part]) <= named, part
    section = text.partition("\n## stages and levels\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    for entry in report["levels"] + report["stages"]:
        assert set(entry) <= named, entry


def test_every_array_of_traffic_is_explained(folder: Path) -> None:
    from chipsim.chip.model import Chip

    out = random_folder(folder / "out", Chip("c", 3, 2))
    with np.load(out / "traffic.npz") as file:
        found = set(file.files)
    text = (DOCS / "reference" / "formats.md").read_text().partition("### traffic.npz")[2]
    text = text.partition("\n### ")[0]
    cells = " ".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", cells)) == found


@pytest.mark.jit
def test_every_file_of_an_output_folder_is_named(folder: Path) -> None:
    random_network(Path("net.bin"), 60, 300)
    chip = ["--chip", "2x2", "--neurons-per-core", "20"]
    assert main(["run", "net.bin", *chip, "--preset", "fast", "-o", "out", "-q"]) == 0
    text = (DOCS / "reference" / "formats.md").read_text().partition("## The output folder")[2]
    assert {path.name for path in Path("out").iterdir()} <= set(
        re.findall(r"^\| `(.*?)`", text, re.M)
    )


def scratch_keys() -> tuple[str, dict[str, re.Pattern[str]]]:
    """Return the section on scratch of the formats page, and patterns of the keys in its table."""
    text = (DOCS / "format.md").read_text().partition("\n## Scratch\n")[2]
    steps = re.findall(r"`([a-z]+(?: [a-zN.M]+)?)`", text.partition("STEP is")[2])
    step = "|".join(re.sub(r"\b[NM]\b", r"\\d+", re.escape(name)) for name in steps)
    parts = {
        "GRAPH": r"(?:level/\d{3}|groups|together)",
        "STEP": rf"(?:attempt \d+/)?(?:{step})",
        "NAME": r"\w+",
        "%03d": r"\d{3}",
        "%08d": r"\d{8}",
        r"\.\.\.": r".+",
    }
    keys = {}
    for key in re.findall(r"^\| `([^`]+)` \|", text.partition("| key |")[2], re.MULTILINE):
        pattern = re.escape(key)
        for name, meant in parts.items():
            pattern = pattern.replace(name, meant)
        keys[key] = re.compile(pattern)
    return text, keys


@pytest.mark.jit
def test_keys_of_scratch_match_the_page(folder: Path) -> None:
    random_network(Path("net.bin"), 60, 300)
    Path("limits.toml").write_text("[[together]]\nneurons = [0, 1, 2]\n")
    chip = ["--chip", "2x2", "--neurons-per-core", "20", "--keep-scratch"]
    classic = ["--preset", "classic", "--set", "size-divisor=1", "--constraints", "limits.toml"]
    assert main(["run", "net.bin", *chip, *classic, "-o", "classic", "-q"]) == 0
    assert main(["run", "net.bin", *chip, "--preset", "fast", "-o", "fast", "-q"]) == 0
    found: set[str] = set()
    for name in ("classic", "fast"):
        with Scratch(Path(name) / "scratch", read_only=True) as scratch:
            found |= set(scratch.names())
    with Scratch(Path("copied")) as scratch:
        empty = np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)
        directions = directions_of(empty[2], np.zeros(0, np.int64))
        write_packed(scratch, COPY, 2, 2, lambda index: pack_block(index, empty, directions))
        found |= set(scratch.names())
    _, documented = scratch_keys()
    for key in found:
        assert any(pattern.fullmatch(key) for pattern in documented.values()), key
    for key, pattern in documented.items():
        assert any(map(pattern.fullmatch, found)), f"{key} is never written"


def test_every_step_is_documented() -> None:
    """Names of stored steps are in the formats page."""
    text, _ = scratch_keys()
    source = "".join(path.read_text() for path in (DOCS.parent / "mapper").rglob("*.py"))
    names = re.findall(r"\bsteps\.(?:once|run_once)\(\s*f?\"([^\"]+)\"", source)
    names.remove("{name}{index}")  # the passes of `run_passes`
    names += [f"{one}{{index}}" for one in re.findall(r"\brun_passes\(\s*f?\"([^\"]+)\"", source)]
    assert len(names) > 8
    for name in names:
        with_numbers = re.sub(r"\{\w+\}\.\{\w+\}", "N.M", name)
        assert f"`{re.sub(r'{.*?}', 'N', with_numbers)}`" in text


def test_times_of_fast_match_the_table() -> None:
    """The benchmarks and the memory page quote the times in the tables of the benchmarks."""
    text = (DOCS / "benchmarks.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.partition("| graph | mesh | best peer |")[2].splitlines()
        if line.startswith("| ") and re.search(r"\d+x\d+", line)
    ]
    assert len(rows) == 12
    share = [float(row[-1]) / float(row[-2]) for row in rows]
    assert 0.18 < min(share) < 0.25  # a fifth
    assert 0.3 < max(share) < 0.38  # a third
    large = re.findall(r"^\| natural \| mapper \w+ \| ([\d.]+) ", text, re.MULTILINE)
    assert 0.68 < float(large[1]) / float(large[0]) < 0.8  # three quarters
    hops = np.array([[int(cell.split()[0].replace(",", "")) for cell in row[4:6]] for row in rows])
    more = np.exp(np.log(hops[:, 1] / hops[:, 0]).mean()) - 1
    said = (
        "takes a fifth to a third of the time.* on small graphs and three quarters on a million "
        f"neurons, for {100 * more:.0f} % more hops"
    )
    for page in (text, (DOCS / "howto" / "memory.md").read_text()):
        assert re.search(said, " ".join(page.split()))


def test_every_command_has_a_section(generated: ModuleType) -> None:
    page = generated.fill((DOCS / "reference" / "commands.md").read_text())
    for name, parser in subparsers(build_whole_parser()).items():
        assert f"\n## mapper {name}\n" in page
        for kind in subparsers(parser):
            assert f"\n### mapper {name} {kind}\n" in page
        for action in parser._actions:
            if action.help == argparse.SUPPRESS:
                continue
            for option in set(action.option_strings) - {"-h", "--help"}:
                assert f"`{option}" in page
    assert "mapper generate cortex net.bin --side 316" in page


def test_every_export_has_a_row(generated: ModuleType) -> None:
    page = generated.fill((DOCS / "reference" / "formats.md").read_text())
    rows = page.partition("## Output formats of networks")[2]
    assert "| `graphml` | `.graphml` `.xml` |" in rows
    assert re.search(r"\| `hmetis` .*\| no \| no \| yes \| partly \| no \| partly \|", rows)
    text = (DOCS / "reference" / "export.md").read_text()
    for name in EXPORTS:
        assert f"\n| `{name}` |" in rows
        assert name in text.lower().replace(" ", "")


def test_help_lists_the_formats_of_the_registries(generated: ModuleType) -> None:
    parsers = subparsers(build_whole_parser())
    page = generated.fill((DOCS / "reference" / "commands.md").read_text())
    for command, registries in (("export", (EXPORTS, MAPPINGS)), ("import", (FORMATS,))):
        text = parsers[command].format_complete_help()
        lines = [line.split() for line in text.splitlines()]
        for registry in registries:
            for name, each in registry.items():
                about = " ".join(each.about.split())
                assert any(words[:2] == [name, each.extensions[0]] for words in lines)
                assert about.split()[0] in text
                assert set(each.extensions) <= set(text.split())
        assert max(map(len, text.splitlines())) <= 80
        listed = [line for line in text.splitlines() if line.startswith(f"  {name}  ")]
        assert listed
        assert all(f"\n{line}\n" in page for line in listed)
    for option in ("threshold", "leak", "bias", "magnitudes", "graph"):
        action = next(one for one in parsers["export"]._actions if one.dest == option)
        takers = [name for name, each in MAPPINGS.items() if option in each.options]
        assert str(action.help).endswith(f"({', '.join(takers)})")


def test_formats_of_mappings_equal_the_registry() -> None:
    """Names, endings and helpers in the table equal the registry."""
    text = (DOCS / "reference" / "export.md").read_text().partition("\n## Mappings\n")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    assert sorted({row[0].strip("`").split()[0] for row in rows}) == sorted(MAPPINGS)
    for row in rows:
        name, *options = row[0].strip("`").split()
        assert re.findall(r"`([^`]+)`", row[1]) == list(MAPPINGS[name].extensions)
        assert all(one.removeprefix("--") in MAPPINGS[name].options for one in options)
        assert (row[-1] not in ("left out", "refused")) == MAPPINGS[name].relays


def test_the_readme_names_every_format() -> None:
    text = (DOCS.parent / "README.md").read_text().lower()
    words = re.sub(r"[^a-z0-9]", "", text)
    for name in (*FORMATS, *EXPORTS, *MAPPINGS):
        assert name in words


@pytest.mark.heavy
@pytest.mark.sample(0.25)
@pytest.mark.jit
def test_the_site_is_built(tmp_path: Path) -> None:
    for name in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(name)
    site = tmp_path / "site"
    # a separate process: Sphinx changes warnings and paths of its process
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "trees"), str(DOCS), str(site)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    commands = (site / "reference" / "commands.html").read_text()
    for name in COMMANDS:
        assert f'id="mapper-{name}"' in commands
    assert "hop_passes" in (site / "reference" / "settings.html").read_text()
    loaded = re.compile(r"<(?:script|img)[^>]*src=\"https?:|<link[^>]*stylesheet[^>]*https?:")
    for page in site.rglob("*.html"):
        assert not loaded.search(page.read_text()), page
    for picture in ("_images/stages.svg", "noc-latency-light.svg", "noc-latency-dark.svg"):
        assert (site / picture).is_file()


def test_every_instruction_has_its_bits_on_the_page(generated: ModuleType) -> None:
    text = generated.fill((DOCS / "reference" / "isa.md").read_text())
    assert "| 119:104 | `value` | -32,768 to 32,767 |" in text
    assert "| 54 | `drain` | 0 to 1 |" in text
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    for form in FORMS:
        (section,) = (each for each in sections if each.startswith(f"{form.op}: {form.title}\n"))
        for kind, (code, meaning) in form.kinds.items():
            assert f"| `{form.op}.{kind}` | {code} | {generated.plain(meaning)} |\n" in section
        rows = re.findall(r"^\| [\d:]+ \| `(\w+)` \| .* \| .* \|$", section, re.MULTILINE)
        assert rows[: len(form.fields)] == [field.name for field in form.fields]
    for fields in (HEAD, MICRO_OP, SCALE):
        for field in fields:
            assert re.search(rf"\| {field.high}(:{field.low})? \| `{field.name}` \|", text)
    for lane, name in enumerate(RECORD):
        assert f"| {lane} | `{name}` |" in text


def test_every_public_name_is_described(generated: ModuleType) -> None:
    """Each name has a section, and each argument of a function a description."""
    text = generated.fill((DOCS / "reference" / "python.md").read_text())
    shared = inspect.getdoc(mapper.map_network) or ""
    for name in mapper.__all__:
        if name == "__version__":
            continue
        assert f"mapper.{name}" in text
        one = getattr(mapper, name)
        if inspect.isclass(one):
            continue
        said = inspect.getdoc(one) or ""
        said += shared if "mapper.map_network" in said else ""
        arguments = inspect.signature(one).parameters.values()
        for argument in [each.name for each in arguments if each.kind != each.VAR_KEYWORD]:
            assert re.search(rf"\b{argument}\b.* : |`{argument}`", said), f"{name}: {argument}"
