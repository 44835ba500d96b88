"""Rates that follow from others, against those worked out."""

from __future__ import annotations

from math import inf

import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.searching.large_costs import LargeCosts, costs_of_any_size, has_equal_pairs
from treadle.planning import step_costs
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse, without_failures

SIZE = 2**28


KINDS = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)


@pytest.mark.parametrize("axes", [("0",), ("1",), ("0", "1"), ()])
def test_what_follows_is_what_is_worked_out(axes: tuple[str, ...]) -> None:
    true = step_costs("dgx_h100:4", "4,8", simulates=False)
    for kind in KINDS:
        found = LargeCosts(true).time_s(kind, axes, SIZE)
        assert found == pytest.approx(true.time_s(kind, axes, SIZE), rel=1e-3)


def test_small_fabrics_have_their_own_costs() -> None:
    small = step_costs("ring:4", "4")
    assert costs_of_any_size(small) is small
    assert isinstance(costs_of_any_size(step_costs("dgx_h100:128", "128,8")), LargeCosts)


def test_all_to_alls_of_tens_of_thousands_have_no_price_but_within_blocks() -> None:
    true = step_costs("dgx_h100:1024", "1024,8")
    with pytest.raises(ScheduleError, match="at most 4096"):
        true.time_s(CollectiveKind.ALLTOALL, ("0",), SIZE)
    large = LargeCosts(true)
    assert large.time_s(CollectiveKind.ALLTOALL, ("0",), SIZE) == inf
    box = step_costs("dgx_h100:1", "8").time_s(CollectiveKind.ALLTOALL, ("0",), SIZE)
    # alone a box has its switch only; among others the network helps a little
    assert 0.85 * box < large.time_s(CollectiveKind.ALLTOALL, ("1",), SIZE) <= box


def test_groups_of_all_ranks_are_bounded_as_no_groups_are() -> None:
    """16,384 ranks in one group, and in boxes and across them, in a second or so each."""
    large = LargeCosts(step_costs("dgx_h100:2048", "2048,8"))
    gather, whole = CollectiveKind.ALLGATHER, 2.0**40
    for axes, algbw in ((("0", "1"), 400e9 * 2048 / 2047), (("1",), 4e12 / 7), (("0",), 50e9 * 2048 / 2047)):
        # beside latencies
        assert large.time_s(gather, axes, whole) == pytest.approx(whole / algbw, rel=1e-3)


def test_pairs_of_links() -> None:
    fabric = parse("dgx_a100:2")
    assert has_equal_pairs(fabric)
    assert not has_equal_pairs(parse("generalized_kautz:2,6"))
    assert has_equal_pairs(without_failures(fabric, "box0.nic0--*"))
