"""Map neural networks onto many-core neuromorphic chips.

::

    import mapper

    mapping = mapper.map_network("net.bin", "16x16", seed=1)
    mapping.core, mapping.x, mapping.y, mapping.metrics["hops_mean"]

    compiled = mapper.compile_model("model.nir", "2x2", calibrate="spikes.npz", tick_length=1e-3)
    compiled.simulate("test.npz").outputs

See docs/reference/python.md. Names are loaded on first use: importing this package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mapper.kernels.installation import prepare

if TYPE_CHECKING:
    from chipsim.chip.model import Chip as Chip
    from mapper.api.mapping import map_network as map_network
    from mapper.api.models import compile_model as compile_model
    from mapper.errors import DoesNotFitError as DoesNotFitError
    from mapper.errors import MapperError as MapperError
    from mapper.errors import UsageError as UsageError
    from mapper.result import NetworkMapping as NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel as CompiledModel
    from mapper.spiking.artifacts.compiled_model import SimulatedModel as SimulatedModel

_PLACES = {
    "Chip": "chipsim.chip.model",
    "CompiledModel": "mapper.spiking.artifacts.compiled_model",
    "DoesNotFitError": "mapper.errors",
    "MapperError": "mapper.errors",
    "NetworkMapping": "mapper.result",
    "SimulatedModel": "mapper.spiking.artifacts.compiled_model",
    "UsageError": "mapper.errors",
    "compile_model": "mapper.api.models",
    "map_network": "mapper.api.mapping",
}

__all__ = [
    "Chip", "CompiledModel", "DoesNotFitError", "MapperError", "NetworkMapping", "SimulatedModel",
    "UsageError", "compile_model", "map_network",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    prepare()
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
