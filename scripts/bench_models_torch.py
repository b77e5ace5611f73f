"""Export torchvision models with random weights, as `torch.onnx.export` writes them by default.

    python scripts/bench_models_torch.py FOLDER SIZE NAME ...

Needs torch, torchvision and onnxscript only, so it may run in an environment without mapper. The
seed is fixed. Batch normalisation takes its statistics from a batch of random images: without
them, deep networks of random weights end in values near zero.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torchvision

IMAGES = 16


def random_model(name: str, size: int) -> torch.nn.Module:
    """A model of torchvision in evaluation mode."""
    torch.manual_seed(0)
    words = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    model: torch.nn.Module = getattr(torchvision.models, name)(weights=None, **words)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None  # the mean of all batches, here of one
    with torch.no_grad():
        model.train()(torch.randn(IMAGES, 3, size, size))
    return model.eval()


def main() -> int:
    folder, size = Path(sys.argv[1]), int(sys.argv[2])
    for name in sys.argv[3:]:
        model = random_model(name, size)
        image = torch.randn(1, 3, size, size)
        path = folder / f"{name}.onnx"
        torch.onnx.export(model, (image,), path, external_data=False, verbose=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
