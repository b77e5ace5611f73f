"""A U-Net and a generator, from the ONNX file to the results, on one core and on a chip."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mapper.cli.main import main
from tests.compiler.decoders import generator, unet
from tests.compiler.models import saved

MODELS = {"unet": (unet, 0), "generator": (generator, 1)}
"""Networks, and the number of nodes on the host: functions whose results only the host reads."""


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
@pytest.mark.parametrize("name", MODELS)
def test_decoders_on_one_core_and_on_many(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All layers run on the cores, each layer equals the reference and the model in ONNX Runtime,
    and a chip gives the results of one core in fewer cycles."""
    network, hosted = MODELS[name]
    model, samples = network()
    path = saved(model, tmp_path)
    np.save(tmp_path / "x.npy", samples)
    hashes, cycles = set(), []
    for chip in ("1x1", "4x4"):
        out = tmp_path / chip
        given = ["--calibrate", str(tmp_path / "x.npy"), "--chip", chip, "--explain", "--json"]
        assert main(["compile", str(path), *given, "-o", str(out)]) == 0
        report = json.loads(capsys.readouterr().out)
        explained = json.loads((out / "explain.json").read_text())
        assert explained["counts"]["host"] == hosted
        cycles.append(report["cycles"])
        given = ["--input", str(tmp_path / "x.npy"), "--check", "--json"]
        assert main(["simulate", str(out), *given]) == 0
        run = json.loads(capsys.readouterr().out)
        assert run["elements"] > 0 and run["differences"] == 0
        hashes.add(run["sha256"])
    assert len(hashes) == 1
    assert cycles[0] > 3 * cycles[1]
