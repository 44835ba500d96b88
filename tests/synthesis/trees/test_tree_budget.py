"""Which number of trees is taken: powers of two of chunks, limits, capacities that switches can pass on."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees import (
    DYADIC_LOSS,
    TreeBudget,
    dyadic_alternative,
    fixed_trees,
    synthesise,
    tree_units,
)
from treadle.synthesis.trees.fixed_trees import fixed_trees_optimum, floor_capacities, scale_bound
from treadle.synthesis.trees.instance import Instance, find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tree_budget import MOST_SCANNED
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.topologies.transforms.balance import balanced_capacities
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify

PREFERRED = TreeBudget(dyadic_loss=DYADIC_LOSS)


@pytest.mark.parametrize(
    ("fabric", "kind", "trees", "loss"),
    [
        ("dgx_a100(2)", CollectiveKind.ALLGATHER, 8, Fraction(1, 481)),
        ("dgx_a100(2)", CollectiveKind.ALLREDUCE, 8, Fraction(1, 481)),
        ("mi250(2)", CollectiveKind.ALLGATHER, 16, Fraction(59, 6059)),
        ("mi250(2, 8)", CollectiveKind.ALLGATHER, 16, Fraction(3, 403)),
        ("dgx_h100(2)", CollectiveKind.ALLGATHER, 2, Fraction(0)),
        ("mi250(4)", CollectiveKind.ALLGATHER, 8, Fraction(0)),  # 3 attain the optimum too
        ("dgx_h100(3)", CollectiveKind.ALLGATHER, 10, Fraction(0)),  # 24 ranks
        ("mi250(2)", CollectiveKind.BROADCAST, 16, Fraction(0)),
    ],
)
def test_chunks_are_a_power_of_two_where_that_loses_little(
    fabric: str, kind: CollectiveKind, trees: int, loss: Fraction
) -> None:
    topology = parse(fabric)
    collective = on_all_ranks(topology, kind, root=0 if kind.is_rooted else None)
    made = synthesise(topology, collective, budget=PREFERRED)
    assert made.trees_per_root == trees
    assert 1 - made.algbw / (made.rs_ag or made.bound.algbw) == loss
    assert not verify(topology, collective, made.schedule, claimed_algbw=made.algbw).violations


def test_a_rank_with_the_only_shard_needs_no_link_that_enters() -> None:
    builder = TopologyBuilder("one way")
    for name in ("a", "b"):
        builder.compute(name)
    builder.link("a", "b", 3)
    topology = builder.build()
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1), weights=(1, 0))
    made = synthesise(topology, collective, budget=PREFERRED)
    assert made.algbw == made.bound.algbw == 3
    assert not verify(topology, collective, made.schedule, claimed_algbw=made.algbw).violations


def test_fewer_chunks_before_less_loss() -> None:
    """4 trees lose 1.10%, 8 and 16 lose 0.21%, 32 and 64 no more."""
    topology = parse("dgx_a100(2)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)

    def trees(loss: Fraction) -> int:
        return synthesise(topology, collective, budget=TreeBudget(dyadic_loss=loss)).trees_per_root

    assert [trees(Fraction(loss, 1000)) for loss in (12, 11, 3, 2)] == [1, 1, 8, 13]
    assert trees(Fraction(0)) == 13


def test_factored_forests_have_the_same_preferences() -> None:
    topology = parse("mi250(2)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    made = decompose(topology, collective, budget=PREFERRED)
    assert not isinstance(made, Unsupported)
    assert (made.trees_per_root, made.algbw) == (16, Fraction(25600, 73) * 10**9)
    half = parse("mi250(2, 8)")
    made = decompose(half, on_all_ranks(half, CollectiveKind.ALLGATHER), budget=PREFERRED)
    assert not isinstance(made, Unsupported)
    # the optimum is proved by the 13 trees that attain it, though others are taken
    assert (made.trees_per_root, made.exact_trees) == (16, 13)
    assert made.optimum.algbw == 208 * 10**9


@pytest.mark.parametrize(
    ("weights", "per_rank", "numbers"),
    [
        ([1] * 8, 16, [1, 2, 4, 8, 16]),
        ([0, 1, 0, 0], 16, [1, 2, 4, 8, 16, 32, 64]),
        ([1] * 24, 16, []),
        ([1, 2, 1], 16, []),
    ],
)
def test_numbers_that_make_a_power_of_two(weights: list[int], per_rank: int, numbers: list[int]) -> None:
    assert PREFERRED.dyadic_numbers(weights, per_rank) == numbers
    assert TreeBudget(max_trees=4, dyadic_loss=DYADIC_LOSS).dyadic_numbers(weights, per_rank) == []


def test_what_a_power_of_two_would_cost() -> None:
    topology = parse("dgx_h100(3)")
    trees, loss = dyadic_alternative(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    assert trees == 4
    assert float(loss) == pytest.approx(0.0024, abs=5e-5)


def test_large_limits_are_not_searched_number_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million would take minutes; 13 trees attain the optimum, however many are allowed."""
    assert MOST_SCANNED < 2**15
    for module in ("tight_cuts.decompose", "tree_units"):
        monkeypatch.setattr(f"treadle.synthesis.trees.{module}.MOST_SCANNED", 2**8)
    counted: list[int] = []

    def seen(*args: Any, **options: Any) -> Fraction:
        counted.append(1)
        return scale_bound(*args, **options)

    for module in (fixed_trees, tree_units):
        monkeypatch.setattr(module, "scale_bound", seen)
    topology = parse("dgx_a100(2)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    made = synthesise(topology, collective, budget=TreeBudget(max_trees=2**20))
    assert (made.trees_per_root, made.algbw) == (13, made.bound.algbw)
    assert 0 < len(counted) < 2**9


def test_limits_of_an_allreduce_hold_for_both_directions_together() -> None:
    """Where each would take another number, and equal ones would be too many."""
    builder = TopologyBuilder("uneven")
    for name in "abc":
        builder.compute(name)
    for tail, head, bandwidth in (("a", "b", 3), ("b", "c", 3), ("c", "a", 3), ("a", "c", 4), ("c", "b", 2)):
        builder.link(tail, head, bandwidth)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    best: dict[int, Fraction] = {}
    for trees in range(1, 7):
        made = synthesise(topology, collective, budget=TreeBudget(trees=trees))
        best[trees] = max([made.algbw, *best.values()])
        within = synthesise(topology, collective, budget=TreeBudget(max_trees=trees))
        assert within.trees_per_root <= trees
        assert within.algbw == best[trees]


def cut_holds(problem: Instance, capacities: np.ndarray, trees: int) -> bool:
    """Condition C by brute force: every set that leaves out a rank has enough capacity out of it."""
    nodes = range(problem.n_nodes)
    weight = dict(zip(problem.terminals.tolist(), problem.weights.tolist(), strict=True))
    for size in range(1, problem.n_nodes):
        for inside in combinations(nodes, size):
            if set(weight) <= set(inside):
                continue
            leaving = sum(
                int(c)
                for t, h, c in zip(problem.tails, problem.heads, capacities, strict=True)
                if t in inside and h not in inside
            )
            if leaving < trees * sum(weight.get(v, 0) for v in inside):
                return False
    return True


def holds(problem: Instance, scale: Fraction, trees: int) -> bool:
    """Whether some whole capacities up to the floors are balanced at relays and hold the trees."""
    floors = floor_capacities(problem.bandwidths, scale).tolist()
    for choice in product(*(range(floor + 1) for floor in floors)):
        surplus = np.zeros(problem.n_nodes, dtype=int)
        np.add.at(surplus, problem.heads, choice)
        np.subtract.at(surplus, problem.tails, choice)
        if not surplus[problem.relays].any() and cut_holds(problem, np.array(choice), trees):
            return True
    return False


def linked(*links: tuple[str, str, int]) -> Topology:
    """Nodes g* are ranks, s* switches."""
    builder = TopologyBuilder("linked")
    for name in sorted({name for tail, head, _ in links for name in (tail, head)}):
        builder.compute(name) if name.startswith("g") else builder.switch(name)
    for tail, head, bandwidth in links:
        builder.link(tail, head, bandwidth)
    return builder.build()


PARALLEL = linked(
    ("g1", "s0", 2), ("s0", "g0", 2), ("g0", "g1", 2), ("g0", "s0", 6), ("s0", "g1", 5), ("s0", "g1", 1)
)  # fmt: skip
JOINED = linked(
    ("g0", "s0", 5), ("s0", "g1", 5), ("g1", "g0", 5), ("g1", "s0", 8), ("s0", "g0", 4), ("s0", "g0", 4)
)  # fmt: skip
BACK = linked(
    ("s0", "g0", 6), ("g0", "g1", 8), ("g1", "s0", 6), ("g1", "g0", 4), ("g0", "s0", 5), ("g0", "s0", 5),
    ("s0", "g1", 10),
)  # fmt: skip
NOT_AT_ALL = linked(
    ("g2", "g1", 10), ("g1", "g0", 5), ("g0", "s0", 5), ("s0", "g2", 8), ("g1", "s0", 3), ("g1", "s0", 4),
    ("s0", "g0", 4),
)  # fmt: skip


@pytest.mark.parametrize(
    ("topology", "trees", "loss"),
    [
        (PARALLEL, 1, 0),
        (JOINED, 1, 0),
        (JOINED, 2, 0),
        (BACK, 1, 0),
        (NOT_AT_ALL, 1, Fraction(1, 4)),
        (NOT_AT_ALL, 2, Fraction(1, 6)),
    ],
)
def test_no_smaller_scale_has_capacities_that_switches_pass_on(
    topology: Topology, trees: int, loss: Fraction
) -> None:
    """The floors of the paper's scale are uneven there, and taking off surplus hurts; by brute force."""
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    fixed = fixed_trees_optimum(problem, instance_optimum(problem), trees)
    floors = floor_capacities(problem.bandwidths, fixed.scale)
    trimmed = balanced_capacities(problem.tails, problem.heads, floors, problem.relays.tolist())
    assert find_violated_cut(problem, trimmed, multiplicity=trees) is not None
    made = synthesise(topology, collective, budget=TreeBudget(trees=trees))
    assert made.trees_per_root == trees
    assert 1 - made.algbw / fixed.algbw == loss
    assert bool(loss) == "".join(made.notes).startswith("no capacities up to floor(U b)")
    assert not verify(topology, collective, made.schedule, claimed_algbw=made.algbw).violations
    scale = Fraction(len(collective.ranks) * trees) / made.algbw
    widths = set(problem.bandwidths.tolist())
    below = max(Fraction(j, b) for b in widths for j in range(int(scale * b) + 1) if Fraction(j, b) < scale)
    assert holds(problem, scale, trees)
    assert not holds(problem, below, trees)
