"""Bandwidths as linear programs are given them where they are far apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.exact_rates import alltoall_rate
from samples.strategies import digraphs, sparse_demands, symmetric_topologies, wide_bandwidths
from treadle.planning import bound, solve
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.resolution import resolution
from treadle.synthesis.alltoall.steps.time_stepped import least_steps, time_stepped_flow
from treadle.topologies import Topology, TopologyBuilder, parse


def collective_of(topology: Topology, matrix: list[list[int]]) -> Collective:
    ranks = tuple(topology.compute_nodes.tolist())
    return Collective(CollectiveKind.ALLTOALL, ranks, demands=Demands(np.array(matrix, dtype=np.int64)))


def bundles() -> tuple[Topology, Collective]:
    """Ten links of 1 B/s for little data, one of 1 GB/s for very much: the ten are the bottleneck."""
    builder = TopologyBuilder("bundles")
    for name in "abcd":
        builder.compute(name)
    for _ in range(10):
        builder.link("a", "b", 1)
    for tail, head in ("bc", "cd", "da"):
        builder.link(tail, head, 10**9)
    fabric = builder.build()
    matrix = [[0] * 4 for _ in range(4)]
    matrix[0][1], matrix[2][3] = 1, 2**20
    return fabric, collective_of(fabric, matrix)


def test_wide_links_that_are_needed_beside_narrow_ones_keep_their_width() -> None:
    fabric, collective = bundles()
    best = bound(fabric, collective).algbw
    assert best == 10 * 2**20
    for algorithm in (None, "routes", "tsmcf"):
        assert solve(fabric, collective, algorithm=algorithm).algbw == best


def test_bandwidths_that_are_not_far_apart_keep_the_widest_as_unit() -> None:
    fabric = parse("dgx_a100:2")
    found = resolution(fabric, collective_of(fabric, [[1] * 16] * 16))
    assert (found.unit, found.is_wide) == (float(fabric.bandwidths.max()), False)


FABRICS = st.one_of(
    symmetric_topologies(compute=(2, 4), switches=(0, 1), bandwidths=wide_bandwidths(), extra_links=2),
    digraphs(compute=(2, 4), bandwidths=wide_bandwidths(), extra_links=3),
)


@given(st.data())
@settings(max_examples=21, deadline=None)
def test_links_that_count_as_narrower_are_never_full(data: st.DataObject) -> None:
    fabric = data.draw(FABRICS)
    collective = collective_of(fabric, data.draw(sparse_demands(len(fabric.compute_nodes))))
    found = resolution(fabric, collective)
    if found.is_wide:
        most = int(found.most * found.unit * (1 + 1e-12)) + 1
        narrowed = replace(fabric, bandwidths=np.minimum(fabric.bandwidths, most))
        assert alltoall_rate(narrowed, collective) == alltoall_rate(fabric, collective)


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_steps_are_no_faster_than_links_allow(data: st.DataObject) -> None:
    fabric = data.draw(digraphs(compute=(2, 4), bandwidths=wide_bandwidths(), extra_links=3))
    collective = collective_of(fabric, data.draw(sparse_demands(len(fabric.compute_nodes))))
    steps = least_steps(fabric, collective) + 2
    flow = time_stepped_flow(fabric, collective, steps)
    assert flow.time * float(alltoall_rate(fabric, collective)) >= 1 - 1e-5
