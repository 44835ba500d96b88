"""The first-order method where bandwidths are far apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.exact_rates import alltoall_rate
from samples.strategies import digraphs, sparse_demands, symmetric_topologies, wide_bandwidths
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.pdhg import pdhg_rate
from treadle.topologies import Topology, TopologyBuilder

GAP = 1e-3


def check(fabric: Topology, collective: Collective) -> None:
    found = pdhg_rate(flow_instance(fabric, collective), gap=GAP)
    assert not found.is_late
    assert found.rate <= float(alltoall_rate(fabric, collective)) * (1 + 1e-9)
    assert alltoall_rate(fabric, collective) <= found.upper
    assert found.rate >= (1 - 1.01 * GAP) * float(found.upper)


@pytest.mark.parametrize("wide", [10**6, 8 * 10**11, 2**50])
def test_a_wide_way_back_does_not_keep_it_from_the_optimum(wide: int) -> None:
    """Where the sides did not meet, it went on for a million rounds."""
    builder = TopologyBuilder("pair")
    for name in "ab":
        builder.compute(name)
    for tail, head, bandwidth in (
        *(("b", "a", 573), ("a", "b", 573), ("b", "a", wide), ("b", "a", wide)),
        *(("a", "b", 9), ("b", "a", 573), ("b", "a", wide)),
    ):
        builder.link(tail, head, bandwidth)
    fabric = builder.build()
    check(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))


FABRICS = st.one_of(
    symmetric_topologies(compute=(2, 5), switches=(0, 1), bandwidths=wide_bandwidths(), extra_links=3),
    digraphs(compute=(2, 5), bandwidths=wide_bandwidths(), extra_links=4),
)


@given(st.data())
@settings(max_examples=14, deadline=None)
def test_both_sides_meet_on_fabrics_of_all_sorts(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    ranks = tuple(fabric.compute_nodes.tolist())
    matrix = np.array(data.draw(sparse_demands(len(ranks))), dtype=np.int64)
    demands = Demands(np.minimum(matrix, 9))
    check(fabric, Collective(CollectiveKind.ALLTOALL, ranks, demands=demands))
