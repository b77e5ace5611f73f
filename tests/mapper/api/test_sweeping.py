"""`mapper.sweep`: the runs of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mapper
from tests.mapper.conftest import Run

# Kernels are tested with references; the code around them does not depend on the JIT.
pytestmark = [pytest.mark.jit, pytest.mark.usefixtures("light_placement")]
EFFORT: dict[str, Any] = {"threads": 1, "memory": "300MiB"}
MEASURED = ("seconds", "peak_rss_bytes", "peak_anon_bytes")  # columns


def test_the_runs_of_the_command(folder: Path, edges: Any, run: Run) -> None:
    mapper.import_network(edges, "net.bin", **EFFORT)
    Path("tries.toml").write_text(
        'network = "net.bin"\nchip = ["4x4", "1x1"]\nneurons-per-core = 5\nseed = "1..2"\n'
    )
    assert run("sweep", "tries.toml", "-o", "command", "--threads", "1", "--memory",
               "300MiB").code != 0  # fmt: skip
    seen: dict[str, str] = {}
    keys = {"network": "net.bin", "chip": ["4x4", "1x1"], "neurons-per-core": 5, "seed": [1, 2]}
    found = mapper.sweep(keys, "python", on_run=seen.__setitem__, **EFFORT)
    from_file = mapper.sweep("tries.toml", "file", **EFFORT)
    table = Path("command/sweep.csv").read_text().splitlines()
    names = table[0].split(",")
    assert len(found.rows) == len(table) - 1 == 4
    for row, other, line in zip(found.rows, from_file.rows, table[1:], strict=True):
        said = dict(zip(names, line.split(","), strict=True))
        for name in set(names) - set(MEASURED):
            assert row[name] == other[name] == said[name], name
    assert found.best is not None and (found.best / "mapping.npz").exists()
    assert len(found.failed) == 2
    assert {name for name, error in seen.items() if error} == set(found.failed)
    assert all("needs 50 neurons" in error for error in found.failed.values())
    apart = mapper.sweep(keys, "apart", workers=2, keep="best", **EFFORT)  # without the fixture
    assert apart.failed.keys() == found.failed.keys()
    assert len([path for path in Path("apart").iterdir() if path.is_dir()]) == 1
    again = mapper.sweep(keys, "python", resume=True, on_run=seen.__setitem__, **EFFORT)
    assert again.rows == found.rows


@pytest.mark.parametrize(
    ("error", "said", "given"),
    [
        (mapper.MapperError, "combinations: chip is missing", {"combinations": {"network": "n"}}),
        (
            mapper.MapperError,
            "unknown key 'ship'",
            {"combinations": {"ship": 1}},
        ),
        (mapper.MapperError, "none.toml: cannot read", {"combinations": "none.toml"}),
        (mapper.UsageError, "keep is 'x'", {"keep": "x"}),
        (mapper.UsageError, "workers is 0", {"workers": 0}),
        (mapper.MapperError, "taken: ", {"output": "taken"}),
    ],
)
def test_refused(
    error: type[Exception], said: str, given: dict[str, Any], folder: Path, edges: Any
) -> None:
    mapper.import_network(edges, "net.bin", **EFFORT)
    Path("taken").mkdir()
    Path("taken/file").touch()
    keys = {"network": "net.bin", "chip": "4x4"}
    with pytest.raises(mapper.MapperError) as caught:
        mapper.sweep(**{"combinations": keys, "output": "new", **given})
    assert type(caught.value) is error
    assert said in str(caught.value)
    assert "--" not in str(caught.value)
    assert not Path("new").exists()
