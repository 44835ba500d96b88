"""Tight cuts on random nested fabrics: verified forests, optima and fixed k like the pipeline, or reasons."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples.clustered_fabrics import clustered_case
from samples.nested_fabrics import Case, all_cuts_rate, case, written_out
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.fixed_trees import fixed_trees_optimum, floor_capacities
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.optimality import optimum
from treadle.synthesis.trees.packers.packers import Packer
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.switch_removal import unbalanced_relay
from treadle.synthesis.trees.tight_cuts.balancing import balance_capacities
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.tight_cuts import Decomposition
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import parse
from treadle.topologies.topology import MAX_BANDWIDTH, Topology, TopologyBuilder
from treadle.unsupported import Unsupported
from treadle.verification.schedules import Report, verify

BATCHES = [range(start, start + 12) for start in range(0, 24, 12)]


def halves(asked: Case, found: FactoredSynthesis) -> list[tuple[Collective, Decomposition]]:
    """The directions of a collective and what was found for each."""
    kind = asked.collective.kind
    if kind is not CollectiveKind.ALLREDUCE:
        return [(asked.collective, found.parts[0])]
    kinds = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)
    return [(replace(asked.collective, kind=k), p) for k, p in zip(kinds, found.parts, strict=True)]


def check_claims(asked: Case, found: FactoredSynthesis) -> None:
    """Every claim of a decomposition against the whole fabric's own optima."""
    for collective, part in halves(asked, found):
        best = optimum(asked.topology, collective)
        assert part.optimum.certificate.bound(asked.topology, collective) == part.optimum.algbw
        assert part.algbw <= best.algbw <= part.optimum.algbw
        if part.algbw == part.optimum.algbw:
            assert part.optimum.rate == best.rate
        if asked.budget.exact:
            assert part.algbw == best.algbw
        problem = instance_of(asked.topology, collective)
        assert np.array_equal(part.forest.root_multiplicity, part.trees * problem.weights)
        assert part.trees <= (asked.budget.trees or asked.budget.max_trees or part.trees)
        if asked.budget.trees is not None:
            assert part.algbw == fixed_trees_optimum(problem, best, asked.budget.trees).algbw


def check_forest(asked: Case, found: FactoredSynthesis) -> Report:
    """The trees written out, by the verifier that knows nothing of pieces; the factored one has to agree."""
    is_both = (
        asked.collective.kind is CollectiveKind.ALLREDUCE
    )  # two forests may share links better than said
    claims = {} if is_both else {"claimed_algbw": found.algbw, "certificate": found.optimum.certificate}
    report = verify(asked.topology, asked.collective, found.schedule.explicit(), **claims)
    assert report.is_ok, (str(asked), report.violations[:3])
    assert report.algbw is not None
    assert report.algbw >= found.algbw
    factored = verify(asked.topology, asked.collective, found.schedule, **claims)
    assert factored.is_ok, (str(asked), factored.violations[:3])
    assert factored.algbw == report.algbw
    assert report.height_max is not None
    if factored.height_is_exact:
        assert factored.height_max == report.height_max, str(asked)
    else:
        assert factored.height_max >= report.height_max, str(asked)
    return report


def check(asked: Case, *, against_pipeline: bool = True) -> FactoredSynthesis | Unsupported:
    """All properties of one case; what `decompose` returned."""
    topology, collective, budget = asked.topology, asked.collective, asked.budget
    found = decompose(topology, collective, budget=budget)
    if isinstance(found, Unsupported):
        return found
    check_claims(asked, found)
    check_forest(asked, found)
    if against_pipeline:
        assert found.algbw >= synthesise(topology, collective, budget=budget, packer=Packer.GROWTH).algbw
    return found


@pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_what_decomposition_returns_is_verified_and_no_worse_than_the_pipeline(seeds: range) -> None:
    results = []
    for seed in seeds:
        try:
            results.append(check(case(seed), against_pipeline=seed % 5 == 0))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {case(seed)}") from error
    assert sum(not isinstance(found, Unsupported) for found in results) >= len(seeds) // 3


@pytest.mark.parametrize("seed", range(0, 10))
def test_random_collectives_on_clustered_fabrics(seed: int) -> None:
    """Equal links: sets are found by how they are joined, not by bandwidths."""
    check(clustered_case(seed), against_pipeline=seed % 4 == 0)


@pytest.mark.parametrize("seed", range(0, 12, 3))
def test_decomposition_is_deterministic(seed: int) -> None:
    first, second = (
        decompose(again.topology, again.collective, budget=again.budget) for again in (case(seed), case(seed))
    )
    if isinstance(first, Unsupported) or isinstance(second, Unsupported):
        assert first == second
        return
    assert first.schedule == second.schedule
    assert first.algbw == second.algbw
    assert first.optimum == second.optimum


def test_optima_of_tiny_fabrics_are_those_of_all_cuts() -> None:
    tried = 0
    for seed in range(1000, 1150):
        asked = case(seed)
        if asked.topology.n_nodes > 11 or asked.collective.kind is CollectiveKind.ALLREDUCE:
            continue
        found = decompose(asked.topology, asked.collective, budget=TreeBudget(exact=True))
        if isinstance(found, Unsupported):
            continue
        tried += 1
        assert found.optimum.rate == Fraction(*all_cuts_rate(asked.topology, asked.collective)), seed
    assert tried >= 5


