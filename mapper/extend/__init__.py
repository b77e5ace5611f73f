"""Interfaces of plugins: formats, placers, chips and exports that other packages add.

::

    from mapper.extend import FileFormat, Importer

    PAIRS = FileFormat(Importer("pairs", "pairs of neurons", (".pairs",), "my_package.pairs"))

An entry point in one of the groups `mapper.formats`, `mapper.placers`, `mapper.chips` and
`mapper.exports` names the object; docs/howto/extend.md has an example. The functions `check_...`
are the contracts that the built-in objects pass: call them in the tests of your package. Names are
loaded on first use: importing this package is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mapper.kernels.installation import prepare

if TYPE_CHECKING:
    from chipsim.chip.model import Chip as Chip
    from mapper.errors import MapperError as MapperError
    from mapper.exports.base import MappedRun as MappedRun
    from mapper.exports.base import MappingExporter as MappingExporter
    from mapper.extend.chips import check_chip as check_chip
    from mapper.extend.contract import ContractError as ContractError
    from mapper.extend.exports import check_mapping_exporter as check_mapping_exporter
    from mapper.extend.formats import check_exporter as check_exporter
    from mapper.extend.formats import check_importer as check_importer
    from mapper.extend.placers import check_placer as check_placer
    from mapper.placement.placer import Placed as Placed
    from mapper.placement.placer import Placer as Placer
    from mapper.placement.placer import Problem as Problem
    from storage.budget import require_room as require_room
    from storage.errors import BadInputError as BadInputError
    from storage.files import PartialFile as PartialFile
    from storage.formats.base import Exporter as Exporter
    from storage.formats.base import FileFormat as FileFormat
    from storage.formats.base import Importer as Importer
    from storage.formats.base import ImportJob as ImportJob
    from storage.formats.edges import edge_blocks as edge_blocks
    from storage.formats.edges import real_weights as real_weights
    from storage.formats.losses import Loss as Loss
    from storage.store.meta import NetworkMeta as NetworkMeta
    from storage.store.network import NetworkFile as NetworkFile

_PLACES = {
    "BadInputError": "storage.errors",
    "Chip": "chipsim.chip.model",
    "ContractError": "mapper.extend.contract",
    "Exporter": "storage.formats.base",
    "FileFormat": "storage.formats.base",
    "ImportJob": "storage.formats.base",
    "Importer": "storage.formats.base",
    "Loss": "storage.formats.losses",
    "MappedRun": "mapper.exports.base",
    "MapperError": "mapper.errors",
    "MappingExporter": "mapper.exports.base",
    "NetworkFile": "storage.store.network",
    "NetworkMeta": "storage.store.meta",
    "PartialFile": "storage.files",
    "Placed": "mapper.placement.placer",
    "Placer": "mapper.placement.placer",
    "Problem": "mapper.placement.placer",
    "check_chip": "mapper.extend.chips",
    "check_exporter": "mapper.extend.formats",
    "check_importer": "mapper.extend.formats",
    "check_mapping_exporter": "mapper.extend.exports",
    "check_placer": "mapper.extend.placers",
    "edge_blocks": "storage.formats.edges",
    "real_weights": "storage.formats.edges",
    "require_room": "storage.budget",
}

__all__ = [
    "BadInputError", "Chip", "ContractError", "Exporter", "FileFormat", "ImportJob", "Importer",
    "Loss", "MappedRun", "MapperError", "MappingExporter", "NetworkFile", "NetworkMeta",
    "PartialFile", "Placed", "Placer", "Problem", "check_chip", "check_exporter", "check_importer",
    "check_mapping_exporter", "check_placer", "edge_blocks", "real_weights", "require_room",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    prepare()
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
