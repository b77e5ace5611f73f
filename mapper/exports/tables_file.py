"""Schema of `x.tables.json`: the tables of the hardware's cores, field by field."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from storage.typed import Whole

Bit = Annotated[int, Meta(ge=0, le=1)]
Profile = tuple[Whole, Whole, Whole, Whole, Bit, Bit]
Parameters = tuple[Whole, int, int, int, int]
State = tuple[int, int, Whole]
Route = tuple[Whole, Whole, Whole]
SynapseList = tuple[Whole, Whole, Whole]
Synapse = tuple[Whole, int, Whole]


class TableFields(Struct):
    """Names of the columns of each list."""

    profiles: list[str]
    parameters: list[str]
    states: list[str]
    routes: list[str]
    lists: list[str]
    synapses: list[str]


class CoreTable(Struct, kw_only=True):
    """Lists of a core, and its words for the load port."""

    core: Annotated[Whole, Meta(description="id, y * width + x")]
    x: Annotated[Whole, Meta(description="column, from 0")]
    y: Annotated[Whole, Meta(description="row, from 0")]
    neurons: Annotated[
        list[Whole], Meta(description="ids in the network, by their number in the core")
    ]
    axons: Annotated[list[Whole], Meta(description="ids in the network of the sources, by axon")]
    profiles: Annotated[
        list[Profile],
        Meta(
            description="dynamics that neurons share: current_decay, potential_decay, shift, "
            "refractory, subtract, silent"
        ),
    ]
    parameters: Annotated[
        list[Parameters],
        Meta(description="of each neuron: profile, threshold, reset, current_bias, potential_bias"),
    ]
    states: Annotated[
        list[State],
        Meta(description="of each neuron, before the first tick: current, potential, waits"),
    ]
    route_indptr: Annotated[
        list[Whole],
        Meta(description="routes of neuron i: rows route_indptr[i] to route_indptr[i+1] - 1"),
    ]
    routes: Annotated[
        list[Route], Meta(description="a packet for each spike: x, y of a core, and its axon")
    ]
    lists: Annotated[
        list[SynapseList],
        Meta(
            description="of each axon: first synapse, number of synapses, and the base that is "
            "added to their neurons"
        ),
    ]
    synapses: Annotated[
        list[Synapse],
        Meta(description="neuron in the core less the base, signed weight, delay in ticks"),
    ]
    exponents: (
        Annotated[
            list[int],
            Meta(
                description="of each neuron: weight = round(weight of the model times 2^exponent); "
                "thresholds, biases and states have `shift` bits more"
            ),
        ]
        | UnsetType
    ) = UNSET
    scales: (
        Annotated[
            list[float],
            Meta(
                description="of each neuron of a compiled spiking model, in place of `exponents`: "
                "weight = round(weight of the model times scale)"
            ),
        ]
        | UnsetType
    ) = UNSET
    load: Annotated[str, Meta(description="words for the load port in hexadecimal, in write order")]


class HostTable(Struct):
    """Packets that cores send to the host, for spikes of the outputs."""

    x: Annotated[Whole, Meta(description="column that they are sent to")]
    y: Annotated[Whole, Meta(description="row that they are sent to, below the last one")]
    axons: Annotated[
        list[Whole], Meta(description="ids in the network of the neurons that spike, by axon")
    ]


class TablesHead(Struct, kw_only=True):
    """Fields common to all cores."""

    schema: Literal[2]
    width: Annotated[Whole, Meta(description="columns of the mesh")]
    height: Annotated[Whole, Meta(description="rows of the mesh")]
    shape: Annotated[
        dict[str, Whole], Meta(description="depths of a core's memories and bits of its numbers")
    ]
    load_port: Annotated[
        dict[str, tuple[Whole, Whole]],
        Meta(description="first bit and width of each field of a word for the load port"),
    ]
    fields: TableFields
    weights: Annotated[
        str,
        Meta(
            pattern="^(synaptic|as stored|magnitudes)$",
            description="synaptic weights; numbers of unknown kind; numbers of another kind",
        ),
    ]
    left_out: Annotated[
        dict[str, Whole],
        Meta(description="counts of rounded or unsupported parts of the model, by kind"),
    ]
    inputs: Annotated[
        list[Whole], Meta(description="ids of the neurons that spike only on external input")
    ]
    input_packets: (
        Annotated[
            list[list[Route]],
            Meta(
                description="of each input of a compiled spiking model: the packets that the host "
                "sends when it spikes"
            ),
        ]
        | UnsetType
    ) = UNSET
    host: (
        Annotated[
            HostTable,
            Meta(description="of a compiled spiking model: packets for the host at the output"),
        ]
        | UnsetType
    ) = UNSET


class Tables(TablesHead, kw_only=True):
    """Tables of a mapped network for the hardware's cores."""

    cores: list[CoreTable]
