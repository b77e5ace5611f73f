"""Where the numbers of the presets come from.

What a paper states is cited; what this tool chose is said to be its own model.
"""

from __future__ import annotations

from chipsim.chip.model import Chip

_ENERGIES, _LATENCIES = ("energy_router", "energy_link"), ("latency_router", "latency_link")

ABOUT = {
    "loihi": "a Loihi chip: 128 cores, each with a router of its own",
    "loihi64": "cores of Loihi, on a larger mesh",
    "truenorth": "a TrueNorth chip; its costs are in relative units",
    "mesh84": "a large mesh for studies, in relative units",
    "mesh1024": "a mesh of a million cores for studies, in relative units",
}
"""The presets in a few words."""

_DAVIES = "Davies et al., IEEE Micro 38(1), 2018"
_OWN = "this tool's model"
_RELATIVE = dict.fromkeys((*_ENERGIES, *_LATENCIES), f"{_OWN}, of no particular chip")
_LOIHI = {
    "neurons": f"{_DAVIES}, p. 89, constraint 1: compartments of a core",
    "synapses": f"{_DAVIES}, p. 89, constraint 2: 128 KB of synaptic memory, which is 1,048,576 "
    "synapses in the densest format of 1 bit (p. 95) and fewer in any other",
    "axons_in": f"{_DAVIES}, p. 89, constraint 4: distribution lists of a core",
    "axons_out": f"{_DAVIES}, p. 89, constraint 3: core-to-core fan-out edges of a core",
    "delivery": f"{_DAVIES}, the mesh has unicast only, cores send a packet per destination",
    "energy_router": f"{_DAVIES}, table 2: spike within a tile",
    "energy_link": f"{_DAVIES}, table 2: a tile hop, the mean of east-west (3.0) and north-south "
    "(4.0), less the router that the hop leads to",
    "latency_router": f"{_DAVIES}, table 2: spike within a tile",
    "latency_link": f"{_DAVIES}, table 2: a tile hop, the mean of east-west (4.1) and north-south "
    "(6.5), less the router that the hop leads to",
}
_MESH = f"{_OWN}: four cores of a tile share a router on the chip, here each has one"
_MEROLLA = "Merolla et al., Science 345, 2014"
_AKOPYAN = "Akopyan et al., IEEE TCAD 34(10), 2015"
_SIZES = ("width", "height", "neurons", "axons_in")
_STUDY = dict.fromkeys(_SIZES, f"{_OWN}, of no particular chip")
SOURCES: dict[str, dict[str, str]] = {
    "loihi": {"width": _MESH, "height": _MESH, **_LOIHI},
    "loihi64": {"width": f"{_OWN}: no such chip", "height": f"{_OWN}: no such chip", **_LOIHI},
    "truenorth": {
        **dict.fromkeys(("width", "height"), f"{_AKOPYAN}, section V-A: 64x64 cores"),
        "neurons": f"{_AKOPYAN}, figure 1: neurons of a core",
        "synapses": f"{_MEROLLA}, figure 2: crossbar of 256 axons by 256 neurons",
        "axons_in": f"{_AKOPYAN}, figure 1: axons of a core; one axon a source neuron is {_OWN}",
        "axons_out": f"{_AKOPYAN}, section V-E: each of 256 neurons has one destination",
        "delivery": f"{_AKOPYAN}, section V-E: a packet to the one core that a neuron is for",
        **_RELATIVE,
    },
    "mesh84": _STUDY | _RELATIVE,
    "mesh1024": _STUDY | _RELATIVE,
}
"""Of each preset, the source of each field that it sets."""

_ABSOLUTE = ("loihi", "loihi64")


def unit_of(chip: str, field: str) -> str:
    """The unit of a field of the preset `chip`, of others as well; empty where it has none."""
    if field in ("width", "height"):
        return "cores"
    if field in _ENERGIES:
        return "pJ" if chip in _ABSOLUTE else "relative units"
    if field in _LATENCIES:
        return "ns" if chip in _ABSOLUTE else "relative units"
    return field if field in ("neurons", "synapses") else ""


def source_of(chip: Chip, field: str, presets: dict[str, Chip]) -> str:
    """The source of a field's value; empty unless it is still that of the preset of that name."""
    preset = presets.get(chip.name)
    if preset is None or preset.to_json().get(field) != chip.to_json().get(field):
        return ""
    return SOURCES[chip.name].get(field, "")
