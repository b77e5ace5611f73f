"""Real ONNX models: counts derived from their shapes and weights alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.formats import import_network
from storage.formats.layers.linear import row_blocks
from storage.formats.layers.onnxbuild import Builder
from storage.formats.layers.onnxgraph import Model
from storage.formats.layers.onnxops import OPERATORS

pytest.importorskip("onnx", reason="ONNX models need onnx")


def slots(size: int, kernel: int, before: int, after: int, stride: int = 1) -> int:
    """Return the number of (window, input) pairs along one axis."""
    starts = range(-before, size + after - kernel + 1, stride)
    return sum(0 <= start + k < size for start in starts for k in range(kernel))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "neurons", "synapses"),
    [
        (
            "mnist-8.onnx",
            784 + 8 * 784 + 8 * 196 + 16 * 196 + 16 * 16 + 10,
            8 * slots(28, 5, 2, 2) ** 2 + 8 * 784 + 16 * 8 * slots(14, 5, 2, 2) ** 2
            + 16 * slots(14, 3, 0, 0, 3) ** 2 + 256 * 10,
        ),
        (
            "mnist_pytorch_ort.onnx",
            784 + 10 * 24**2 + 10 * 12**2 + 20 * 8**2 + 20 * 4**2 + 50 + 10,
            10 * slots(28, 5, 0, 0) ** 2 + 10 * 24**2 + 20 * 10 * slots(12, 5, 0, 0) ** 2
            + 20 * 8**2 + 320 * 50 + 50 * 10,
        ),
        ("tfc_1w1a.onnx", 784 + 3 * 64 + 10, 784 * 64 + 2 * 64 * 64 + 64 * 10),
    ],
)  # fmt: skip
def test_real_models(
    data_dir: Path, tmp_path: Path, name: str, neurons: int, synapses: int
) -> None:
    source = data_dir / "models" / name
    if not source.exists():
        pytest.skip(f"models/{name} is missing")
    meta = import_network(source, tmp_path / "net.bin")
    assert meta.neurons == neurons
    assert meta.synapses + meta.provenance["weights_zero"] == synapses
    assert meta.repeated == meta.self_loops == 0


@pytest.mark.parametrize("kind", ["pc_QDQ", "pt_QOperator"])
def test_residual_networks(data_dir: Path, kind: str) -> None:
    """Check only the layers: writing eleven million synapses would take long."""
    source = data_dir / "models" / f"mlperf_resnet8_{kind}.onnx"
    if not source.exists():
        pytest.skip(f"{source.name} is missing")
    builder = Builder(Model(source), OPERATORS, 1 << 30)
    sizes = [3 * 1024, *[16 * 1024] * 4, *[32 * 256] * 4, *[64 * 64] * 4, 64, 10]
    assert builder.neurons == sum(sizes)
    same = {size: slots(size, 3, 1, 1) ** 2 for size in (32, 16, 8)}
    half = {size: slots(size, 3, 0, 1, 2) ** 2 for size in (32, 16)}
    synapses = (
        3 * 16 * same[32] + 2 * 16 * 16 * same[32] + 2 * 16 * 1024
        + 16 * 32 * half[32] + 32 * 32 * same[16] + 16 * 32 * 256 + 2 * 32 * 256
        + 32 * 64 * half[16] + 64 * 64 * same[8] + 32 * 64 * 64 + 2 * 64 * 64
        + 64 * 64 + 64 * 10
    )  # fmt: skip
    found = sum(
        join.layer.rows(wanted).nnz
        for join in builder.joins
        for wanted in row_blocks(join.layer.outputs, join.layer.fan_in)
    )
    assert found == synapses
