"""Demands and the dual certificate of an all-to-all."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.errors import ScheduleError
from treadle.math.graphs import shortest_lengths
from treadle.schedules.alltoall import alltoall_certificate
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands, block_demands, uniform_demands
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.automorphisms import proposed_automorphisms
from treadle.topologies import complete, hypercube, parse, ring, torus
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

A2A = CollectiveKind.ALLTOALL


def test_demands_are_values() -> None:
    assert Demands([[0, 1], [2, 0]]) == Demands(np.array([[0, 1], [2, 0]], dtype=np.int32))
    assert hash(uniform_demands(3)) == hash(uniform_demands(3))
    assert uniform_demands(5).buffer_units == 5
    assert Demands([[4, 1], [2, 0]]).buffer_units == 6
    assert Demands([[4, 1], [2, 0]]).between.tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1]], "square matrix"),
        ([[1]], "at least 2 ranks"),
        ([[0, -1], [1, 0]], "0 to 2"),
        ([[0, 2**21], [1, 0]], "0 to 2"),
        ([[0.0, 1.0], [1.0, 0.0]], "expected integers"),
        ([[float("nan"), 1.0], [1.0, 0.0]], "expected integers"),
        ([[3, 0], [0, 3]], "has data for another"),
    ],
)
def test_malformed_demands_are_refused(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Demands(matrix)


def test_only_an_all_to_all_has_demands() -> None:
    demands = uniform_demands(3)
    assert Collective(A2A, (0, 1, 2)).pair_demands == demands
    with pytest.raises(ScheduleError, match="of 3 ranks, the collective has 2"):
        Collective(A2A, (0, 1), demands=demands)
    for kind in SPANNING_KINDS:
        root = 0 if kind.is_rooted else None
        with pytest.raises(ScheduleError, match="only an all-to-all"):
            Collective(kind, (0, 1, 2), root=root, demands=demands)
        with pytest.raises(ScheduleError, match="only an all-to-all"):
            _ = Collective(kind, (0, 1, 2), root=root).pair_demands
    with pytest.raises(ScheduleError, match="which spanning trees cannot"):
        _ = Collective(A2A, (0, 1, 2)).shard_weights


@pytest.mark.parametrize(
    ("topology", "rate"),
    [
        (complete(4), Fraction(1)),
        (hypercube(3), Fraction(1, 4)),
        (torus(3, 3, 3), Fraction(1, 9)),
        (ring(4, bidirectional=False), Fraction(1, 6)),
        (ring(5), Fraction(1, 3)),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_unit_lengths_bound_symmetric_graphs(topology: Topology, rate: Fraction) -> None:
    """1/9 on the 3x3x3 torus as published; 1/4 on the 3-cube: 1/F = 4.0 (notes)."""
    certificate = FlowDualCertificate(np.ones(topology.n_links, dtype=np.int64))
    collective = on_all_ranks(topology, A2A)
    assert certificate.pair_rate_bound(topology, collective) == rate
    assert certificate.bound(topology, collective) == rate * topology.n_nodes


@settings(max_examples=60, deadline=None, derandomize=True)
@given(digraphs(), st.data())
def test_bound_is_volume_over_demand_times_distance(topology: Topology, data: st.DataObject) -> None:
    """Against networkx's Dijkstra, with any demands."""
    ranks = tuple(topology.compute_nodes.tolist())
    n = len(ranks)
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=topology.n_links, max_size=topology.n_links))
    matrix = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n))).reshape(n, n)
    matrix[0, 1] += 1
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), lengths, strict=True)
    graph.add_weighted_edges_from(ends)
    distance = dict(nx.all_pairs_dijkstra_path_length(graph))
    volume = sum(
        int(b) * length
        for b, length, u, v in zip(topology.bandwidths, lengths, topology.tails, topology.heads, strict=True)
        if u != v
    )
    certificate = FlowDualCertificate(np.array(lengths))
    collective = Collective(A2A, ranks, demands=Demands(matrix))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j and matrix[i, j]]
    if any(ranks[j] not in distance[ranks[i]] for i, j in pairs):
        with pytest.raises(ScheduleError, match="cannot be reached"):
            certificate.pair_rate_bound(topology, collective)
        return
    needed = sum(int(matrix[i, j]) * distance[ranks[i]][ranks[j]] for i, j in pairs)
    assert certificate.pair_rate_bound(topology, collective) == Fraction(volume, needed)


