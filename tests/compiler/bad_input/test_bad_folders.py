"""R13.1: damaged compiled folders, and programs that deadlock."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mapper.cli.options
from scripts.fuzz_compile import sealed

pytestmark = pytest.mark.jit
COMMANDS = (
    ("verify", "out"),
    ("simulate", "out", "--input", "samples.npz"),
    ("info", "out"),
)


def test_samples_are_read_before_kernels_are_compiled(
    out: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapper.cli.options, "compile_kernels", lambda *_: pytest.fail("compiles"))
    for name, value in {"a.npy": np.array([[None]]), "b.npy": np.zeros((2, 5))}.items():
        np.save(name, value, allow_pickle=True)
        assert name in fails("simulate", "out", "--input", name)


def test_samples_are_refused_before_models_are_read(
    folder: Path, fails: Callable[..., str]
) -> None:
    np.save("a.npy", np.array([[None]]), allow_pickle=True)
    Path("bad.onnx").write_bytes(b"no model")
    for option in ("--calibrate", "--verify"):
        said = fails("compile", "bad.onnx", "--chip", "2x2", option, "a.npy")
        assert "a.npy: its array holds Python objects" in said


def files_of(out: Path) -> list[str]:
    """Return the files named in the manifest."""
    return sorted(json.loads((out / "manifest.json").read_text())["files"])


@pytest.mark.heavy
@pytest.mark.sample(0.5)
def test_a_flipped_bit_of_each_file(out: Path, fails: Callable[..., str]) -> None:
    names = files_of(out)
    assert {"core_0_0.npc", "graph.json", "graph.npz", "host_plan.json"} <= set(names)
    for name in names:
        whole = (out / name).read_bytes()
        data = bytearray(whole)
        data[len(data) // 3] ^= 16
        (out / name).write_bytes(data)
        for command in COMMANDS:
            assert f"{name}: was changed after compilation" in fails(*command), name
        (out / name).write_bytes(whole)


def test_missing_file(out: Path, fails: Callable[..., str]) -> None:
    for name in [*files_of(out), "manifest.json"]:
        whole = (out / name).read_bytes()
        (out / name).unlink()
        for command in COMMANDS:
            assert f"out/{name}" in fails(*command)
        (out / name).write_bytes(whole)


def edited(out: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = out / "manifest.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


MANIFESTS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda m: m.update(schema=99), "has version 99, this mapper reads 1; compile the model again"),
    (lambda m: m.pop("schema"), "has version None"),
    (lambda m: m.pop("files"), "not a manifest of a compiled model"),
    (lambda m: m.update(files=[1]), "not a manifest of a compiled model"),
    (lambda m: m.pop("cores"), "its hash differs"),
    (lambda m: m["files"].update({"../good.onnx": "0" * 64}), "its hash differs"),
    (lambda m: m["maps"][0].update(address=1 << 40), "its hash differs"),
    (lambda m: m.update(sha256="0" * 64), "its hash differs"),
    (lambda m: m.pop("sha256"), "its hash differs"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("change", "says"), MANIFESTS)
def test_manifests(
    out: Path, fails: Callable[..., str], change: Callable[[dict[str, Any]], object], says: str
) -> None:
    edited(out, change)
    for command in COMMANDS:
        assert f"out/manifest.json: {says}" in fails(*command).replace(
            "was changed after compilation (its", "its"
        )


def test_manifest_is_not_json(out: Path, fails: Callable[..., str]) -> None:
    for data in (b"", b"{", b"\xff\xfe", b"[]", b"[" * 9999, b"1" * 9999):
        (out / "manifest.json").write_bytes(data)
        for command in COMMANDS:
            assert "manifest.json" in fails(*command)


NUMBERS = [
    ("graph.json", '"scale": ', "1e999"),
    ("graph.json", '"scale": ', "NaN"),
    ("host_plan.json", '"bits": ', "1" + "0" * 90),
    ("host_plan.json", '"bits": ', "7"),
    ("host_plan.json", '"scale": ', "1e308"),
    ("host_plan.json", '"scale": ', "null"),
    ("host_plan.json", '"scale": ', "-Infinity"),
]
SIZES = ("-7", "0", "1e999", "1" + "0" * 90, str(1 << 40))


def sealed_number(out: Path, name: str, field: str, number: str) -> None:
    """Replace the first number of a field in a file, and seal the folder again."""
    text = (out / name).read_text()
    changed = re.sub(re.escape(field) + r"\[?[-\d.e]+", f"{field}{number}", text, count=1)
    assert changed != text
    (out / name).write_text(changed)
    sealed(out)


@pytest.mark.parametrize(("name", "field", "number"), NUMBERS)
def test_numbers_that_no_model_has(
    out: Path, fails: Callable[..., str], name: str, field: str, number: str
) -> None:
    sealed_number(out, name, field, number)
    assert "out" in fails(*COMMANDS[1])


@pytest.mark.parametrize("number", SIZES)
def test_sizes_that_no_map_has(out: Path, fails: Callable[..., str], number: str) -> None:
    text = (out / "graph.json").read_text()
    changed = re.sub(r'"shape": \[\s*1,\s*\d+', f'"shape": [1, {number}', text, count=1)
    assert changed != text
    (out / "graph.json").write_text(changed)
    sealed(out)
    for command in COMMANDS:
        assert "out: its files are inconsistent" in fails(*command)
