"""What calls cost on a fabric, what nothing can be below, and which sizes are looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import pytest

from treadle.errors import InfeasibleError, TopologyError
from treadle.finder.designing import candidates, hybrids, workload_costs
from treadle.finder.designing.candidates import check_pairs, improving, named_option
from treadle.finder.designing.design_limits import design_limits
from treadle.finder.designing.known_fabrics import KnownFabric, is_beaten, known_fabrics
from treadle.finder.designing.placements import PlacementPace, placement_sheet, rank_groups
from treadle.finder.designing.workload_costs import PricedFabric
from treadle.finder.evaluate import GroupCosts
from treadle.finder.measure import LARGEST_MEASURED, Option
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.topologies import parse

GATHER, SCATTER = Exchange.ALLGATHER, Exchange.REDUCE_SCATTER
SUM, EXCHANGE = Exchange.ALLREDUCE, Exchange.ALLTOALL
NETWORK = Network(alpha_s=0.5, bandwidth_bytes_per_s=8, gamma_s_per_byte=0.25)
"""Adding a byte takes twice as long as sending one."""


@pytest.fixture(scope="module")
def torus() -> Option:
    """Distances 1 (four others), 2 (four others): 8 (4 + 8) of all nodes together are 108."""
    return named_option("torus(3, 3)", 9, 4)


def with_nodes(option: Option, nodes: int) -> Option:
    gather = replace(option.candidate.gather, nodes=nodes)
    return replace(option, candidate=replace(option.candidate, gather=gather))


def workload(*calls: Call) -> Workload:
    return Workload("calls", calls)


def test_calls_add_up_by_their_counts(torus: Option) -> None:
    """Two steps of half a second; 8/9 of 9 bytes at 8 bytes/s, and of adding them up."""
    calls = workload(
        Call(GATHER, 9, Fraction(3, 2)), Call(SCATTER, 18, Fraction(5)), Call(SUM, 27, Fraction(1, 4))
    )
    steps, t_b = torus.candidate.steps, float(torus.candidate.gather.t_b)
    costs = PricedFabric(torus, {}).costs(calls, NETWORK)
    gather, scatter = steps / 2 + t_b * 9 / 8, steps / 2 + t_b * (18 / 8 + 18 / 4)
    both = steps + t_b * (2 * 27 / 8 + 27 / 4)
    assert costs == pytest.approx([gather, scatter, both])
    found = workload_costs.total_seconds(calls, costs)
    assert found == pytest.approx(1.5 * gather + 5 * scatter + 0.25 * both)
    assert workload_costs.total_seconds(calls, [gather, None, both]) is None
    assert steps == 2
    assert torus.candidate.gather.t_b == Fraction(8, 9)


def test_groups_are_looked_up_by_size_and_stride(torus: Option) -> None:
    figures = GroupCosts(3, Fraction(5), Fraction(7), 11)
    calls = workload(Call(GATHER, 8, group_size=3, stride=3), Call(SCATTER, 8, group_size=3))
    other = replace(figures, steps=1, t_b_reduce=Fraction(2))
    costs = PricedFabric(torus, {(3, 3): figures, (3, 1): other}).costs(calls, NETWORK)
    assert costs == pytest.approx([3 / 2 + 5, 1 / 2 + 2 * (1 + 2)])


@pytest.mark.parametrize(
    ("nodes", "size", "is_quick"),
    [
        (2**12, 2**8, True),
        (2**12, 2**9, False),
        (LARGEST_MEASURED, 100, True),
        (LARGEST_MEASURED + 1, 1, False),
        (2**20, None, True),
        (2**20, 2**20, True),
    ],
)
def test_groups_that_are_quick(nodes: int, size: int | None, is_quick: bool) -> None:
    call = Call(GATHER, 1, group_size=size)
    assert workload_costs.is_quick_in_groups(call, nodes) == is_quick


def test_what_is_not_quick_has_no_price(torus: Option) -> None:
    calls = workload(Call(GATHER, 1, group_size=2**9), Call(GATHER, 8))
    first, second = PricedFabric(with_nodes(torus, 2**12), {}).costs(calls, NETWORK)
    assert first is None
    assert second is not None


def test_nothing_is_below_moores_bound_and_the_distances(torus: Option) -> None:
    """Each call at (n - 1) / n M/B; groups of three at 2/3, or what is proven of them, if that is more."""
    assert workload_costs.least_seconds(
        PricedFabric(torus, {}), workload(Call(GATHER, 9)), NETWORK
    ) == pytest.approx(1 + 8 / 9 * 9 / 8)
    assert workload_costs.least_seconds(
        PricedFabric(torus, {}), workload(Call(SCATTER, 9)), NETWORK
    ) == pytest.approx(1 + 8 / 9 * (9 / 8 + 9 / 4))
    figures = GroupCosts(1, Fraction(9), Fraction(9), 5, least=Fraction(1, 2), least_reduce=Fraction(3))
    calls = workload(Call(GATHER, 8, group_size=3), Call(SCATTER, 8, group_size=3))
    found = workload_costs.least_seconds(PricedFabric(torus, {(3, 1): figures}), calls, NETWORK)
    assert found == pytest.approx((1 / 2 + 2 / 3) + (1 / 2 + 3 * (1 + 2)))


def test_fabrics_in_parts_have_no_bound_over_all_nodes(torus: Option) -> None:
    parts = replace(torus, parts=3)
    figures = GroupCosts(1, Fraction(1), Fraction(1), 5)
    calls = workload(Call(GATHER, 8, group_size=3))
    assert workload_costs.least_seconds(PricedFabric(parts, {(3, 1): figures}), calls, NETWORK) is not None
    more = workload(*calls.calls, Call(EXCHANGE, 8))
    assert workload_costs.least_seconds(PricedFabric(parts, {(3, 1): figures}), more, NETWORK) is None


def test_exact_rates_are_of_the_kinds_that_are_asked_for(torus: Option) -> None:
    """Groups of three are rings that have two of the four links of each: 2/3 of the data over these."""
    figures, exact = GroupCosts(1, Fraction(9), Fraction(9), 5), Fraction(2, 3) * 2
    shared = {(3, 1): figures}
    asked = workload(Call(SCATTER, 8, group_size=3))
    found = workload_costs.with_exact_rates(torus, shared, asked)
    assert found == {(3, 1): replace(figures, t_b_reduce=exact, least_reduce=exact)}
    gather = replace(torus.candidate.gather, is_bidirectional=True)
    two_way = replace(torus, candidate=replace(torus.candidate, gather=gather))
    both = replace(figures, t_b=exact, t_b_reduce=exact, least=exact, least_reduce=exact)
    assert workload_costs.with_exact_rates(two_way, shared, asked) == {(3, 1): both}
    better = {(3, 1): replace(figures, t_b=Fraction(1), t_b_reduce=Fraction(5, 4))}
    kept = replace(both, t_b=Fraction(1), t_b_reduce=Fraction(5, 4))
    assert workload_costs.with_exact_rates(two_way, better, asked) == {(3, 1): kept}
    exchanges = workload(Call(EXCHANGE, 8, group_size=3))
    assert workload_costs.with_exact_rates(torus, shared, exchanges) == shared
    assert workload_costs.with_exact_rates(with_nodes(torus, 257), shared, asked) is shared
    assert workload_costs.with_exact_rates(with_nodes(torus, 256), {}, asked) == {}


def test_one_way_fabrics_have_two_rates() -> None:
    ring = named_option("uni_ring(2, 6)", 6, 2)
    figures = GroupCosts(1, Fraction(99), Fraction(98), 5)
    for kinds, told in (((GATHER,), (True, False)), ((SCATTER,), (False, True)), ((SUM,), (True, True))):
        calls = workload(*(Call(kind, 8, group_size=3) for kind in kinds))
        found = workload_costs.with_exact_rates(ring, {(3, 1): figures}, calls)[3, 1]
        assert (found.t_b < 99, found.t_b_reduce < 98) == told
        assert (found.least > 0, found.least_reduce > 0) == told


def test_limits_of_a_size() -> None:
    """Ten nodes of degree 3: three and six others at distances 1 and 2. Of eleven two-way, one at 3."""
    found = design_limits(10, 3, False, NETWORK, 40)
    assert (found.steps, found.t_b) == (2, Fraction(9, 10))
    assert (found.mean_distance, found.pair_rate) == (Fraction(15, 9), Fraction(3, 15))
    assert found.allreduce_s == pytest.approx(2 * 2 * 0.5 + 0.9 * (2 * 5 + 10))
    assert found.alltoall_s == pytest.approx(5 * 3 / (10 * 0.2))
    both = design_limits(11, 3, True, NETWORK, 40)
    assert (both.steps, both.mean_distance, both.pair_rate) == (3, Fraction(18, 10), Fraction(3, 18))
    assert design_limits(11, 3, False, NETWORK, 40).steps == 2


@pytest.mark.parametrize(
    ("nodes", "degree", "message"),
    [
        (
            9,
            3,
            "design: 9 nodes of degree 3 have 27 ports, an odd number, and bidirectional links use two "
            "each, so no such fabric is possible; drop --bidirectional or make one of the numbers even",
        ),
        (
            4,
            1,
            "design: bidirectional links of degree 1 connect nodes in pairs, so no fabric of 4 nodes is "
            "possible; drop --bidirectional or take a higher degree",
        ),
    ],
)
def test_sizes_without_pairs(nodes: int, degree: int, message: str) -> None:
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        check_pairs(nodes, degree)


def test_sizes_with_pairs() -> None:
    for nodes, degree in ((2, 1), (4, 2), (9, 4), (4, 3)):
        check_pairs(nodes, degree)


@pytest.mark.parametrize(
    ("text", "nodes", "links"),
    [("torus(3, 3)", 9, 36), ("path(8)", 8, 14), ("complete(8)", 8, 56), ("uni_ring(4, 9)", 9, 36)],
)
def test_named_fabrics_are_of_the_size(text: str, nodes: int, links: int) -> None:
    message = (
        f"design: {text} has {nodes} nodes and {links} links; expected a regular fabric of 8 nodes of "
        "degree 4 without switches"
    )
    with pytest.raises(TopologyError, match=f"^{re.escape(message)}$"):
        named_option(text, 8, 4)


@pytest.mark.parametrize(
    ("nodes", "degree", "found"),
    [
        (10, 3, ["jellyfish(10, 3)"]),
        (12, 3, ["jellyfish(12, 3)", "xpander(3, 3)"]),
        (15, 4, ["jellyfish(15, 4)", "xpander(4, 3)"]),
        (9, 3, []),
        (15, 3, []),
        (5, 4, []),
        (6, 4, ["jellyfish(6, 4)"]),
        (12, 2, []),
        (1000, 4, ["jellyfish(1000, 4)", "xpander(4, 200)"]),
        (1001, 4, []),
    ],
)
def test_random_graphs_that_there_are(nodes: int, degree: int, found: list[str]) -> None:
    (_, kautz), *random_graphs = candidates._usual_graphs(nodes, degree)
    assert kautz == f"generalized_kautz({degree}, {nodes})"
    assert [text for _, text in random_graphs] == found
    assert [name for name, _ in random_graphs] == [text.partition("(")[0] for text in found]


@dataclass(frozen=True)
class Figures:
    """Of a graph, or of an effort with such ones."""

    steps: int = 0
    t_b_both: Fraction = Fraction(0)
    found: tuple[Figures, ...] = ()

    @property
    def cost(self) -> tuple[int, Fraction]:
        return self.steps, self.t_b_both


def test_what_a_known_fabric_is_as_good_as_is_left_out() -> None:
    known = [
        type("Known", (), {"candidate": Figures(steps, Fraction(t_b))}) for steps, t_b in ((3, 4), (5, 2))
    ]
    graphs = {
        place: Figures(*place)
        for place in ((3, Fraction(4)), (2, Fraction(5)), (5, Fraction(3)), (9, Fraction(1)))
    }
    efforts = [Figures(found=tuple(graphs.values())), Figures(found=(graphs[3, Fraction(4)],))]
    first, second = cast(tuple[Figures, Figures], improving(cast(Any, efforts), cast(Any, known)))
    assert first.found == (graphs[2, Fraction(5)], graphs[9, Fraction(1)])
    assert second.found == ()


@pytest.mark.parametrize(
    ("by", "is_better"),
    [
        ([(3, 5)], False),
        ([(2, 5)], True),
        ([(3, 4)], True),
        ([(2, 6), (4, 4)], False),
        ([(4, 6), (2, 4)], True),
        ([], False),
    ],
)
def test_fabrics_that_are_beaten(by: list[tuple[int, int]], is_better: bool) -> None:
    found = is_beaten(3, Fraction(5), [(steps, Fraction(t_b)) for steps, t_b in by])
    assert found == is_better


def test_known_fabrics_beside_a_design() -> None:
    """A ring of ten one way takes nine steps; fat trees as many as three ports at once double for."""
    found = {one.name: one for one in known_fabrics(10, 3)}
    assert found["uni_ring(3, 10)"] == KnownFabric("uni_ring(3, 10)", 10, 3, 9, Fraction(9, 10))
    kautz = found["generalized_kautz(3, 10)"]
    assert (kautz.nodes, kautz.ports) == (10, 3)
    trees = [one for one in found.values() if "fat_tree" in one.name]
    assert trees
    for tree in trees:
        planes, _, expression = tree.name.partition(" x ")
        n = len(parse(expression).compute_nodes)
        assert (planes, tree.nodes, tree.ports) == ("3", n, 3)
        assert 4 ** (tree.steps - 1) < n <= 4**tree.steps
        assert tree.t_b == Fraction(n - 1, n)
    one = KnownFabric("own", 10, 3, 7, Fraction(3, 2))
    assert one.allreduce_s(NETWORK, 16) == pytest.approx(2 * 7 * 0.5 + 1.5 * (2 * 2 + 4))


@pytest.mark.parametrize(
    ("nodes", "degree", "names"),
    [
        (16, 4, ["torus", "bi_ring(4, 16)", "shifted_ring(16)", "generalized_kautz(4, 16)", "dragonfly"]),
        (7, 4, ["torus", "bi_ring(4, 7)", "generalized_kautz(4, 7)", "dragonfly"]),
        (8, 2, ["torus", "bi_ring(2, 8)", "generalized_kautz(2, 8)", "dragonfly"]),
        (3, 3, ["torus", "uni_ring(3, 3)", "dragonfly"]),
        (5, 1, ["uni_ring(1, 5)", "dragonfly"]),
        (2, 2, ["torus", "uni_ring(2, 2)", "dragonfly"]),
    ],
)
def test_direct_fabrics_that_people_know(nodes: int, degree: int, names: list[str]) -> None:
    from treadle.finder.designing.known_fabrics import _direct_names

    found = [
        name.partition("(")[0] if name.startswith(("torus", "dragonfly")) else name
        for name in _direct_names(nodes, degree)
    ]
    assert found == names


def test_what_groups_cost_a_placement(torus: Option) -> None:
    """Groups of three: 4/3 of a link for each tree; half a second a hop, nine bytes at 8 bytes/s."""
    calls = workload(
        Call(GATHER, 9, Fraction(2), 3),
        Call(SCATTER, 9, Fraction(3), 3),
        Call(SUM, 9, Fraction(5), 3, 3),
        Call(EXCHANGE, 9, Fraction(7), 3),
        Call(SUM, 9, Fraction(11)),
        Call(SUM, 9, Fraction(11), 9),
    )
    moved, added = 9 / 8, 9 / 4
    near, far = rank_groups(torus, calls, NETWORK)
    assert (near.size, near.stride, near.graph) == (3, 1, 0)
    assert near[3:] == pytest.approx(
        ((2 + 3 + 7) * 0.5, 4 / 3 * (2 * moved + 3 * (moved + added)), 7 * moved / 27)
    )
    assert (far.size, far.stride, far.graph) == (3, 3, 0)
    assert far[3:] == pytest.approx((2 * 5 * 0.5, 4 / 3 * 5 * (2 * moved + added), 0))
    one_way = named_option("uni_ring(2, 6)", 6, 2)
    kinds = rank_groups(one_way, workload(Call(SUM, 6, Fraction(1), 3)), NETWORK)
    assert [(kind.graph, kind.hop_price) for kind in kinds] == [(0, 0.5), (1, 0.5)]
    assert [kind.load_price for kind in kinds] == pytest.approx([2 / 3 * 6 / 8, 2 / 3 * (6 / 8 + 6 / 4)])


def test_work_for_placements() -> None:
    usual = PlacementPace.of(3, is_searched=False)
    more = PlacementPace.of(3, is_searched=True)
    assert (usual.seed, usual.links, usual.rates) == (3, 16_000_000, 2 * 10**9)
    assert (more.seed, more.links, more.rates) == (3, 160_000_000, 2 * 10**10)


def test_sheets_of_fabrics_in_their_own_order(torus: Option) -> None:
    first, second, *_ = placement_sheet(torus).splitlines()
    assert (first, second) == ("rank,node,number", "0,n0_0,0")


def test_axes_gathered_in_blocks() -> None:
    assert list(hybrids._partitions((1, 2, 3))) == [
        ((1,), (2,), (3,)),
        ((1, 2), (3,)),
        ((2,), (1, 3)),
        ((1,), (2, 3)),
        ((1, 2, 3),),
    ]
    assert list(hybrids._shares(2, 2)) == [(0, 2), (1, 1), (2, 0)]
    assert len(list(hybrids._shares(4, 3))) == 15
    assert all(sum(shares) == 4 for shares in hybrids._shares(4, 3))


def test_meshes_have_four_axes_at_most() -> None:
    def axes(*groups: tuple[int, int]) -> tuple[int, ...]:
        calls = (Call(GATHER, 1, Fraction(1), size, stride) for size, stride in groups)
        return hybrids.mesh_sizes(workload(*calls), 240)

    assert axes((2, 1), (3, 2), (4, 6)) == (10, 4, 3, 2)
    assert axes((2, 1), (3, 2), (4, 6), (5, 24)) == ()
    assert axes((240, 1)) == (240,)
