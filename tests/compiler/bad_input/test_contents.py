"""R1.3: output of `info` and `disassemble` for compiled folders and programs, and of -v for
stages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hw.npu.isa.assembly import assemble
from hw.npu.isa.encoding import encode_program
from mapper.compiler.codegen.macros.file import MACROS
from mapper.compiler.program.image import unpack_image
from mapper.compiler.program.sections import pack_sections, unpack_sections
from mapper.compiler.stages import ORDER
from tests.compiler.bad_input.good import compile_good
from tests.mapper.conftest import Run

pytestmark = pytest.mark.jit


@pytest.fixture
def out(folder: Path, run: Run) -> Path:
    found = compile_good(folder, run, "--chip", "1x1", "--normalise", "scale=0.5", "-v")
    (folder / "said.txt").write_text(found.err)
    return folder / "out"


def test_c15_stages_and_memories_are_reported(out: Path, folder: Path) -> None:
    """C15: the order and time of stages, and the use of each memory."""
    report = json.loads((out / "report.json").read_text())
    said = [line.split(":")[0] for line in (folder / "said.txt").read_text().splitlines()]
    stages = list(report["seconds"])
    assert stages == [name for name in ORDER if name != "packet headers"]
    assert {line for line in said if line in ORDER} <= set(stages)
    assert {"read", "verify", "instructions", "check"} <= set(said)
    assert min(report["seconds"].values()) > 0
    for name in ("feature", "weight", "parameter", "micro-op", "instruction"):
        assert 0 < report["memories"][name]["used"] <= report["memories"][name]["capacity"]


def test_info_of_a_folder(out: Path, run: Run) -> None:
    found = run("info", "out", "--json").json()
    assert found["model"]["name"] == "good.onnx"
    assert "scale=0.5" in found["samples"]["normalise"]
    assert found["layers"] == 2
    (core,) = found["cores"]
    whole = unpack_image((out / core["file"]).read_bytes(), "core")
    assert core["instructions"] * 16 == len(whole.instructions)
    assert core["weight_words"] == len(whole.weights)
    assert set(found["files"]) | {"manifest.json"} <= {path.name for path in out.iterdir()}
    text = run("info", "out").out
    for piece in ("good.onnx", "scale=0.5", "core_0_0.npc", "weight words"):
        assert piece in text


def test_info_of_a_program(out: Path, run: Run, fails: Callable[..., str]) -> None:
    found = run("info", "out/core_0_0.npc", "--json").json()
    assert sum(found["kinds"].values()) == found["instructions"]
    assert found["kinds"]["CTRL.END"] == 1
    assert found["npu"] == "npu"
    assert "GEMM.INT8" in run("info", "out/core_0_0.npc").out
    data = bytearray((out / "core_0_0.npc").read_bytes())
    data[7] = 9
    Path("other.npc").write_bytes(data)
    assert "a program of version 9, this mapper reads 1" in fails("info", "other.npc")
    assert "a program of version 9" in fails("disassemble", "other.npc")


def test_a_program_as_text_and_back(out: Path, run: Run) -> None:
    text = run("disassemble", out / "core_0_0.npc").out
    made = assemble(text, "text")
    whole = unpack_image((out / "core_0_0.npc").read_bytes(), "core")
    assert encode_program(made.instructions) == whole.instructions
    assert run("disassemble", out / "core_0_0.npc", "--json").json()["text"] == text


def test_c03_macro_records_of_a_folder(out: Path, run: Run, fails: Callable[..., str]) -> None:
    """C03: the manifest lists the records; they are summarised, listed, and checked against the
    program.
    """
    manifest = json.loads((out / "manifest.json").read_text())
    assert "macros.bin" in manifest["files"]
    found = run("info", "out/macros.bin", "--json").json()
    assert found["layers"] == 2
    assert sum(found["ops"].values()) == found["records"]
    assert run("info", "out", "--json").json()["macro_records"] == found["records"]
    assert "pool words" in run("info", "out/macros.bin").out
    text = run("disassemble", "out/macros.bin").out
    assert text.startswith("# function 0\n# layer 0 ")
    assert len([line for line in text.splitlines() if line[0] != "#"]) == found["records"]
    assert run("disassemble", "out/macros.bin", "--json").json()["text"] == text
    assert run("verify", "out", "--json").json()["macro records"] == found["records"]
    whole = (out / "macros.bin").read_bytes()
    Path("cut.bin").write_bytes(whole[:-3])
    assert "cut.bin: cut short" in fails("info", "cut.bin")
    assert "cut.bin: cut short" in fails("disassemble", "cut.bin")


def test_records_of_another_program_are_rejected(out: Path, fails: Callable[..., str]) -> None:
    """A changed record is detected even if all checksums and hashes are updated."""
    whole = (out / "macros.bin").read_bytes()
    parts = unpack_sections(MACROS, whole, "it")
    words = bytearray(parts["WM"])
    words[0] ^= 1
    rehashed(out, pack_sections(MACROS, parts | {"WM": bytes(words)}))
    assert "out/macros.bin: the weight words differ from core_0_0.npc" in fails("verify", "out")
    record = bytearray(parts["REC"])
    record[0] = 9
    rehashed(out, pack_sections(MACROS, parts | {"REC": bytes(record)}))
    assert "out/macros.bin: macro record 0: unknown opcode 9" in fails("verify", "out")


def test_folders_without_records_are_refused(out: Path, fails: Callable[..., str]) -> None:
    """Folders of earlier versions have no records."""
    rehashed(out, None)
    assert "out/macros.bin: is missing; compile the model again" in fails("verify", "out")


def rehashed(out: Path, data: bytes | None) -> None:
    """Write other macro records, or none, and update the hashes."""
    manifest = json.loads((out / "manifest.json").read_text())
    del manifest["sha256"]
    del manifest["files"]["macros.bin"]
    if data is not None:
        (out / "macros.bin").write_bytes(data)
        manifest["files"]["macros.bin"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (out / "manifest.json").write_text(json.dumps(manifest))