def test_json_round_trip_and_bad_lengths() -> None:
    certificate = FlowDualCertificate(np.array([0, 2**40, 3, 3, 1, 1]))
    again = certificate_from_json(json.loads(json.dumps(certificate.to_json())))
    assert again == certificate
    collective = on_all_ranks(ring(3), A2A)
    assert again.bound(ring(3), collective) == certificate.bound(ring(3), collective)
    with pytest.raises(ScheduleError, match="6 lengths, expected 8"):
        certificate.bound(ring(4), on_all_ranks(ring(4), A2A))
    with pytest.raises(ScheduleError, match="distance 0"):
        FlowDualCertificate(np.zeros(6, dtype=np.int64)).bound(ring(3), collective)
    for wrong in ([-1], [2**40 + 1], [[1]], [0.5]):
        with pytest.raises(ScheduleError, match="distance certificate"):
            FlowDualCertificate(np.array(wrong))
    for text in ('{"kind": "distances"}', '{"kind": "distances", "lengths": [true]}'):
        with pytest.raises(ValueError, match="distance certificate"):
            certificate_from_json(json.loads(text))


def test_switches_only_forward() -> None:
    topology = parse("star(4)")
    certificate = FlowDualCertificate(np.ones(topology.n_links, dtype=np.int64))
    assert certificate.pair_rate_bound(topology, on_all_ranks(topology, A2A)) == Fraction(8, 12 * 2)


def test_self_loops_add_no_capacity_and_the_buffer_scales_the_bound() -> None:
    """A loop carries nothing; algbw is F times the largest row or column, own data included."""
    looped = from_arcs("looped", [0, 0, 1, 1], [0, 1, 0, 1], n=2)
    lengths = FlowDualCertificate(np.ones(4, dtype=np.int64))
    assert lengths.pair_rate_bound(looped, on_all_ranks(looped, A2A)) == 1
    demands = Demands([[5, 2], [2, 0]])
    collective = Collective(A2A, (0, 1), demands=demands)
    assert lengths.pair_rate_bound(looped, collective) == Fraction(1, 2)
    assert lengths.bound(looped, collective) == Fraction(7, 2)


def wired_at_random(seed: int) -> Topology:
    """Thirty ranks and a few switches with very many links, parallel ones and self-loops among them."""
    rng = np.random.default_rng(seed)
    n, m = 36, 300
    hub = rng.integers(30, n, m)
    node = rng.integers(0, n, m)
    out = rng.random(m) < 0.4
    tails, heads = np.where(out, hub, node), np.where(out, node, hub)
    ring_tails = rng.permutation(n)
    return Topology(
        "random",
        tuple(f"v{i}" for i in range(n)),
        np.arange(n) < 30,
        np.concatenate([tails, ring_tails]),
        np.concatenate([heads, np.roll(ring_tails, 1)]),
        rng.integers(1, 9, m + n),
    )


@pytest.mark.parametrize("seed", range(4))
def test_distances_through_switches_of_high_degree(seed: int) -> None:
    """Nodes with many more links than most, lengths up to the largest, most pairs without demand."""
    topology = wired_at_random(seed)
    rng = np.random.default_rng(seed)
    lengths = np.where(rng.random(topology.n_links) < 0.3, 2**40, rng.integers(0, 2**40, topology.n_links))
    matrix = rng.integers(0, 2**20 + 1, (30, 30)) * (rng.random((30, 30)) < 0.3)
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(30)), demands=Demands(matrix))
    graph = nx.MultiDiGraph()
    for tail, head, length in zip(
        topology.tails.tolist(), topology.heads.tolist(), lengths.tolist(), strict=True
    ):
        graph.add_edge(tail, head, weight=length)
    far = dict(nx.all_pairs_dijkstra_path_length(graph))
    needed = sum(
        int(matrix[i, j]) * far[i][j] for i in range(30) for j in range(30) if i != j and matrix[i, j]
    )
    carries = topology.tails != topology.heads
    volume = sum(
        int(b) * int(length) for b, length in zip(topology.bandwidths[carries], lengths[carries], strict=True)
    )
    bound = FlowDualCertificate(lengths).pair_rate_bound(topology, collective)
    assert bound == Fraction(volume, needed)


def test_only_wanted_pairs_have_to_be_within_reach() -> None:
    one_way = from_arcs("one way", [0, 1], [1, 2], n=3)
    matrix = np.array([[0, 1, 1], [0, 0, 2], [0, 0, 0]])
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(matrix))
    certificate = FlowDualCertificate(np.array([3, 5]))
    assert certificate.pair_rate_bound(one_way, collective) == Fraction(3 + 5, 3 + 8 + 2 * 5)
    back = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(matrix.T))
    with pytest.raises(ScheduleError, match="cannot be reached"):
        certificate.pair_rate_bound(one_way, back)


