"""Published optima, worked examples and tables of ForestColl."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest_cost import algbw, height_max
from treadle.synthesis.result import Result
from treadle.synthesis.trees import Packer, TreeBudget, optimum, prune_for_switches, synthesise
from treadle.synthesis.trees.fixed_trees import exact_scale
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.verification.schedules import verify

GB = 10**9


def solve_and_verify(
    topology: Topology, kind: CollectiveKind, budget: TreeBudget, packer: Packer | None = None
) -> tuple[Fraction, int]:
    result = verified(topology, kind, budget, packer)
    return result.algbw, result.trees_per_root


def verified(
    topology: Topology, kind: CollectiveKind, budget: TreeBudget, packer: Packer | None = None
) -> Result:
    collective = on_all_ranks(topology, kind, root=0 if kind.is_rooted else None)
    result = synthesise(topology, collective, budget=budget, packer=packer)
    report = verify(
        topology,
        collective,
        result.schedule,
        claimed_algbw=result.algbw,
        claimed_optimal_algbw=result.bound.algbw,
        certificate=result.bound.certificate,
    )
    assert not report.violations
    return result


@pytest.mark.parametrize(
    ("fabric", "gb_per_s", "trees"),
    [
        ("dgx_a100_flat(1)", Fraction(2400, 7), 1),
        ("dgx_a100(2)", Fraction(1040, 3), 13),
        ("dgx_a100(2, pcie=True)", Fraction(5312, 15), None),
        ("dgx_a100_flat(2)", Fraction(1040, 3), 13),
        ("dgx_a100_flat(4)", Fraction(800, 3), None),
        ("dgx_a100_flat(8)", Fraction(1600, 7), None),
        ("dgx_a100_flat(128)", Fraction(25600, 127), 1),
        ("mi250(1)", Fraction(2400, 7), 3),
        ("mi250(2)", Fraction(5312, 15), 83),
        ("mi250(4)", Fraction(1024, 3), 8),
        ("mi250(2, gpus_per_box=8)", Fraction(208), 13),
        ("mi250(64)", Fraction(16384, 63), 8),
    ],
)
def test_exact_optima(fabric: str, gb_per_s: Fraction, trees: int | None) -> None:
    topology = parse(fabric)
    exact = TreeBudget(exact=True)
    made = verified(topology, CollectiveKind.ALLGATHER, exact)
    assert made.algbw == gb_per_s * GB
    problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    published = exact_scale(problem, instance_optimum(problem)).trees  # with whole capacities on every link
    if trees is not None:
        assert published == trees
    if topology.n_nodes < 30:
        grown, number = solve_and_verify(topology, CollectiveKind.ALLGATHER, exact, Packer.GROWTH)
        assert grown == made.algbw
        assert number <= published
    if fabric == "mi250(2)":
        assert made.trees_per_root == 83
        assert height_max(made.schedule) == 6


def test_bound_alone_at_512_boxes() -> None:
    topology = parse("dgx_a100_flat(512)")
    best = optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    assert best.algbw == Fraction(102400, 511) * GB


@pytest.mark.parametrize(
    ("trees", "gb_per_s"),
    [
        (1, Fraction(320)),
        (2, Fraction(1024, 3)),
        (3, Fraction(2400, 7)),
        (4, Fraction(1024, 3)),
        (5, Fraction(8000, 23)),
    ],
)
def test_table_4_1_fixed_trees(trees: int, gb_per_s: Fraction) -> None:
    reached, k = solve_and_verify(parse("mi250(2)"), CollectiveKind.ALLGATHER, TreeBudget(trees=trees))
    assert (reached, k) == (gb_per_s * GB, trees)


def two_boxes_of_four(b: int, *, multicast: bool = False) -> Topology:
    """Figure 4.5a and figure B.1a: 10b to the box switch, b to the switch between the boxes."""
    builder = TopologyBuilder("figure 4.5")
    for box in (1, 2):
        for gpu in range(1, 5):
            builder.compute(f"c{box},{gpu}")
    builder.switch("w0")
    for box in (1, 2):
        builder.switch(f"w{box}", multicast=multicast, turns_round=multicast)
        for gpu in range(1, 5):
            builder.duplex(f"c{box},{gpu}", f"w{box}", 10 * b)
            builder.duplex(f"c{box},{gpu}", "w0", b)
    return builder.build()


@pytest.mark.parametrize("b", [1, 25 * GB])
def test_figures_4_5_to_4_7(b: int) -> None:
    topology = two_boxes_of_four(b)
    best = optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    assert best.rate == b
    reached, k = solve_and_verify(topology, CollectiveKind.ALLGATHER, TreeBudget())
    assert (reached, k) == (8 * b, 1)


def test_figure_4_8_multicast_leaves_one_copy_per_switch() -> None:
    topology = two_boxes_of_four(1, multicast=True)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective)
    pruning = prune_for_switches(topology, result.schedule)
    assert not verify(topology, collective, pruning.schedule).violations
    # An unpruned tree has 7 edges of 2 links; pruned, each box switch is entered once and leaves to its GPUs,
    # and the middle switch is crossed once: 1 + 3, 2, 1 + 3 links per tree.
    assert pruning.traffic_before == 14
    assert pruning.traffic_after == 10
    assert algbw(topology, pruning.schedule) == result.algbw


def test_reverse_collectives_of_a_symmetric_fabric_are_as_fast() -> None:
    topology = parse("mi250(2, gpus_per_box=8)")
    reached, _ = solve_and_verify(topology, CollectiveKind.REDUCE_SCATTER, TreeBudget())
    assert reached == 208 * GB


@pytest.mark.parametrize("kind", [CollectiveKind.BROADCAST, CollectiveKind.REDUCE])
def test_single_root_is_bound_by_the_box_cut(kind: CollectiveKind) -> None:
    reached, _ = solve_and_verify(parse("dgx_a100(2)"), kind, TreeBudget())
    assert reached == 200 * GB


def test_trees_of_large_a100_fabrics_are_two_hops_high() -> None:
    topology = parse("dgx_a100_flat(16)")
    result = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    assert height_max(result.schedule) == 2


def test_measured_bandwidths_take_few_trees_and_say_what_they_lose() -> None:
    builder = TopologyBuilder("measured")
    for gpu in range(8):
        builder.compute(f"gpu{gpu}")
    builder.switch("fast")
    builder.switch("slow")
    for gpu in range(8):
        builder.duplex(f"gpu{gpu}", "fast", 243_170_000_007)
        builder.duplex(f"gpu{gpu}", "slow", 24_300_000_011)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective)
    assert result.exact_trees_per_root > 64
    assert result.trees_per_root <= 64
    assert Fraction(99, 100) * result.bound.algbw < result.algbw <= result.bound.algbw
    assert not verify(topology, collective, result.schedule, claimed_algbw=result.algbw).violations


def test_a_single_root_may_have_as_many_trees_as_all_ranks_together() -> None:
    fabric, kind = parse("mi250(2)"), CollectiveKind.BROADCAST
    assert solve_and_verify(fabric, kind, TreeBudget(), Packer.GROWTH) == (256 * GB, 16)
    assert solve_and_verify(fabric, kind, TreeBudget()) == (256 * GB, 16)