@pytest.mark.parametrize("trees", [1, 2**30])
@pytest.mark.parametrize("seed", range(2000, 2012))
def test_trimmed_sets_are_entered_by_what_they_need(seed: int, trees: int) -> None:
    """Generous capacities: they only fall, relays stay balanced, and sets not given up are exactly tight.

    With 2**30 trees the products of capacities and targets exceed 64 bits.
    """
    asked = case(seed)
    problem = instance_of(asked.topology, replace(asked.collective, kind=CollectiveKind.ALLGATHER, root=None))
    family = detect(problem)
    capacities = floor_capacities(
        problem.bandwidths, Fraction(1000 * trees, int(np.median(problem.bandwidths)))
    )
    trimmed = balance_capacities(problem, family, capacities, problem.weights * trees)
    assert np.all(trimmed.capacities <= capacities)
    assert np.all(trimmed.capacities >= 0)
    if unbalanced_relay(problem, capacities) is None:
        assert unbalanced_relay(problem, trimmed.capacities) is None
    for number in np.flatnonzero(~trimmed.failed[1:]) + 1:
        inside = np.zeros(problem.n_nodes, dtype=bool)
        inside[family.members(int(number))] = True
        enters = inside[problem.heads] & ~inside[problem.tails]
        needed = problem.weights[~inside[problem.terminals]].sum() * trees
        assert trimmed.capacities[enters].sum() == needed


DEPTHS = written_out(
    "scsssscscscscccssccsssscssssscsc",
    "17-9:7 1-9:7 23-9:7 17-4:7 1-4:7 23-0:7 4-16:3 0-16:3 27-28:3 13-20:7 10-20:7 18-20:7 13-15:7 "
    "10-15:7 18-2:7 3-21:3 15-21:3 2-5:3 26-16:1 27-7:1 25-28:1 25-7:2 19-5:1 16-24:3 7-11:3 5-24:3 "
    "21-11:3 28-24:2 14-27:4 8-27:4 31-22:4 12-22:4 12-25:4 29-30:4 6-30:4 29-19:1 6-3:3",
    CollectiveKind.ALLGATHER,
    TreeBudget(trees=10),
)
"""One kind of piece at two depths, its children of different kinds."""


def test_kinds_at_several_depths_follow_their_childrens_kinds() -> None:
    assert isinstance(check(DEPTHS), FactoredSynthesis)


FEW_TREES = written_out(
    "ccccccccccccccccsssssssssss",
    "0-1:62 2-3:62 0-1:31 1-2:31 2-3:31 0-16:31 1-16:31 2-17:31 3-17:31 4-5:62 6-7:62 4-5:31 5-6:31 "
    "6-7:31 4-18:31 5-18:31 6-19:31 7-19:31 8-9:62 10-11:62 8-9:31 9-10:31 10-11:31 8-20:31 9-20:31 "
    "10-21:31 11-21:31 12-13:62 14-15:62 12-13:31 13-14:31 14-15:31 12-22:31 13-22:31 14-23:31 15-23:31 "
    "16-24:8 16-25:8 16-26:8 17-24:8 17-25:8 17-26:8 18-24:8 18-25:8 18-26:8 19-24:8 19-25:8 19-26:8 "
    "20-24:8 20-25:8 20-26:8 21-24:8 21-25:8 21-26:8 22-24:8 22-25:8 22-26:8 23-24:8 23-25:8 23-26:8 "
    "25-20:20",
    CollectiveKind.ALLGATHER,
    TreeBudget(),
)
"""The optimum takes few enough trees, but no family of the detected sets attains it."""


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE])
def test_no_forest_below_the_optimum_where_the_pipeline_attains_it(kind: CollectiveKind) -> None:
    collective = replace(FEW_TREES.collective, kind=kind)
    found = check(replace(FEW_TREES, collective=collective))
    assert isinstance(found, Unsupported)
    assert "attain the optimum" in found.reason or "can be made tight" in found.reason


def boxes(count: int, size: int, inner: list[int], outer: list[int], uplink: int = 0) -> Topology:
    """Boxes of ranks with an inner switch; every rank is joined to a switch outside as well.

    With `uplink`, that switch is the box's own, joined to the one outside by a link of so much.
    """
    builder = TopologyBuilder("boxes")
    builder.switch("spine")
    for box in range(count):
        switch = builder.switch(f"s{box}")
        outside = builder.switch(f"leaf{box}") if uplink else "spine"
        for i in range(size):
            rank = builder.compute(f"g{box}.{i}")
            builder.duplex(rank, switch, inner[box % len(inner)])
            builder.duplex(rank, outside, outer[(box * size + i) % len(outer)])
        if uplink:
            builder.duplex(outside, "spine", uplink)
    return builder.build()


