"""Parts of the rate's certificates: caps of hosts, lengths, trees of paths, flows; by hand or definition."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError, TopologyError
from treadle.math.symmetry import orbits
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate import pdhg, spreading
from treadle.synthesis.alltoall.rate.automorphisms import proposed_automorphisms
from treadle.synthesis.alltoall.rate.box_rotations import box_rotations
from treadle.synthesis.alltoall.rate.certificate import RateResult, rounded_certificate
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import known_symmetry, symmetry_of
from treadle.synthesis.alltoall.rate.host_caps import folded, limited_by_hosts, tightest_host, unfolded
from treadle.synthesis.alltoall.rate.path_trees import PathTreeFinder
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.rate.remaining_rate import flow_of_routes
from treadle.synthesis.alltoall.rate.spreading import even_loads, sender_moves, spread_flow
from treadle.topologies import parse, without_failures
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder


def line(*caps: int) -> Topology:
    """a to b of 4 B/s, b to c of 2, and back of 3 and 1; nodes may have injection caps."""
    builder = TopologyBuilder("line")
    for name, cap in zip("abc", caps or (0, 0, 0), strict=True):
        builder.compute(name, injection_bytes_per_s=cap)
    for ends, width in (("ab", 4), ("bc", 2), ("ba", 3), ("cb", 1)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def collective(ranks: Sequence[int] = (2, 0, 1)) -> Collective:
    """Ranks c, a, b: c has 1 for a, a has 2 for c and 3 for b, b has 1 for c."""
    demands = Demands(np.array([[5, 1, 0], [2, 0, 3], [1, 0, 0]]))
    return Collective(CollectiveKind.ALLTOALL, tuple(ranks), demands=demands)


def flow() -> ConcurrentFlow:
    """The only one: a to b, b to c, b to a, c to b."""
    return ConcurrentFlow(np.array([[0, 0, 1, 1], [5, 2, 0, 0], [0, 1, 0, 0]], dtype=np.float64))


def result(topology: Topology, **changes: object) -> RateResult:
    found = RateResult(
        topology=topology,
        collective=collective(),
        rate=2 / 3,
        upper=Fraction(2, 3),
        exact=Fraction(2, 3),
        loads=flow().loads,
        stored_flow=flow(),
        certificate=FlowDualCertificate(np.array([0, 1, 0, 0])),
        method="hand",
        seconds=0.0,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def test_arrays_of_an_instance() -> None:
    looped = from_arcs("looped", [0, 1, 1, 2], [1, 1, 2, 0], n=3)
    made = flow_instance(looped, collective())
    assert made.links.tolist() == [0, 2, 3]
    assert (made.tails.tolist(), made.heads.tolist()) == ([0, 1, 2], [1, 2, 0])
    assert (made.senders.tolist(), made.sources.tolist()) == ([0, 1, 2], [2, 0, 1])
    assert made.demands.tolist() == [[1, 0, 0], [0, 3, 2], [0, 0, 1]]
    error = made.unreachable(0, 1)
    assert str(error) == (
        "looped: 'n2' has data for 'n1', but no path leads there; add links, or leave one of them out of the "
        "ranks"
    )
    assert isinstance(error, InfeasibleError)


def test_the_rate_that_a_flow_certifies() -> None:
    """Link b to c is full: 3 of 2 B/s; then b gets a thousandth less of its 3 from a than it is due."""
    assert flow().rate(line()) == pytest.approx(2 / 3)
    assert check_flow(line(), collective(), flow()) == pytest.approx(2 / 3)
    less = flow().by_source.copy()
    less[1, 0] -= 0.003
    made = ConcurrentFlow(less)
    assert check_flow(line(), collective(), made, tolerance=1e-3) == pytest.approx(0.999 * 2 / 3)
    message = "flow of rank 1: leaves 2.997 at 'b', expected 3"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        check_flow(line(), collective(), made, tolerance=5e-4)
    with pytest.raises(ScheduleError, match="leaves"):
        check_flow(line(), collective(), made)
    # what passes b more than it got comes from nowhere, wherever it ends
    more = flow().by_source.copy()
    more[1, 1] += 1
    with pytest.raises(ScheduleError, match=r"^flow of rank 1: leaves 2 at 'b', expected 3$"):
        check_flow(line(), collective(), ConcurrentFlow(more))


def test_flows_that_are_none() -> None:
    with pytest.raises(ScheduleError, match=r"^flow: expected shape \(3, 4\) on line, found \(2, 4\)$"):
        check_flow(line(), collective(), ConcurrentFlow(np.zeros((2, 4))))
    looped = from_arcs("looped", [0, 1, 1, 2], [1, 1, 2, 0], n=3)
    with pytest.raises(ScheduleError, match=r"^flow: a self-loop carries data$"):
        check_flow(looped, collective(), ConcurrentFlow(np.ones((3, 4))))
    for wrong in (np.full((1, 1), np.nan), np.full((1, 1), np.inf), np.full((1, 1), -1e-30)):
        with pytest.raises(ScheduleError, match=r"^flow: expected finite numbers of at least 0$"):
            ConcurrentFlow(wrong)
    for shape, kind in (((3,), "float64"), ((2, 2), "float32")):
        message = f"flow: expected a matrix of float64, found {kind}, shape {shape}"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            ConcurrentFlow(np.zeros(shape, dtype=kind))
    assert flow() == flow()
    assert hash(flow()) == hash(flow())
    assert flow() != ConcurrentFlow(np.zeros((3, 4)))
    assert flow() != 3


def test_lengths_as_small_integers() -> None:
    assert rounded_certificate(np.array([0.5, 0.25, 0.0])).lengths.tolist() == [2, 1, 0]
    assert rounded_certificate(np.array([12.0, 5.0, -3.0])).lengths.tolist() == [12, 5, 0]
    assert rounded_certificate(np.array([7.0, 7.0])).lengths.tolist() == [1, 1]
    # 11 and 7 are not among the small ones
    assert rounded_certificate(np.array([11.0, 3.0])).lengths.tolist() == [2**30, round(2**30 * 3 / 11)]
    assert rounded_certificate(np.array([1.0, 0.5 + 4e-7])).lengths.tolist() == [2, 1]
    assert rounded_certificate(np.array([1.0, 0.5 + 6e-7])).lengths.tolist()[1] > 2**29


def test_links_that_set_the_rate_are_full_and_have_a_length() -> None:
    found = result(line())
    assert found.binding_links().tolist() == [1]
    assert found.gap == 0
    assert found.algbw == pytest.approx(2 / 3 * 8)  # rank 0 gets 3 and keeps 5
    # full to a thousandth counts, and twice the gap where that is more
    assert result(line(), rate=2 / 3 * 0.9991, exact=None).binding_links().tolist() == [1]
    assert result(line(), rate=2 / 3 * 0.99, exact=None).binding_links().tolist() == [1]
    assert result(line(), rate=2 / 3 * 0.99, upper=Fraction(66, 100), exact=None).binding_links().size == 0
    assert result(line(), rate=0.5, exact=None).gap == pytest.approx(0.25)
    assert result(line(), rate=0.7, exact=None).gap == 0
    everywhere = result(line(), certificate=FlowDualCertificate(np.array([1, 1, 1, 1])))
    assert everywhere.binding_links().tolist() == [1]
    assert everywhere.binding_hosts().tolist() == []
    # the other links carry 5 of 4, 1 of 3, 1 of 1 at a rate of 1
    assert result(line(), rate=1.0).binding_links().tolist() == [1]
    long = result(line(), certificate=FlowDualCertificate(np.array([2, 2 * 10**6, 0, 3])), rate=1.0)
    assert long.binding_links().tolist() == [1, 3]


def test_hosts_that_set_the_rate_have_a_length() -> None:
    ways = np.array([[0, 4], [0, 0]])
    found = result(line(7, 0, 9), certificate=FlowDualCertificate(np.array([0, 1, 0, 0]), ways))
    assert found.binding_hosts().tolist() == [0]
    both = result(
        line(7, 0, 9), certificate=FlowDualCertificate(np.array([0, 1, 0, 0]), np.array([[0, 4], [1, 0]]))
    )
    assert both.binding_hosts().tolist() == [0, 2]


def test_the_host_whose_cap_is_filled_first() -> None:
    """Node c gets 3 and sends 1, a gets 1 and sends 5, b gets 3 and sends 1; b is not capped."""
    limit, certificate = tightest_host(line(7, 0, 9), collective())
    assert limit == Fraction(7, 5)
    assert certificate.hosts.tolist() == [[0, 1], [0, 0]]
    assert certificate.cards_forward
    limit, certificate = tightest_host(line(70, 0, 9), collective())
    assert limit == 3
    assert certificate.hosts.tolist() == [[0, 0], [1, 0]]
    assert certificate.lengths.tolist() == [0, 0, 0, 0]
    limit, certificate = tightest_host(line(), collective())
    assert (limit, certificate.hosts.size) == (None, 0)
    # of equal ones the first: 5/5 and 3/3
    assert tightest_host(line(5, 0, 3), collective())[1].hosts.tolist() == [[0, 1], [0, 0]]


def test_a_rate_beside_caps_of_hosts_whose_cards_forward() -> None:
    """Links allow 2/3; a cap of 10 on a allows 2, one of 2 allows 2/5, one of 3 allows 3/5."""
    free = limited_by_hosts(result(line()), line(10, 0, 0))
    assert (free.upper, free.exact, free.rate) == (Fraction(2, 3), Fraction(2, 3), 2 / 3)
    assert free.certificate.lengths.tolist() == [0, 1, 0, 0]
    assert free.topology == line(10, 0, 0)
    tight = limited_by_hosts(result(line()), line(2, 0, 0))
    assert (tight.upper, tight.exact, tight.rate) == (Fraction(2, 5), Fraction(2, 5), 0.4)
    assert tight.certificate.hosts.tolist() == [[0, 1]]
    # without an exact rate a flow that comes up to the cap proves it, one that does not proves nothing
    near = result(line(), rate=0.5, exact=None)
    assert limited_by_hosts(near, line(2, 0, 0)).exact == Fraction(2, 5)
    between = limited_by_hosts(near, line(3, 0, 0))
    assert (between.exact, between.upper, between.rate) == (None, Fraction(3, 5), 0.5)
    assert between.certificate.hosts.tolist() == [[0, 1]]
    uncapped = limited_by_hosts(near, line())
    assert (uncapped.exact, uncapped.upper, uncapped.rate) == (None, Fraction(2, 3), 0.5)


def test_caps_become_links_and_back() -> None:
    """Of each host the way in and the way out, behind the links of the fabric."""
    capped = line(7, 0, 9)
    found = result(
        capped, certificate=FlowDualCertificate(np.array([0, 1, 0, 0]), np.array([[2, 3], [0, 5]]))
    )
    whole = unfolded(found)
    assert whole is not None
    assert whole.topology.n_links == 8
    assert whole.certificate.lengths.tolist() == [0, 1, 0, 0, 2, 3, 0, 5]
    # into a, out of a, into c, out of c: for c's, a's and b's own data
    assert whole.flow.by_source[:, 4:].tolist() == [[1, 0, 0, 1], [0, 5, 2, 0], [0, 0, 1, 0]]
    assert whole.loads.tolist() == [5, 3, 1, 1, 1, 5, 3, 1]
    again = folded(whole, capped)
    assert again.flow == found.flow
    assert again.loads.tolist() == found.loads.tolist()
    assert again.certificate.lengths.tolist() == [0, 1, 0, 0]
    assert again.certificate.hosts.tolist() == [[2, 3], [0, 5]]
    bare = unfolded(result(capped))
    assert bare is not None
    assert bare.certificate.lengths.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert unfolded(result(line())) is None
    cards = FlowDualCertificate(np.array([0, 1, 0, 0]), np.zeros((2, 2), dtype=np.int64), cards_forward=True)
    assert unfolded(result(capped, certificate=cards)) is None


def test_routes_as_a_flow_with_even_lengths() -> None:
    """Two chunks a unit of demand; links of equal bandwidth have equal lengths, narrow ones long ones."""
    paths = [(0, 1, 2, 0, [3, 2]), (1, 0, 4, 0, [0, 1]), (1, 2, 6, 0, [0]), (2, 0, 2, 0, [1])]
    found = flow_of_routes(line(), collective(), routes_from_paths(3, 2, paths))
    assert found.flow == flow()
    assert found.rate == pytest.approx(2 / 3)
    assert found.certificate.lengths.tolist() == [3, 6, 4, 12]
    # 3 * 4 + 6 * 2 + 4 * 3 + 12 over 1 * 16 + 2 * 9 + 3 * 3 + 1 * 6
    assert found.upper == Fraction(48, 49)
    assert (found.exact, found.method, found.seconds) == (None, "routes", 0.0)


def random_instance(seed: int) -> tuple[Topology, Collective]:
    rng = np.random.default_rng([seed, 14])
    n = 6
    tails = [*range(n), *rng.integers(0, n, 8).tolist()]
    heads = [*((node + 1) % n for node in range(n)), *rng.integers(0, n, 8).tolist()]
    return from_arcs("random", tails, heads, n=n), Collective(CollectiveKind.ALLTOALL, tuple(range(n)))


@pytest.mark.parametrize("seed", range(4))
def test_trees_are_shortest_and_of_equal_ones_have_fewest_hops(seed: int) -> None:
    fabric, everyone = random_instance(seed)
    instance = flow_instance(fabric, everyone)
    lengths = np.random.default_rng(seed).integers(0, 3, len(instance.links))
    rows = np.array([4, 1])
    finder = PathTreeFinder(instance, rows)
    trees = finder.trees(lengths)
    demands = instance.demand_rows(rows) * np.arange(1, 7)
    source, target = np.nonzero(demands)
    path, link = finder.hops(trees, (source, target))
    crossing = np.zeros((2, len(instance.links)), dtype=np.int64)
    np.add.at(crossing, (source[path], link), demands[source, target][path])
    row, node = np.nonzero(trees.into >= 0)
    carried = np.zeros_like(crossing)
    carried[row, trees.into[row, node]] = finder.amounts(trees, demands)[row, node]
    assert carried.tolist() == crossing.tolist()
    for place, source in enumerate(rows.tolist()):
        best = {source: (0, 0)}
        for _ in range(6):
            for own, tail, head in zip(lengths.tolist(), instance.tails, instance.heads, strict=True):
                if int(tail) in best:
                    length, hops = best[int(tail)]
                    new = (length + own, hops + 1)
                    best[int(head)] = min(best.get(int(head), new), new)
        assert trees.distance[place].tolist() == [best[node][0] for node in range(6)]
        assert trees.into[place, source] == -1
        targets = np.array([node for node in range(6) if node != source])
        path, link = finder.hops(trees, (np.full(5, place), targets))
        for number, target in enumerate(targets.tolist()):
            mine = link[path == number]
            assert (lengths[mine].sum(), len(mine)) == best[target]
            # from the target back to the source
            assert instance.heads[mine[0]] == target
            assert instance.tails[mine[-1]] == source
            assert instance.tails[mine[:-1]].tolist() == instance.heads[mine[1:]].tolist()


def test_trees_end_where_nothing_leads_on() -> None:
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=4)
    demands = Demands(np.array([[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))
    some = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=demands)
    finder = PathTreeFinder(flow_instance(oneway, some), np.array([0, 1]))
    trees = finder.trees(np.array([3, 0]))
    assert trees.distance.tolist() == [[0, 3, 3, -1], [-1, 0, 0, -1]]
    assert trees.into.tolist() == [[-1, 0, 1, -1], [-1, -1, 1, -1]]
    # 25 times a length must stay below 2**61
    assert finder.longest == (2**61 - 1) // 25


@pytest.mark.parametrize(
    ("expression", "count", "n_orbits"),
    [
        ("ring(5)", 2, 1),
        ("circulant(7, 1, 2)", 2, 1),
        ("complete(4)", 2, 1),
        ("complete_bipartite(2, 3)", 3, 2),
        ("complete_bipartite(3, 3)", 5, 1),
        ("torus(3, 4)", 6, 1),
        ("torus(3, 3)", 7, 1),
        ("mesh(3, 4)", 2, 4),
        ("mesh(3, 3)", 3, 3),
        ("hypercube(3)", 5, 1),
        ("kautz(2, 1)", 2, 1),
        ("de_bruijn(3, 2)", 2, 2),
        ("cartesian_product(ring(3), ring(4))", 4, 1),
    ],
)
def test_automorphisms_that_names_suggest(expression: str, count: int, n_orbits: int) -> None:
    fabric = parse(expression)
    found = proposed_automorphisms(fabric)
    ends = sorted(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    for one in found:
        assert sorted(zip(one[fabric.tails].tolist(), one[fabric.heads].tolist(), strict=True)) == ends
    of_ranks = orbits(fabric.n_nodes, found)[fabric.compute_nodes]
    assert (len(found), len(set(of_ranks.tolist()))) == (count, n_orbits)


def test_rotations_of_pods_boxes_and_what_they_hold() -> None:
    """Four boxes in two pods: by a box, by a pod with its leaves, within pods; then GPUs, with rails."""
    names = [*(f"box{b}.gpu{g}" for b in range(4) for g in range(2)), "leaf0", "leaf1", "rail0", "rail1"]
    found = [[names[node] for node in one] for one in box_rotations(names)]

    def maps(
        where: int, gpu: int, *, pod: bool = False, rails: bool = False, leaves: bool = False
    ) -> list[str]:
        boxes = [(b - b % 2 + (b + where) % 2 if pod else (b + where) % 4) for b in range(4)]
        gpus = [f"box{boxes[b]}.gpu{(g + gpu) % 2}" for b in range(4) for g in range(2)]
        return [
            *gpus,
            *(f"leaf{(leaf + leaves) % 2}" for leaf in range(2)),
            *(f"rail{(rail + rails) % 2}" for rail in range(2)),
        ]

    for expected in (
        maps(1, 0),
        maps(2, 0, leaves=True),
        maps(2, 0, rails=True),
        maps(1, 0, pod=True),
        maps(0, 1),
        maps(0, 1, rails=True, leaves=True),
    ):
        assert expected in found
    assert list(box_rotations(["a", "b.c"])) == []


def test_flows_of_all_senders_from_those_of_one() -> None:
    """A ring of 5, one way: rank 0 loads its links with 4, 3, 2, 1 units; all together with 10 each."""
    ring = parse("ring(5, bidirectional=False)")
    everyone = on_all_ranks(ring, CollectiveKind.ALLTOALL)
    instance = flow_instance(ring, everyone)
    symmetry = known_symmetry(instance)
    assert symmetry.n_sources == 1
    out = {int(tail): link for link, tail in enumerate(ring.tails.tolist())}
    flows = np.zeros((1, 5))
    for hop in range(4):
        flows[0, out[hop]] = 4 - hop
    assert even_loads(instance, symmetry, flows).tolist() == [10] * 5
    spread = spread_flow(instance, symmetry, flows)
    for rank in range(5):
        assert [spread[rank, out[(rank + hop) % 5]] for hop in range(5)] == [4, 3, 2, 1, 0]
    moves = sender_moves(instance, symmetry)
    for rank in range(5):
        assert [int(moves[rank, out[node]]) for node in range(5)] == [
            out[(node + rank) % 5] for node in range(5)
        ]
    trivial = symmetry_of(instance)
    whole = np.arange(25.0).reshape(5, 5)
    assert spread_flow(instance, trivial, whole).tolist() == whole.tolist()
    assert orbits(4, [np.array([2, 1, 3, 0])]).tolist() == [0, 1, 0, 0]


def test_symmetry_of_some_senders() -> None:
    """Ranks 0 and 2 of a ring of four turn into each other; 1 and 3 have nothing to send, but get it."""
    ring = parse("ring(4)")
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[0, 1] = matrix[0, 3] = matrix[2, 1] = matrix[2, 3] = 2
    some = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    found = symmetry_of(flow_instance(ring, some), [np.array([2, 3, 0, 1])])
    assert (found.n_sources, found.is_trivial) == (1, False)
    assert found.sender_orbit.tolist() == [0, 0]
    assert found.representatives.tolist() == [0]
    assert found.multiplicities.tolist() == [2]
    assert found.orbit_sizes.tolist() == [2] * 4
    assert found.orbit_bandwidths.tolist() == [1] * 4


def test_flows_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three senders over four links: twelve cells."""
    instance = flow_instance(line(), collective())
    for module, name in ((pdhg, "MOST_CELLS"), (spreading, "_MAX_ENTRIES")):
        monkeypatch.setattr(module, name, 12)
    assert pdhg.pdhg_rate(instance, gap=0.01).rate == pytest.approx(2 / 3, rel=0.01)
    assert sender_moves(instance, symmetry_of(instance)).tolist() == [[0, 1, 2, 3]] * 3
    for module, name in ((pdhg, "MOST_CELLS"), (spreading, "_MAX_ENTRIES")):
        monkeypatch.setattr(module, name, 11)
    message = (
        "line: flows of 3 sources over 4 links do not fit; expected at most 11 cells; fewer ranks, or a "
        "fabric with more symmetry"
    )
    with pytest.raises(ScheduleError, match=f"^{message}$"):
        pdhg.pdhg_rate(instance)
    message = "line: flows of 3 senders over 4 links do not fit; use the representatives' flows"
    with pytest.raises(ScheduleError, match=f"^{message}$"):
        sender_moves(instance, symmetry_of(instance))


