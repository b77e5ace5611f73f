"""Titles, groups and meanings of the metrics of a mapping, by their names in report.json."""

from __future__ import annotations

CAST, MANY, TICK, MACHINE, WAY = "core.", "multicast.", "tick_", "machine.", "noc_latency."
ENERGY = "energy_parts."


def _link_loads(prefix: str, word: str) -> dict[str, tuple[str, str]]:
    """Return title and meaning of the loads of links and routers, of a kind of packets."""
    return {
        f"{prefix}link_load_max": (f"{word} link load, max", "of the busiest link"),
        f"{prefix}link_load_p99": (f"{word} link load, p99", "one link in a hundred carries more"),
        f"{prefix}link_load_mean": (f"{word} link load, mean", "over all links of the chip"),
        f"{prefix}router_load_max": (f"{word} router load, max", "of the busiest router"),
        f"{prefix}router_load_mean": (f"{word} router load, mean", "over all routers"),
    }


METRICS: dict[str, tuple[str, str]] = {
    "hops_mean": ("Hops, mean", "links crossed by traffic, averaged over all traffic"),
    "hops_max": ("Hops, max", "links between the two farthest communicating cores"),
    "hops_total": ("Hops", "traffic times hops, over all synapses"),
    "cut_fraction": ("Cut fraction", "share of the traffic that leaves its core"),
    "cut_weight": ("Cut", "traffic between different cores"),
    "link_load_max": ("Link load, max", "traffic on the busiest link, per unit of time"),
    "link_load_p99": ("Link load, p99", "one link in a hundred carries more"),
    "link_load_mean": ("Link load, mean", "over all links of the chip, including idle ones"),
    "router_load_max": ("Router load, max", "traffic through the busiest router"),
    "router_load_mean": ("Router load, mean", "over all routers"),
    "congestion_max": ("Router congestion, max", "the same, averaged over all shortest paths"),
    "congestion_mean": ("Router congestion, mean", "over all routers and all shortest paths"),
    "congestion_share": ("Router congestion, sample", "share of the core pairs in the sample"),
    "congestion_pairs": ("Router congestion, core pairs", "number of core pairs in the sample"),
    "energy": ("NoC energy", "of traffic between cores, one packet per synapse; cores excluded"),
    "latency_mean": ("Latency, mean", "of a packet between cores, on an idle mesh"),
    "latency_max": ("Latency, max", "between the two farthest communicating cores"),
    "cores_used": ("Cores used", "cores that hold a neuron"),
    "core_fill_mean": ("Core fill, mean", "neuron size over capacity, of the cores used"),
    "core_fill_max": ("Core fill, max", "of the fullest core"),
    ENERGY + "network": ("Network", "routers and links, for the packets of the chip's delivery"),
    ENERGY + "events": ("Synaptic events", "spikes times the synapses that they reach"),
    ENERGY + "neurons": ("Neuron updates", "of every neuron in every tick"),
    ENERGY + "sum": ("Sum", "of the known parts"),
    "copies": ("Copies of neurons", "of neurons that reach several cores"),
    "list_words": ("List words", "synapses stored, equal lists of a core once"),
    "memory_fill_mean": ("Memory fill, mean", "bits for synapses over the memory of a core"),
    "memory_fill_max": ("Memory fill, max", "of the core with the fullest memory"),
    MACHINE + "cost_total": ("Cost", "traffic times cost of distance in the machine"),
    MACHINE + "cost_mean": ("Cost, mean", "averaged over all traffic"),
    MACHINE + "cost_max": ("Cost, max", "between the two farthest communicating cores"),
    MACHINE + "crossings_chips": ("Chip crossings", "traffic times chip boundaries crossed"),
    MACHINE + "crossings_boards": ("Board crossings", "traffic times board boundaries crossed"),
    MACHINE + "crossing_load_max": ("Busiest crossing", "largest load of such a link / bandwidth"),
    CAST + "cost_total": ("Core-cast cost", "packets to cores times cost"),
    CAST + "crossings_chips": ("Core-cast chip crossings", "of packets to cores"),
    CAST + "crossings_boards": ("Core-cast board crossings", "of packets to cores"),
    CAST + "crossing_load_max": ("Core-cast, busiest crossing", "load / bandwidth"),
    MANY + "cost_total": ("Tree cost", "links of the trees times cost"),
    MANY + "crossings_chips": ("Tree chip crossings", "of multicast trees"),
    MANY + "crossings_boards": ("Tree board crossings", "of multicast trees"),
    MANY + "crossing_load_max": ("Trees, busiest crossing", "load / bandwidth"),
    MACHINE + "cut_tiles": ("Between tiles", "traffic between different tiles"),
    MACHINE + "cut_chips": ("Between chips", "traffic between different chips"),
    MACHINE + "cut_boards": ("Between boards", "traffic between different boards"),
    TICK + "cycles": ("Cycles per tick", "of the slowest core, link or queue, at mean activity"),
    TICK + "bounds.neurons": ("Neurons", "cycles of neuron updates on the slowest core"),
    TICK + "bounds.packets_out": ("Packets out", "cycles of sending on the slowest core"),
    TICK + "bounds.events": (
        "Synaptic events",
        "cycles of receiving packets and adding events on the slowest core",
    ),
    TICK + "bounds.links": ("Links", "cycles of flits on the busiest link"),
    TICK + "bounds.queues": ("Queues", "cycles until the last input of a router is empty"),
    WAY + "mean": ("NoC latency, mean", "cycles per packet with queueing, for even traffic"),
    WAY + "unloaded": ("NoC latency, unloaded", "cycles per packet without queueing"),
    WAY + "load_max": ("Link utilisation, max", "busy share of the busiest link or port"),
    CAST + "packets": ("Packets to cores", "other cores that a neuron reaches, times its rate"),
    CAST + "hops_total": ("Core-cast hops", "links crossed by these packets"),
    **_link_loads(CAST, "Core-cast"),
    MANY + "connectivity": ("Connectivity", "other cores that a neuron reaches, times its rate"),
    MANY + "hops_total": ("Tree hops", "links of the tree of a neuron, times its rate"),
    MANY + "unicast_hops_total": (
        "Hops as unicast",
        "the same rates with one packet per synapse, for comparison",
    ),
    **_link_loads(MANY, "Tree"),
}
"""Title and meaning of every metric, by its name in report.json."""

