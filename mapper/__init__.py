"""Map neural networks onto many-core neuromorphic chips.

::

    import mapper

    net = mapper.import_network("model.graph")
    mapping = mapper.map_network(net, (16, 16), seed=1)
    mapping.core, mapping.x, mapping.y, mapping.metrics["hops_mean"]

    compiled = mapper.compile_model("model.onnx", "4x4", calibrate="samples.npz")
    compiled.simulate("test.npz").outputs

See docs/reference/python.md. Names are loaded on first use: importing this package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mapper.kernels.installation import prepare
from mapper.version import version

if TYPE_CHECKING:
    from chipsim.chip.model import Chip as Chip
    from mapper.api.checking import check as check
    from mapper.api.checking import score as score
    from mapper.api.checking import verify as verify
    from mapper.api.chips import chips as chips
    from mapper.api.chips import hw as hw
    from mapper.api.exporting import Exported as Exported
    from mapper.api.exporting import export as export
    from mapper.api.info import cache_info as cache_info
    from mapper.api.info import clear_cache as clear_cache
    from mapper.api.info import disassemble as disassemble
    from mapper.api.info import info as info
    from mapper.api.info import runs as runs
    from mapper.api.mapping import map_network as map_network
    from mapper.api.model_runs import simulate_model as simulate_model
    from mapper.api.models import compile_model as compile_model
    from mapper.api.network import Network as Network
    from mapper.api.networks import generate as generate
    from mapper.api.networks import import_network as import_network
    from mapper.api.networks import load as load
    from mapper.api.nir_graphs import from_nir as from_nir
    from mapper.api.nir_graphs import to_nir as to_nir
    from mapper.api.partitioning import partition as partition
    from mapper.api.placing import Placement as Placement
    from mapper.api.placing import place as place
    from mapper.api.plugins import plugins as plugins
    from mapper.api.reports import report as report
    from mapper.api.simulating import SimulatedTraffic as SimulatedTraffic
    from mapper.api.simulating import simulate as simulate
    from mapper.api.sweeping import SweepRuns as SweepRuns
    from mapper.api.sweeping import sweep as sweep
    from mapper.compiler.artifacts.compiled_network import CompiledNetwork as CompiledNetwork
    from mapper.compiler.artifacts.compiled_network import SimulatedNetwork as SimulatedNetwork
    from mapper.errors import CheckFailedError as CheckFailedError
    from mapper.errors import DoesNotFitError as DoesNotFitError
    from mapper.errors import MapperError as MapperError
    from mapper.errors import UsageError as UsageError
    from mapper.jobs.check import Checked as Checked
    from mapper.jobs.compile import CompileAnalysis as CompileAnalysis
    from mapper.jobs.hardware import Hardware as Hardware
    from mapper.jobs.info import FileInfo as FileInfo
    from mapper.jobs.plugins import InstalledPlugin as InstalledPlugin
    from mapper.jobs.runs import FinishedRuns as FinishedRuns
    from mapper.jobs.score import Scored as Scored
    from mapper.jobs.verify import Verified as Verified
    from mapper.partitions.result import GraphPartition as GraphPartition
    from mapper.result import NetworkMapping as NetworkMapping
    from mapper.spiking.artifacts.compiled_model import CompiledModel as CompiledModel
    from mapper.spiking.artifacts.compiled_model import SimulatedModel as SimulatedModel

    __version__: str

_PLACES = {
    "CheckFailedError": "mapper.errors",
    "Checked": "mapper.jobs.check",
    "Chip": "chipsim.chip.model",
    "CompileAnalysis": "mapper.jobs.compile",
    "CompiledModel": "mapper.spiking.artifacts.compiled_model",
    "CompiledNetwork": "mapper.compiler.artifacts.compiled_network",
    "DoesNotFitError": "mapper.errors",
    "Exported": "mapper.api.exporting",
    "FileInfo": "mapper.jobs.info",
    "FinishedRuns": "mapper.jobs.runs",
    "GraphPartition": "mapper.partitions.result",
    "Hardware": "mapper.jobs.hardware",
    "InstalledPlugin": "mapper.jobs.plugins",
    "MapperError": "mapper.errors",
    "Network": "mapper.api.network",
    "NetworkMapping": "mapper.result",
    "Placement": "mapper.api.placing",
    "Scored": "mapper.jobs.score",
    "SimulatedModel": "mapper.spiking.artifacts.compiled_model",
    "SimulatedNetwork": "mapper.compiler.artifacts.compiled_network",
    "SimulatedTraffic": "mapper.api.simulating",
    "SweepRuns": "mapper.api.sweeping",
    "UsageError": "mapper.errors",
    "Verified": "mapper.jobs.verify",
    "cache_info": "mapper.api.info",
    "check": "mapper.api.checking",
    "chips": "mapper.api.chips",
    "clear_cache": "mapper.api.info",
    "compile_model": "mapper.api.models",
    "disassemble": "mapper.api.info",
    "export": "mapper.api.exporting",
    "from_nir": "mapper.api.nir_graphs",
    "generate": "mapper.api.networks",
    "hw": "mapper.api.chips",
    "import_network": "mapper.api.networks",
    "info": "mapper.api.info",
    "load": "mapper.api.networks",
    "map_network": "mapper.api.mapping",
    "partition": "mapper.api.partitioning",
    "place": "mapper.api.placing",
    "plugins": "mapper.api.plugins",
    "report": "mapper.api.reports",
    "runs": "mapper.api.info",
    "score": "mapper.api.checking",
    "simulate": "mapper.api.simulating",
    "simulate_model": "mapper.api.model_runs",
    "sweep": "mapper.api.sweeping",
    "to_nir": "mapper.api.nir_graphs",
    "verify": "mapper.api.checking",
}

__all__ = [
    "CheckFailedError", "Checked", "Chip", "CompileAnalysis", "CompiledModel",
    "CompiledNetwork", "DoesNotFitError", "Exported", "FileInfo", "FinishedRuns",
    "GraphPartition", "Hardware", "InstalledPlugin", "MapperError", "Network", "NetworkMapping",
    "Placement", "Scored", "SimulatedModel", "SimulatedNetwork", "SimulatedTraffic",
    "SweepRuns", "UsageError", "Verified", "__version__", "cache_info", "check", "chips",
    "clear_cache", "compile_model", "disassemble", "export", "from_nir", "generate", "hw",
    "import_network", "info", "load", "map_network", "partition", "place", "plugins", "report",
    "runs", "score", "simulate", "simulate_model", "sweep", "to_nir", "verify",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version()
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _PLACES[name] != "mapper.errors":  # errors can be named where a package is hidden
        prepare()
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