def test_long_paths_are_exact() -> None:
    """Hundreds of nodes in a circle, more than sources in a block; links of 2**40."""
    n = 300
    circle = ring(n, bidirectional=False)
    lengths = np.full(n, 2**40)
    certificate = FlowDualCertificate(lengths)
    collective = on_all_ranks(circle, CollectiveKind.ALLTOALL)
    assert certificate.pair_rate_bound(circle, collective) == Fraction(2, n * (n - 1))


@pytest.mark.parametrize("groups", [[(0, 4)], [(-1, 0)], [(0, 1), (1, 2)], [(0, 0)]])
def test_groups_of_demands_are_disjoint_and_of_ranks(groups: list[tuple[int, ...]]) -> None:
    with pytest.raises(ScheduleError, match="each in one group"):
        block_demands(4, groups)


def test_ranks_in_no_group_have_nothing_for_any() -> None:
    demands = block_demands(5, [(4, 0), (1, 3)])
    assert {tuple(pair) for pair in np.argwhere(demands.between).tolist()} == {(0, 4), (4, 0), (1, 3), (3, 1)}
    assert demands.buffer_units == 2
    assert not demands.matrix[2].any()


@pytest.mark.parametrize("value", [1, 3])
def test_equal_demands_are_one_number(value: int) -> None:
    uniform, n = Demands(np.full((4, 4), value)), 4
    assert uniform.is_uniform
    assert uniform.matrix.tolist() == [[value] * n] * n
    assert (uniform == uniform_demands(n)) == (value == 1)
    loaded = pickle.loads(pickle.dumps(uniform))
    assert (loaded, hash(loaded)) == (uniform, hash(uniform))
    # one entry more on the diagonal, which stays within the rank: all else is alike
    other = np.full((n, n), value)
    other[3, 3] += 1
    dense = Demands(other)
    assert not dense.is_uniform
    assert dense != uniform
    assert uniform.between.tolist() == dense.between.tolist()
    assert uniform.rows(np.array([2, 0])).tolist() == dense.between[[2, 0]].tolist()
    assert uniform.senders.tolist() == dense.senders.tolist() == [0, 1, 2, 3]
    assert [total.tolist() for total in uniform.totals] == [total.tolist() for total in dense.totals]
    assert uniform.n_pairs == dense.n_pairs == 12
    assert (uniform.buffer_units, dense.buffer_units) == (4 * value, 4 * value + 1)
    for images in ([1, 2, 3, 0], [1, 0, 2, -1]):
        kept = images[-1] >= 0
        assert (
            uniform.is_invariant_under(np.array(images)) == dense.is_invariant_under(np.array(images)) == kept
        )
    huge = uniform_demands(2**20)
    assert huge.buffer_units == 2**20
    assert len(huge.senders) == 2**20


@pytest.mark.parametrize("name", ["torus(4, 5)", "generalized_kautz(2, 12)", "dgx_a100(2)"])
def test_distances_from_one_rank_of_each_class(name: str) -> None:
    """As from all ranks; and maps that keep not all that counts are of no use."""
    topology = parse(name)
    everyone = on_all_ranks(topology, A2A)
    maps = proposed_automorphisms(topology)
    n = topology.n_nodes
    chance = np.random.default_rng(0)
    for lengths in (np.ones(topology.n_links, dtype=np.int64), chance.integers(1, 9, topology.n_links)):
        certificate = FlowDualCertificate(lengths)
        proved = certificate.pair_rate_bound(topology, everyone)
        wrong = [np.roll(np.arange(n), 7), np.zeros(n, dtype=np.int64), np.arange(n + 1)]
        assert certificate.pair_rate_bound(topology, everyone, automorphisms=[*maps, *wrong]) == proved
    matrix = chance.integers(0, 3, (everyone.n_ranks, everyone.n_ranks))
    some = replace(everyone, demands=Demands(matrix))
    unit = FlowDualCertificate(np.ones(topology.n_links, dtype=np.int64))
    assert unit.pair_rate_bound(topology, some, automorphisms=maps) == unit.pair_rate_bound(topology, some)


def test_distances_that_do_not_fit_the_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that gives too long a distance would prove too much."""

    def wrong(*args: object, **options: int) -> np.ndarray:
        found = shortest_lengths(*args, **options)  # type: ignore[arg-type]
        found[0, -1] += 1
        return found

    monkeypatch.setattr(alltoall_certificate, "shortest_lengths", wrong)
    graph = ring(4)
    with pytest.raises(ScheduleError, match="do not match the lengths"):
        FlowDualCertificate(np.ones(8, dtype=np.int64)).pair_rate_bound(graph, on_all_ranks(graph, A2A))