MEMORY = ("memory_fill_mean", "memory_fill_max")  # chips with a memory size only
SOME = ("copies", "list_words", *MEMORY)  # some chips only
SAMPLED = ("congestion_share", "congestion_pairs")  # large chips only
FILLS = ("core_fill_mean", "core_fill_max")
SHARES = ("cut_fraction", "congestion_share", *FILLS, WAY + "load_max", *MEMORY)
CORES = ("cores_used", *FILLS)
TRAFFIC = "traffic"  # replaced by the unit of traffic, see `mapper.reporting.figures`
KEY: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "hops_mean": ("Mean hops", (("hops_max", "max"),)),
    "cut_fraction": ("Cut", (("cut_weight", TRAFFIC),)),
    "link_load_max": ("Busiest link", (("link_load_mean", "mean"),)),
    "router_load_max": ("Busiest router", (("router_load_mean", "mean"),)),
    "cores_used": ("Cores used", (("core_fill_mean", "mean fill"),)),
    "energy": ("NoC energy", ()),
    "latency_mean": ("Latency", (("latency_max", "max"),)),
    MACHINE + "cost_mean": (
        "Mean cost",
        (
            (MACHINE + "cost_max", "max"),
            (MACHINE + "crossings_chips", "chip crossings"),
            (MACHINE + "crossing_load_max", "busiest crossing"),
        ),
    ),
    TICK + "cycles": (
        "Cycles per tick",
        (
            (TICK + "bounds.neurons", "neurons"),
            (TICK + "bounds.packets_out", "packets out"),
            (TICK + "bounds.events", "events"),
            (TICK + "bounds.links", "links"),
            (TICK + "bounds.queues", "queues"),
        ),
    ),
    WAY + "mean": (
        "NoC latency",
        ((WAY + "unloaded", "without queueing"), (WAY + "load_max", "link utilisation")),
    ),
    CAST + "hops_total": (
        "Core-cast hops",
        ((CAST + "packets", "packets"), (CAST + "link_load_max", "busiest link")),
    ),
    MANY + "hops_total": (
        "Multicast hops",
        ((MANY + "unicast_hops_total", "as unicast"), (MANY + "link_load_max", "busiest link")),
    ),
}
"""Large figures: their title, and the smaller figures shown with them."""
MEANING = {
    "hops_mean": "Links that {a_packet} crosses, averaged over all traffic; traffic "
    "within a core counts as 0.",
    "cut_fraction": "The share of the traffic that leaves its core and loads the mesh.",
    "link_load_max": "{Traffic} per unit of time on the busiest link with XY routing. It limits "
    "the speed of the mesh.",
    "router_load_max": "{Traffic} per unit of time through the busiest router with XY routing.",
    "cores_used": "Cores that hold at least one neuron, and their mean fill.",
    "energy": "Energy of the network-on-chip, routers and links, per unit of time, for {traffic} "
    "between cores with one packet per synapse. Cores are not included. "
    "{energy_unit}.",
    "latency_mean": "Time of a packet from core to core on an idle mesh, in the unit of the "
    "chip's constants: ns for chips with Loihi cores.",
    MACHINE + "cost_mean": "Cost of the distance between two cores by the coordinates of the "
    "machine, averaged over all traffic. Placement and refinement minimise it.",
    TICK + "cycles": "Duration of a time step until its last packet has arrived, at mean rates: "
    "the largest of these bounds, each for the slowest core or link.",
    WAY + "mean": "Mean cycles of a packet from core to core if the packets of a tick are spread "
    "evenly over it: one cycle, its hops, and queueing. Not estimated if the busiest link is "
    "more than 60 % busy; run mapper simulate.",
    CAST + "hops_total": "Links crossed when a neuron sends a packet to each core that it reaches, "
    "times the rates of the neurons ({rate}).",
    MANY + "hops_total": "Links crossed when a neuron sends one packet that branches on its way to "
    "all cores that it reaches, times the rates of the neurons ({rate}). For comparison: the "
    "same rates with one packet per synapse.",
}