@pytest.mark.parametrize("unit", [MAX_BANDWIDTH // 9, MAX_BANDWIDTH // 9 - 1])
@pytest.mark.parametrize("trees", [1, 3, 2**20])
def test_bandwidths_near_the_limit(unit: int, trees: int) -> None:
    topology = boxes(3, 2, [9 * unit], [unit, unit + 1])
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE):
        check(Case(topology, on_all_ranks(topology, kind), TreeBudget(trees=trees)))


@pytest.mark.parametrize("budget", [TreeBudget(), TreeBudget(exact=True), TreeBudget(max_trees=3)])
def test_coprime_huge_bandwidths_are_solved_or_refused(budget: TreeBudget) -> None:
    topology = boxes(3, 2, [MAX_BANDWIDTH], [MAX_BANDWIDTH - 1, MAX_BANDWIDTH - 3], MAX_BANDWIDTH - 5)
    found = check(
        Case(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), budget), against_pipeline=False
    )
    assert not isinstance(found, Unsupported) or re.search("2\\*\\*61|no number of trees", found.reason)


def test_trimming_more_than_a_product_of_64_bits_can_hold() -> None:
    """Uplinks are a little wider than the box needs: (capacity x target) exceeds 2**63."""
    topology = boxes(2, 3, [2**50], [2**48, 2**48 - 1])
    asked = Case(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), TreeBudget(exact=True))
    check(asked, against_pipeline=False)


def test_the_best_number_of_trees_is_taken_not_the_first() -> None:
    topology = boxes(3, 2, [90], [3, 5])
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    of_each = [decompose(topology, collective, budget=TreeBudget(trees=k)) for k in (1, 2, 3, 4)]
    best = decompose(topology, collective, budget=TreeBudget(max_trees=4))
    assert isinstance(best, FactoredSynthesis)
    rates = [one.algbw for one in of_each if isinstance(one, FactoredSynthesis)]
    assert best.algbw == max(rates) > rates[0]


def test_a_scan_of_many_numbers_of_trees_ends_at_the_deadline() -> None:
    topology = boxes(8, 2, [97], [31, 37, 41, 43])
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic())):
        decompose(topology, collective, budget=TreeBudget(max_trees=2**20))


def test_exact_numbers_of_trees_are_found_beyond_a_thousand() -> None:
    """One root may have the trees of all ranks; 504 and 505 are coprime, so all bytes are trees."""
    topology = boxes(10, 2, [5000], [504, 505])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    found = check(Case(topology, collective, TreeBudget()), against_pipeline=False)
    assert isinstance(found, FactoredSynthesis)
    assert found.trees_per_root == 1009
    assert found.algbw == 1009


def test_a_rank_out_of_reach_gives_a_reason_where_the_pipeline_refuses() -> None:
    topology = written_out(
        "ccscccs", "0-2:5 1-2:5 3-6:5 4-6:5 0-3:2 5>0:1", CollectiveKind.ALLGATHER, TreeBudget()
    )
    found = decompose(topology.topology, topology.collective)
    assert isinstance(found, Unsupported)
    with pytest.raises(InfeasibleError, match="cannot reach"):
        synthesise(topology.topology, topology.collective)


@pytest.mark.parametrize("kind", [CollectiveKind.BROADCAST, CollectiveKind.REDUCE])
def test_rooted_collectives_in_boxes_without_the_root(kind: CollectiveKind) -> None:
    topology = boxes(3, 3, [7], [2])
    for root in (0, 4, 8):
        asked = Case(topology, on_all_ranks(topology, kind, root=root), TreeBudget())
        found = check(asked)
        assert isinstance(found, FactoredSynthesis)
        assert found.optimum.algbw == 6


@pytest.mark.parametrize(
    ("weights", "algbw"),
    [((0, 0, 1, 1), Fraction(4)), ((3, 0, 0, 0), Fraction(4)), ((1, 1, 0, 5), Fraction(28, 5))],
)
def test_zero_and_unequal_shards(weights: tuple[int, ...], algbw: Fraction) -> None:
    topology = boxes(2, 2, [9], [2])
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        collective = on_all_ranks(topology, kind, weights=weights)
        found = check(Case(topology, collective, TreeBudget()))
        assert isinstance(found, FactoredSynthesis)
        assert found.algbw == algbw


def test_superposed_layers_of_equal_boxes_whose_ranks_bind() -> None:
    """DGX H100 ratios: up to four boxes the ranks are the bottleneck, and two layers saturate them."""
    for count, size, inner, nic in ((2, 4, 9, 3), (3, 4, 9, 4), (2, 8, 9, 1)):
        topology = boxes(count, size, [inner], [nic])
        asked = Case(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), TreeBudget(exact=True))
        found = check(asked)
        assert isinstance(found, FactoredSynthesis)
        ranks = count * size
        assert found.algbw == Fraction(ranks * (inner + nic), ranks - 1)
        assert found.schedule.broadcast is not None
        assert len(found.schedule.broadcast.layers) == 2


def test_superposed_layers_serve_both_halves_of_an_allreduce() -> None:
    topology = parse("dgx_h100(3)")
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert found.n_layers == 2
    report = verify(topology, collective, found.schedule.explicit(), claimed_algbw=found.algbw)
    assert not report.violations
    assert found.algbw == found.optimum.algbw / 2