@pytest.mark.parametrize("value", [1.0, -0.001, float("nan"), 0.0009])
def test_gaps_out_of_range(value: float) -> None:
    if value != 0.0009:
        with pytest.raises(ScheduleError) as caught:
            optimal_rate(line(), collective(), gap=value)
        assert str(caught.value) == f"gap {value}: expected a number from 0 to below 1, such as 0.001"
    with pytest.raises(ScheduleError) as caught:
        fleischer_rate(line(), collective(), epsilon=value)
    assert str(caught.value) == f"fleischer: epsilon {value}, expected from 0.001 to below 1"


def test_gaps_at_their_limits() -> None:
    assert optimal_rate(line(), collective(), gap=0.0).exact == Fraction(2, 3)
    assert fleischer_rate(line(), collective(), epsilon=0.999).rate > 0


def test_maps_that_change_demands_are_no_symmetry() -> None:
    """Turning a ring of four changes who sends nothing."""
    ring = parse("ring(4)")
    matrix = np.ones((4, 4), dtype=np.int64)
    matrix[2] = 0
    some = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    with pytest.raises(
        TopologyError, match=r"^ring\(4\): a map of nodes changes what the ranks have for each"
    ):
        symmetry_of(flow_instance(ring, some), [[1, 2, 3, 0]])
    mirrored = symmetry_of(flow_instance(ring, some), [[0, 3, 2, 1]])
    assert mirrored.sender_orbit.tolist() == [0, 1, 1]


def test_the_cut_of_a_damaged_box_is_the_bound() -> None:
    """First-order lengths leave a gap of 1e-7 here, and of 7e-4 on racks of 72."""
    fabric = without_failures(parse("dgx_h100(8)"), ["box0.gpu5"])
    found = optimal_rate(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    assert found.upper == Fraction(350 * 10**9, 7 * 56)
    assert found.gap < 1e-12
    assert set(found.certificate.lengths.tolist()) == {0, 1}
