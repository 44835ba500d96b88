"""Rates that follow from others, against those worked out."""

from __future__ import annotations

from math import inf

import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.searching.large_costs import LargeCosts, has_equal_pairs
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


def test_all_to_alls_of_tens_of_thousands_have_no_price_but_within_blocks() -> None:
    true = step_costs("dgx_h100:1024", "1024,8")
    with pytest.raises(ScheduleError, match="at most 4096"):
        true.time_s(CollectiveKind.ALLTOALL, ("0",), SIZE)
    large = LargeCosts(true)
    assert large.time_s(CollectiveKind.ALLTOALL, ("0",), SIZE) == inf
    box = step_costs("dgx_h100:1", "8").time_s(CollectiveKind.ALLTOALL, ("0",), SIZE)
    # alone a box has its switch only; among others the network helps a little
    assert 0.85 * box < large.time_s(CollectiveKind.ALLTOALL, ("1",), SIZE) <= box


def test_pairs_of_links() -> None:
    fabric = parse("dgx_a100:2")
    assert has_equal_pairs(fabric)
    assert not has_equal_pairs(parse("generalized_kautz:2,6"))
    assert has_equal_pairs(without_failures(fabric, "box0.nic0--*"))
