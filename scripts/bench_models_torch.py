"""Export torchvision models with random weights, with the defaults of `torch.onnx.export`.

    python scripts/bench_models_torch.py FOLDER SIZE NAME ...

Requires only torch, torchvision and onnxscript, so it can run in an environment without mapper.
The seed is fixed. Batch normalisation uses the statistics of a batch of random images: without
them, outputs of deep networks with random weights are close to zero.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torchvision

IMAGES = 16


def random_model(name: str, size: int) -> torch.nn.Module:
    """Return a torchvision model in evaluation mode."""
    torch.manual_seed(0)
    words = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    model: torch.nn.Module = getattr(torchvision.models, name)(weights=None, **words)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = None  # mean of all batches, here one
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
