"""Bounds of allreduces on many ranks: as that of one group, equal to what the program by cuts says."""

from fractions import Fraction

import pytest

from treadle import planning
from treadle.schedules.group_witness import GroupLengthWitness
from treadle.synthesis.trees.allreduce import allreduce_bound


@pytest.mark.parametrize("fabric", ["dgx_a100:32", "leaf_spine:4,2,gpus_per_leaf=36"])
def test_both_ways_find_the_same_optimum(fabric: str) -> None:
    found = planning.bound(fabric, "allreduce")
    assert isinstance(found.bound.witness, GroupLengthWitness)
    assert found.bound.is_tight
    posed = planning.pose(fabric, "allreduce")
    by_cuts = allreduce_bound(posed.topology, posed.collective)
    assert by_cuts.is_attained
    assert found.algbw == by_cuts.algbw == found.bound.witness.bound(posed.topology, posed.collective)


def test_65536_ranks() -> None:
    fabric = "leaf_spine:128,16,gpus_per_leaf=512,oversubscription=4"
    found = planning.bound(fabric, "allreduce")
    # every GPU's link carries each share of the others twice
    assert found.bound.is_tight
    assert found.algbw == found.bound.witness.bound(found.topology, found.collective)
    assert found.algbw == Fraction(50 * 10**9 * 65536, 2 * 65535)


def test_fabrics_of_few_ranks_or_few_links_alike_keep_the_program_by_cuts() -> None:
    few = planning.bound("dgx_a100:2", "allreduce")
    assert not isinstance(few.bound.witness, GroupLengthWitness)
    # all but the mirror images of a link differ: 155 classes
    many = planning.bound("torus:12,12", "allreduce", without="n0_0--n0_1")
    assert not isinstance(many.bound.witness, GroupLengthWitness)
    assert many.algbw == Fraction(287, 143)
