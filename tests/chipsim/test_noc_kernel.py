"""The flit-level kernel against its reference implementation, packet for packet, and invariants."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from chipsim.chip.machine import Block, Machine, Torus
from chipsim.chip.model import Chip
from chipsim.errors import ChipError
from chipsim.noc.deliver import Delivery, deliver
from chipsim.noc.demand import Demand
from chipsim.noc.kernel import NEVER, _next, _uniform
from chipsim.noc.mesh import MAX_SLOTS, LinkTiming, Mesh, MeshRun, new_tally
from chipsim.traffic.links import loads_of, route_flows
from tests.chipsim.faulty_chips import CHIPS, faulty_chip, ports_of_routes
from tests.chipsim.noc_cases import SHAPES, random_links, random_packets, slow_links, torus_of
from tests.reference.noc import EAST, LOCAL, NORTH, SOUTH, WEST, Packet, Twin, simulate

# Random numbers are modulo 2^64; with the JIT off numpy warns about that.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

Whole = NDArray[np.int64]


def sent(mesh: Mesh, packets: list[Packet], **options: Any) -> Delivery:
    created, source, target = np.array(packets, dtype=np.int64).reshape(-1, 3).T
    return deliver(mesh, created, source, target, **options)


def analytic(mesh: Mesh, source: Whole, target: Whole, weight: Whole) -> list[Any]:
    """Return the link loads of the model that only adds up routes."""
    machine = Machine(*mesh.sides, mesh.torus, tile=Block(*mesh.tile, 0.0))
    chip = Chip("mesh", *mesh.sides, machine=machine)
    flows = source.astype(np.int32), target.astype(np.int32), weight.astype(np.int64)
    return loads_of(route_flows(chip, *flows)[0]).tolist()


@pytest.mark.sample(9)
@pytest.mark.parametrize("seed", range(60))
def test_deliveries_match_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = Mesh(int(rng.integers(1, 6)), int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    shape = SHAPES[seed % len(SHAPES)]
    cycles = int(rng.choice([1, 6, 40, 3000]))  # from all at once to very few
    packets = random_packets(rng, mesh, shape, int(rng.integers(0, 150)), cycles)
    found = sent(mesh, packets)
    twin = Twin(mesh.width, mesh.height, mesh.depth, packets)
    while -1 in twin.delivered:
        twin.step()
    assert found.delivered.tolist() == twin.delivered
    assert found.cycles == max(twin.delivered, default=-1) + 1
    for d, port in enumerate((EAST, WEST, SOUTH, NORTH)):
        for y, x in product(range(mesh.height), range(mesh.width)):
            assert found.links[d, y, x] == twin.links[x, y, port]
    assert sum(n for (_, _, port), n in twin.links.items() if port == LOCAL) == len(packets)


def require_equal_deliveries(
    rng: np.random.Generator, mesh: Mesh, seed: int, most: int, torus: Torus = ""
) -> None:
    """Compare deliveries and links of fewer than `most` random packets with the reference."""
    cycles = int(rng.choice([1, 6, 40, 3000]))
    packets = random_packets(
        rng, mesh, SHAPES[seed % len(SHAPES)], int(rng.integers(0, most)), cycles
    )
    found = sent(mesh, packets)
    slow = {} if mesh.links is None else slow_links(mesh)
    twin = Twin(mesh.width, mesh.height, mesh.depth, packets, slow, mesh.tile, torus)
    while -1 in twin.delivered:
        twin.step()
    assert found.delivered.tolist() == twin.delivered
    routes = np.array(packets, dtype=np.int64).reshape(-1, 3)[:, 1:].T
    assert found.links.tolist() == analytic(mesh, *routes, np.ones(len(packets), dtype=np.int64))


@pytest.mark.sample(18)
@pytest.mark.parametrize("seed", range(60))
def test_deliveries_match_reference_with_tiles(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    sides, tile = rng.integers(1, 4, 2), (1 + seed % 3, 1 + seed % 2)
    mesh = Mesh(int(sides[0]), int(sides[1]), int(rng.integers(1, 6)), tile=tile)
    if seed % 4 == 0:
        mesh = replace(mesh, links=random_links(rng, mesh))
    require_equal_deliveries(rng, mesh, seed, 150)


@pytest.mark.heavy
@pytest.mark.sample(13)
@pytest.mark.parametrize("seed", range(90))
def test_deliveries_match_reference_on_a_torus(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    sides, tile = rng.integers(1, 7, 2), ((1, 1), (1, 1), (2, 1))[seed % 3]
    torus = cast(Torus, ("xy", "x", "xy", "y")[seed % 4])
    mesh = torus_of(int(sides[0]), int(sides[1]), torus, tile, int(rng.integers(2, 5)))
    if seed % 5 == 0:
        mesh = replace(mesh, links=random_links(rng, mesh))
    require_equal_deliveries(rng, mesh, seed, 250, torus)


@pytest.mark.sample(20)
@pytest.mark.parametrize("seed", range(CHIPS))
def test_every_packet_is_delivered_around_broken_links(seed: int) -> None:
    """With buffers of one flit, as fast as the reference, over the links that the scorer counts."""
    rng = np.random.default_rng([seed, 5])
    chip = faulty_chip(seed)
    mesh = Mesh.of(chip, 1 + seed % 3)
    usable = np.flatnonzero(chip.usable)
    count = int(rng.integers(1, 40 if seed % 2 else 150))
    cycles = int(rng.choice([1, 1, 6, 40, 3000]))
    source, target = usable[rng.integers(0, usable.size, (2, count))]
    created = rng.integers(0, cycles, count)
    packets = list(zip(created.tolist(), source.tolist(), target.tolist(), strict=True))
    found = sent(mesh, packets)
    slow = {} if mesh.links is None else slow_links(mesh)
    sides = mesh.width, mesh.height, mesh.depth
    twin = Twin(*sides, packets, slow, mesh.tile, mesh.torus, ports_of_routes(chip))
    while -1 in twin.delivered:
        twin.step()
    assert found.delivered.tolist() == twin.delivered
    flows = source.astype(np.int32), target.astype(np.int32), np.ones(count, np.int64)
    assert found.links.tolist() == loads_of(route_flows(chip, *flows)[0]).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_flits_on_a_torus_of_unequal_steps_match_the_scorer(seed: int) -> None:
    """The shorter way round is by cost, which chip boundaries change."""
    rng = np.random.default_rng([seed, 5])
    width, height = 2 * int(rng.integers(1, 5)), 3 * int(rng.integers(1, 3))
    cost = (float(rng.choice([0.0, 1.0, 2.5])), float(rng.choice([0.0, 1.0, 3.0])))
    ends = Block(2, 3, float(rng.choice([0.0, 5.0])), float(rng.choice([1.0, 0.4])))
    machine = Machine(width, height, "xy", cost, chip=ends, tile=Block(2, 1, 0.0))
    chip = Chip("torus", width, height, machine=machine)
    source, target = rng.integers(0, chip.cores, (2, 200))
    found = deliver(Mesh.of(chip), rng.integers(0, 90, 200), source, target)
    assert found.delivered.min() >= 0
    flows = source.astype(np.int32), target.astype(np.int32), np.ones(200, np.int64)
    assert np.array_equal(found.links, loads_of(route_flows(chip, *flows)[0]))


@pytest.mark.sample(4)
@pytest.mark.jit
@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("sides", [(8, 1), (1, 5), (5, 5), (3, 2), (2, 2)])
def test_full_rings_do_not_deadlock(sides: tuple[int, int], depth: int) -> None:
    """Every node progresses in 100,000 cycles of a load of 1, half of it across the rings."""
    mesh = torus_of(*sides, "xy", (1, 1), depth)
    across = (np.arange(mesh.nodes) + mesh.width // 2 + mesh.nodes // 2) % mesh.nodes
    demand = Demand.to_one(mesh, across, 1.0, 0.5)
    run = MeshRun(mesh, demand.feed(9), new_tally(mesh), (0, 100_000))
    before = np.zeros(mesh.nodes)
    for part in range(1, 21):
        run.until(5000 * part, 100_000)
        received = run.tally.passed.reshape(-1, 5)[:, LOCAL].copy()
        assert (received - before > 100).all()
        before = received


@pytest.mark.jit
def test_a_ring_without_bubble_deadlocks() -> None:
    """Eight routers that all send three steps on, when any flit may enter the ring."""
    mesh = torus_of(8, 1, "x", (1, 1), 2)
    demand = Demand.to_one(mesh, (np.arange(8) + 3) % 8, 1.0, 0.0)
    counts = []
    for bubble in (True, False):
        run = MeshRun(mesh, demand.feed(9), new_tally(mesh), (0, 10_000))
        if not bubble:
            run.routers.rings.enters[:] = 0
        run.until(5000, 10_000)
        before = run.tally.passed.copy()
        run.until(10_000, 10_000)
        counts.append(int((run.tally.passed - before).sum()))
    assert counts[0] > 5000 * mesh.nodes // 2
    assert counts[1] == 0


@pytest.mark.heavy
@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(60))
def test_deliveries_match_reference_with_unequal_links(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    mesh = Mesh(int(rng.integers(1, 6)), int(rng.integers(1, 6)), int(rng.integers(1, 6)))
    mesh = replace(mesh, links=random_links(rng, mesh))
    cycles = int(rng.choice([1, 6, 40, 3000]))
    packets = random_packets(
        rng, mesh, SHAPES[seed % len(SHAPES)], int(rng.integers(0, 150)), cycles
    )
    found = sent(mesh, packets)
    twin = Twin(mesh.width, mesh.height, mesh.depth, packets, slow_links(mesh))
    while -1 in twin.delivered:
        twin.step()
    assert found.delivered.tolist() == twin.delivered
    # For any timing of links, every packet crosses the links of its route.
    routes = np.array(packets, dtype=np.int64).reshape(-1, 3)[:, 1:].T
    expected = analytic(mesh, *routes, np.ones(len(packets), dtype=np.int64))
    assert found.links.tolist() == expected


@pytest.mark.jit
def test_without_load_links_add_their_latencies() -> None:
    rng = np.random.default_rng(3)
    mesh = Mesh(5, 4)
    mesh = replace(mesh, links=random_links(rng, mesh))
    assert mesh.links is not None
    pairs = [(a, b) for a in range(20) for b in range(20)]
    packets = [(1000 * i, a, b) for i, (a, b) in enumerate(pairs)]
    found = sent(mesh, packets)
    for (created, a, b), delivered in zip(packets, found.delivered.tolist(), strict=True):
        one = np.array([a]), np.array([b]), np.ones(1, np.int64)
        way = int((np.array(analytic(mesh, *one)) * mesh.links.latency).sum())
        assert delivered - created == 1 + way


@pytest.mark.parametrize("latency", [1, 9])
@pytest.mark.parametrize("cycles", [1.0, 2.5, 4.0])
def test_a_narrow_link_passes_its_share(latency: int, cycles: float) -> None:
    mesh = Mesh(2, 1)
    links = LinkTiming(np.full((4, 1, 2), latency), np.full((4, 1, 2), cycles))
    found = sent(replace(mesh, links=links), [(0, 0, 1)] * 100)
    # The first leaves in cycle 1, the last after 99 more flits.
    assert found.delivered.max() == 1 + int(np.ceil(99 * cycles)) + latency


def test_links_of_a_machine() -> None:
    """Across a chip boundary: its latency, plus the cycles of the parts of a flit."""
    chip = Chip("m", 4, 2, machine=Machine(4, 2, chip=Block(2, 2, 5.0, 0.3, 7)))
    mesh = Mesh.of(chip)
    assert mesh.links is not None
    assert mesh.links.latency[0].tolist() == [[1, 10, 1, 10]] * 2
    assert mesh.links.latency[1].tolist() == [[10, 1, 10, 1]] * 2
    assert mesh.links.cycles[0, 0].tolist() == [1, 1 / 0.3, 1, 1 / 0.3]
    assert mesh.links.held[0, 0].tolist() == [0, 2, 0, 2]
    assert sent(mesh, [(0, 0, 3)]).delivered.tolist() == [1 + 1 + 10 + 1]
    assert Mesh.of(Chip("m", 4, 2, machine=Machine(4, 2, chip=Block(2, 2, 5.0)))).links is None
    slow = Chip("m", 4, 2, machine=Machine(4, 2, chip=Block(2, 2, 5.0, 0.0005)))
    with pytest.raises(ChipError, match=r"takes 2000 cycles on a link; .* up to 1023"):
        Mesh.of(slow)


@pytest.mark.heavy
@pytest.mark.sample(0.5)
@pytest.mark.jit
def test_many_more_packets_match_reference() -> None:
    for seed in range(1000, 1040):
        rng = np.random.default_rng(seed)
        mesh = Mesh(int(rng.integers(1, 9)), int(rng.integers(1, 9)), int(rng.integers(1, 10)))
        packets = random_packets(rng, mesh, SHAPES[seed % len(SHAPES)], 600, 60)
        expected = simulate(mesh.width, mesh.height, mesh.depth, packets)
        assert sent(mesh, packets).delivered.tolist() == expected, seed


@pytest.mark.parametrize(
    "mesh",
    [
        Mesh(3, 3, 4), Mesh(3, 3, 1), Mesh(1, 1, 1), Mesh(1, 7, 2), Mesh(7, 1, 3), Mesh(4, 2, 2),
        Mesh(3, 2, 2, tile=(2, 1)), Mesh(2, 3, tile=(3, 2)), torus_of(5, 4, "xy", (1, 1), 2),
        torus_of(3, 5, "y", (1, 2), 4),
    ],
)  # fmt: skip
def test_unloaded_latency_is_hops_plus_one(mesh: Mesh) -> None:
    pairs = np.array(list(product(range(mesh.cores), repeat=2)))
    created = 7 + 100 * np.arange(len(pairs))
    found = deliver(mesh, created, *pairs.T)
    (y, to_y), (x, to_x) = (part.T for part in np.divmod(mesh.router[pairs], mesh.width))
    across, down = abs(x - to_x), abs(y - to_y)
    if "x" in mesh.torus:
        across = np.minimum(across, mesh.width - across)
    if "y" in mesh.torus:
        down = np.minimum(down, mesh.height - down)
    hops = across + down
    assert (found.delivered - created).tolist() == (hops + 1).tolist()


def test_cores_of_a_tile_share_ports_in_turns() -> None:
    mesh = Mesh(2, 1, tile=(2, 2))  # cores 0, 1, 4, 5 at one router, 2, 3, 6, 7 at the other
    assert mesh.router.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    # Within a tile a packet passes its router once; to the next tile, it takes a hop.
    assert sent(mesh, [(0, 0, 5), (50, 1, 1), (90, 4, 3)]).delivered.tolist() == [1, 51, 92]
    # Four cores, two packets each: 0, 1, 4, 5 twice, one per cycle.
    packets = [(0, core, 7) for core in (0, 1, 4, 5) for _ in range(2)]
    assert sent(mesh, packets).delivered.tolist() == [2, 6, 3, 7, 4, 8, 5, 9]
    # Core 1 sent last: the turn is after it.
    packets = [(0, 1, 7), (9, 0, 7), (9, 1, 7), (9, 4, 7)]
    assert sent(mesh, packets).delivered.tolist() == [2, 12, 13, 11]


def test_one_flit_per_cycle_leaves_and_reaches_a_node() -> None:
    line = sent(Mesh(2, 1, 2), [(0, 0, 1)] * 4)
    assert line.delivered.tolist() == [2, 3, 4, 5]
    both = sent(Mesh(3, 1, 2), [(0, 0, 1), (0, 2, 1)] * 3)  # the inputs take turns: east is first
    assert both.delivered.tolist() == [3, 2, 5, 4, 7, 6]


def test_an_input_of_one_flit_accepts_every_second_cycle() -> None:
    assert sent(Mesh(2, 1, 1), [(0, 0, 1)] * 4).delivered.tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize("seed", range(12))
def test_flits_on_links_are_the_analytic_link_loads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh = Mesh(int(rng.integers(1, 7)), int(rng.integers(1, 7)), int(rng.integers(1, 5)))
    if seed % 2:  # a permutation, several packets each
        source = np.arange(mesh.nodes)
        target = rng.permutation(mesh.nodes)
    else:
        source, target = rng.integers(0, mesh.nodes, (2, 30))
    weight = rng.integers(1, 6, len(source))
    packets = np.repeat(np.arange(len(source)), weight)
    found = deliver(mesh, rng.integers(0, 20, len(packets)), source[packets], target[packets])
    assert found.links.tolist() == analytic(mesh, source, target, weight)
    assert found.delivered.min() >= 0


def check_order(packets: tuple[Whole, Whole, Whole], delivered: Whole) -> None:
    """Require that packets of a flow arrive one by one, in the order of entry."""
    created, source, target = packets
    order = np.lexsort((created, target, source))
    flow = source[order] * (target.max() + 1) + target[order]
    same = flow[1:] == flow[:-1]
    steps = np.diff(delivered[order])
    assert (steps[same] > 0).all()


@pytest.mark.sample(5)
@pytest.mark.jit
@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("load", [0.05, 0.3, 0.45, 1.0])
@pytest.mark.parametrize("tile", [(1, 1), (2, 2)])
def test_nothing_is_lost_duplicated_or_reordered(
    load: float, depth: int, tile: tuple[int, int]
) -> None:
    rng = np.random.default_rng(5)
    mesh = Mesh(6, 5, depth, tile=tile)
    count = 100_000
    created = np.sort(rng.integers(0, int(count / (mesh.nodes * load)), count))
    source, target = rng.integers(0, mesh.cores, (2, count))
    found = deliver(mesh, created, source, target)
    y, x = np.divmod(mesh.router[source], mesh.width)
    to_y, to_x = np.divmod(mesh.router[target], mesh.width)
    assert (found.delivered - created >= abs(x - to_x) + abs(y - to_y) + 1).all()
    check_order((created, source, target), found.delivered)
    # A router delivers at most one flit per cycle: all its delivery cycles differ.
    arrivals = found.delivered * mesh.nodes + mesh.router[target]
    assert len(np.unique(arrivals)) == count
    weight = np.ones(count, dtype=np.int64)
    assert found.links.tolist() == analytic(mesh, source, target, weight)


def test_the_order_check_sees_a_reordered_pair() -> None:
    packets = (np.array([0, 1]), np.array([0, 0]), np.array([1, 1]))
    check_order(packets, np.array([2, 3]))
    with pytest.raises(AssertionError):
        check_order(packets, np.array([3, 2]))


def test_packets_in_any_order() -> None:
    rng = np.random.default_rng(1)
    packets = random_packets(rng, Mesh(3, 3), "uniform", 60, 500)
    # One packet per cycle, so that the given order does not matter.
    packets = [(7 * i, a, b) for i, (_, a, b) in enumerate(packets)]
    mixed = rng.permutation(len(packets))
    straight = sent(Mesh(3, 3), packets).delivered
    assert sent(Mesh(3, 3), [packets[i] for i in mixed]).delivered.tolist() == (
        straight[mixed].tolist()
    )


def test_a_limit_leaves_packets_undelivered() -> None:
    packets = [(0, 0, 8), (0, 0, 8), (4, 0, 0)]
    found = sent(Mesh(3, 3), packets, limit=6)
    assert (found.delivered.tolist(), found.cycles) == ([5, -1, 5], 6)
    assert sent(Mesh(3, 3), packets, limit=0).delivered.tolist() == [-1, -1, -1]


def test_long_silence_is_skipped() -> None:
    """Packets many turns of the wheel apart, one of them very late."""
    times = [0, 1023, 1024, 5000, 10**6, 10**15]
    found = sent(Mesh(3, 2), [(t, 0, 5) for t in times])
    assert (found.delivered - times).tolist() == [4] * len(times)


def test_progress_callback() -> None:
    seen: list[int] = []
    sent(Mesh(2, 2), [(0, 0, 3), (9000, 0, 3)], advance=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 9004


def test_no_packets() -> None:
    found = deliver(Mesh(2, 2), [], [], [])
    assert (found.delivered.tolist(), found.links.sum(), found.cycles) == ([], 0, 0)


@pytest.mark.parametrize(
    ("packets", "message"),
    [
        (([0], [4], [0]), "source of packet 0 is 4; give 0 to 3"),
        (([0, 0], [0, 0], [1, -1]), "target of packet 1 is -1; give 0 to 3"),
        (([-3], [0], [0]), "created of packet 0 is -3"),
        (([NEVER], [0], [0]), f"created of packet 0 is {NEVER}"),
        (([0], [0, 1], [0]), "1 times, 2 sources and 1 targets"),
        (([0.5], [0], [0]), "created has shape (1,) and type float64"),
    ],
)
def test_bad_packets(packets: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ChipError) as error:
        deliver(Mesh(2, 2), *packets)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ((0, 2, 4), "width is 0"),
        ((2, 2.5, 4), "height is 2.5"),
        ((2, 2, 0), "depth is 0; give a whole number, 1 or more"),
        ((2, 2, True), "depth is True"),
        ((64, 64, MAX_SLOTS), "try at most 13107 per FIFO"),
    ],
)
def test_bad_meshes(sides: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ChipError) as error:
        Mesh(*sides)
    assert message in str(error.value)


def test_a_negative_limit() -> None:
    with pytest.raises(ChipError, match="limit is -1"):
        deliver(Mesh(2, 2), [0], [0], [0], limit=-1)


def test_random_numbers() -> None:
    """The generator as published, in arbitrary-precision integers."""
    x = 88172645463325252
    state = np.uint64(x)
    seen = defaultdict(int)
    for _ in range(2000):
        x ^= x >> 12
        x ^= (x << 25) % 2**64
        x ^= x >> 27
        state = np.uint64(_next(state))
        assert int(state) == x
        number = float(_uniform(state))
        assert number == (x * 0x2545F4914F6CDD1D % 2**64 >> 11) / 2**53
        seen[int(number * 10)] += 1
    assert min(seen.values()) > 150
    assert sorted(seen) == list(range(10))
