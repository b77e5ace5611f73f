"""Small binary networks as graphs of the compiler."""

from __future__ import annotations

import numpy as np

from mapper.compiler.ir.node import Affine, Conv, Sign, Window
from mapper.compiler.ir.tensor import Tensor
from mapper.compiler.numerics.binary import signs
from tests.compiler.networks import SAME, Builder


class BinaryBuilder(Builder):
    """Builds signs, and layers whose kernels are +a and -a."""

    def sign(self, data: Tensor) -> Tensor:
        return self.like(Sign(), data)

    def binary(
        self, data: Tensor, outputs: int, window: Window = SAME, alpha: bool = True
    ) -> Tensor:
        shape = (outputs, *window.size, data.channels)
        magnitude = self.random.uniform(0.01, 2, outputs) if alpha else np.ones(outputs)
        weights = signs(self.random.normal(0, 1, shape)) * magnitude.reshape(-1, 1, 1, 1)
        rows, columns = window.results(data.height, data.width)
        return self.node(Conv(window), [data, self.constant(weights)], (rows, columns, outputs))

    def normalised(self, data: Tensor, spread: float) -> Tensor:
        """Add batch normalisation that includes negative and zero factors."""
        factor = self.random.normal(0, 1, data.channels)
        factor[:: max(5, data.channels // 3)] = 0
        offset = self.random.normal(0, spread, data.channels)
        return self.node(
            Affine(), [data, self.constant(factor), self.constant(offset)], data.shape[1:]  # type: ignore[arg-type]
        )  # fmt: skip
