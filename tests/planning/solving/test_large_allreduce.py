"""Bounds of allreduces on many ranks: as that of one group, equal to what the program by cuts says."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import treadle
from treadle import planning
from treadle.errors import InfeasibleError
from treadle.schedulers.bounds import equal_length_bound, large_allreduce, regular_allreduce
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.class_optima import ClassProblem
from treadle.synthesis.trees.allreduce import allreduce_bound


@pytest.mark.parametrize("fabric", ["dgx_a100:32", "leaf_spine:4,2,gpus_per_leaf=36"])
def test_both_ways_find_the_same_optimum(fabric: str) -> None:
    found = planning.bound(fabric, "allreduce")
    assert isinstance(found.bound.certificate, GroupDualCertificate)
    assert found.bound.is_tight
    posed = planning.make_problem(fabric, "allreduce")
    by_cuts = allreduce_bound(posed.topology, posed.collective)
    assert by_cuts.is_attained
    assert found.algbw == by_cuts.algbw == found.bound.certificate.bound(posed.topology, posed.collective)


def test_65536_ranks() -> None:
    fabric = "leaf_spine:128,16,gpus_per_leaf=512,oversubscription=4"
    found = planning.bound(fabric, "allreduce")
    # every GPU's link carries each share of the others twice
    assert found.bound.is_tight
    assert found.algbw == found.bound.certificate.bound(found.topology, found.collective)
    assert found.algbw == Fraction(50 * 10**9 * 65536, 2 * 65535)


def test_beyond_a_thousand_ranks_pieces_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a hundredth of the time of all ranks as one group; what they cannot prove goes there."""
    found = planning.bound("dgx_a100:130", "allreduce")
    assert found.bound.is_tight
    assert found.algbw == found.bound.certificate.bound(found.topology, found.collective)
    assert found.algbw == Fraction(8 * 25 * 10**9 * 130, 2 * 129)  # a box: cards, twice all but its shards

    def reached(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr("treadle.schedulers.bounds.groups_optimum", reached)
    assert planning.bound("dgx_a100:130", "allreduce").algbw == found.algbw
    assert planning.bound("hypercube:11", "allreduce").bound.is_tight
    monkeypatch.setattr("treadle.schedulers.bounds.regular_allreduce", lambda _: None)
    with pytest.raises(LookupError):
        planning.bound("hypercube:11", "allreduce")


def test_fabrics_of_few_ranks_or_few_links_alike_keep_the_program_by_cuts() -> None:
    few = planning.bound("dgx_a100:2", "allreduce")
    assert not isinstance(few.bound.certificate, GroupDualCertificate)
    # all but the mirror images of a link differ: 155 classes
    many = planning.bound("torus:12,12", "allreduce", without="n0_0--n0_1")
    assert not isinstance(many.bound.certificate, GroupDualCertificate)
    assert many.algbw == Fraction(287, 143)


def test_a_single_capped_host_keeps_the_program_by_cuts() -> None:
    ring = treadle.parse("ring:130")
    caps = np.zeros(130, dtype=np.int64)
    caps[7] = 1
    problem = planning.make_problem(replace(ring, injection_bytes_per_s=caps), "allreduce")
    assert large_allreduce(problem) is None
    assert large_allreduce(planning.make_problem(ring, "allreduce")) is not None


@pytest.mark.parametrize(
    ("fabric", "failed", "shards", "gain"),
    [
        ("dgx_h100:40", "box0.gpu0--ib0", (7, 46), Fraction(319, 280)),
        ("mi300x:40", "box0.gpu[0-1]--ib0,box7.gpu3--ib0", None, None),
        ("mi250:18", "box0.gpu0--ib0", None, None),
        ("rail_optimized:40", "box5.gpu1--rail1", (7, 46), Fraction(319, 280)),
    ],
)
def test_boxes_that_lost_cards_are_roots_of_more(
    fabric: str, failed: str, shards: tuple[int, int] | None, gain: Fraction | None
) -> None:
    """Factored, equal to a bound that link lengths prove, and faster than with equal shards."""
    found = planning.solve(fabric, "allreduce", without=failed.split(","))
    schedule = found.plan.entries[-1].schedule
    assert isinstance(schedule, FactoredSchedule)
    assert found.report.is_ok
    assert found.is_optimal
    assert found.bound is not None
    assert isinstance(found.bound.certificate, GroupDualCertificate)
    assert found.bound.certificate.bound(found.plan.topology, found.plan.collective) == found.plan.algbw
    multiplicity = schedule.root_multiplicity
    assert multiplicity.min() < multiplicity.max()
    assert any("of unequal shards" in note for note in found.notes)
    equal = planning.solve(fabric, "allreduce", algorithm="rs-ag", without=failed.split(","))
    assert equal.plan.algbw < found.plan.algbw
    if gain is not None:
        assert found.plan.algbw / equal.plan.algbw == gain
        assert {int(multiplicity.min()), int(multiplicity.max())} == set(shards or ())


def test_unequal_shards_in_pieces_move_data_and_are_lowered() -> None:
    found = planning.solve("mi300x:3", "allreduce", form="factored", without="box0.gpu[0-1]--ib0")
    schedule = found.plan.entries[-1].schedule
    assert isinstance(schedule, FactoredSchedule)
    assert schedule.root_multiplicity.min() < schedule.root_multiplicity.max()
    assert planning.run(found.plan, [4096]).wrong == 0
    assert not planning.lower(found.plan, to="cpu-xml").faults


def test_a_number_of_trees_is_for_equal_shards() -> None:
    fabric, failed = "dgx_h100:40", "box0.gpu0--ib0"
    fixed = planning.solve(fabric, "allreduce", trees=1, without=failed)
    multiplicity = fixed.plan.entries[-1].schedule.root_multiplicity
    assert multiplicity.min() == multiplicity.max() == 1
    # the bound is that of all allreduces, whatever was asked for
    assert fixed.bound is not None
    assert fixed.bound.algbw > fixed.plan.algbw
    few = planning.solve(fabric, "allreduce", max_trees=7, without=failed)
    assert few.plan.entries[-1].schedule.total_units <= 7 * 320
    most = planning.solve(fabric, "allreduce", max_trees=8, without=failed)
    assert most.plan.algbw == fixed.bound.algbw


def test_beyond_8192_ranks_forests_attain_what_bounds_them() -> None:
    found = planning.bound("dgx_h100:1025", "allreduce", without="box0.gpu0--ib0")
    assert found.bound.is_tight
    assert isinstance(found.bound.certificate, GroupDualCertificate)
    assert found.algbw == Fraction(50 * 10**9 * (8200 - 1), 2 * 1024)


def test_ranks_without_links_have_no_bound() -> None:
    with pytest.raises(InfeasibleError, match="cannot reach"):
        planning.bound("gb200_nvl72(1, gpus_per_rack=200)", "allreduce", without="rack0.nvswitch")


def test_clusters_that_lost_ranks_keep_a_bound_at_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what programs by cuts are for, lengths between boxes: above the optimum, and said so."""
    exact = planning.bound("dgx_h100:40", "allreduce", without="box3.gpu1")
    monkeypatch.setattr("treadle.schedulers.bounds.MAX_RANKS_BY_PROGRAM", 1)
    monkeypatch.setattr("treadle.schedulers.bounds.large_allreduce", lambda _: None)
    rough = planning.bound("dgx_h100:40", "allreduce", without="box3.gpu1")
    assert not rough.bound.is_tight
    assert exact.algbw <= rough.algbw <= exact.algbw * Fraction(101, 100)
    assert rough.bound.certificate.bound(rough.topology, rough.collective) == rough.algbw


@pytest.mark.parametrize("nic", ["2GB/s", "100GB/s"])
def test_rails_that_lost_a_rank_are_solved(nic: str) -> None:
    """The switches of some rails lack a rank, so layers of racks may not balance them."""
    fabric = f'rail_optimized(6, gpus_per_box=4, nvlink_bandwidth="450GB/s", nic_bandwidth="{nic}")'
    found = planning.solve(fabric, "reduce-scatter", without="box2.gpu0", form="factored")
    assert found.report.is_ok


def test_equal_lengths_are_the_optimum_only_where_allgathers_attain_it() -> None:
    """Two regular halves that two cables join: every node has degree 4, but the cut between them binds."""
    builder = treadle.TopologyBuilder("two halves")
    for half in "ab":
        names = [builder.compute(f"{half}{i}") for i in range(70)]
        for i in range(70):
            for step in (1, 2):
                if (i, step) != (0, 1):
                    builder.duplex(names[i], names[(i + step) % 70], 1)
    for i in range(2):
        builder.duplex(f"a{i}", f"b{i}", 1)
    problem = planning.make_problem(builder.build(), "allreduce")
    rough = equal_length_bound(problem)
    assert rough is not None
    assert (rough.algbw, rough.is_tight) == (Fraction(280, 139), False)
    assert regular_allreduce(problem) is None
    torus = regular_allreduce(planning.make_problem("torus:12,12", "allreduce"))
    assert torus is not None
    assert (torus.algbw, torus.is_tight) == (Fraction(288, 143), True)


def test_lengths_of_classes_are_the_optimum_only_where_allgathers_attain_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = planning.bound("dgx_h100:130", "allreduce").algbw
    found = ClassProblem.allreduce_bound

    def twice(problem: ClassProblem) -> tuple[Fraction, GroupDualCertificate] | None:
        proved = found(problem)
        return None if proved is None else (2 * proved[0], proved[1])

    monkeypatch.setattr(ClassProblem, "allreduce_bound", twice)
    assert planning.bound("dgx_h100:130", "allreduce").algbw == expected
