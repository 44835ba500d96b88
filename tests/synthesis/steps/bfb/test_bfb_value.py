"""Breadth-first-broadcast values: against the linear program, against each other, and published numbers."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings

from samples.strategies import digraphs
from treadle.context import Context, TimeLimitError, under
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import Topology, parse
from treadle.topologies.catalogue.direct import from_arcs

unit_digraphs = digraphs(compute=(2, 7), max_bandwidth=1, extra_links=14)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(topology=digraphs(compute=(2, 5), max_bandwidth=7))
def test_unequal_bandwidths_agree_between_algorithms(topology: Topology) -> None:
    value = bfb_value(topology)
    assert value.loads == bfb_value(topology, transform_limit=0).loads
    wide = from_arcs("wide", topology.tails, topology.heads, n=topology.n_nodes)
    scaled = replace(wide, bandwidths=topology.bandwidths * (2**46 + 1))  # products beyond 64 bits
    assert bfb_value(scaled).seconds_per_byte * (2**46 + 1) == value.seconds_per_byte


@pytest.mark.parametrize("degree", [1, 3, 8, 9, 16, 17, 32, 33, 64, 65, 130])
def test_every_width_of_link_sets(degree: int) -> None:
    """Complete bipartite graphs are BW-optimal (section 3.6.2); the sets of links grow to several words."""
    if degree == 1:
        assert bfb_value(parse("uni_ring(1, 5)")).is_bw_optimal
        return
    value = bfb_value(parse(f"complete_bipartite({degree}, {degree})"))
    assert value.loads == (1, Fraction(degree - 1, degree))
    assert value.is_bw_optimal


@pytest.mark.parametrize("n", [3, 4, 7, 10, 25, 300, 601])
def test_rings_of_section_a_6_1(n: int) -> None:
    """Section A.6.1: T_L = floor(N/2) and BW-optimal; 601 nodes need distances beyond a byte."""
    value = bfb_value(parse(f"ring({n})"))
    assert (value.diameter, value.t_b) == (n // 2, Fraction(n - 1, n))
    if n == 601:
        one_way = bfb_value(parse("ring(601, bidirectional=False)"))
        assert (one_way.diameter, one_way.is_bw_optimal) == (600, True)


@pytest.mark.parametrize("name", ["hypercube(10)", "torus(4, 5, 7)", "torus(9, 2)", "torus(5, 5, 2)"])
def test_hypercubes_and_tori_are_bw_optimal(name: str) -> None:
    """Section 3.6.2: any torus is BW-optimal with T_L = sum of floor(d_i / 2)."""
    topology = parse(name)
    value = bfb_value(topology)
    assert value.is_bw_optimal
    sizes = [2] * 10 if name == "hypercube(10)" else [int(x) for x in name[6:-1].split(",")]
    assert value.diameter == sum(size // 2 for size in sizes)


@pytest.mark.parametrize("d", [2, 4, 8, 16])
def test_figure_a_7_generalized_kautz(d: int) -> None:
    """Figure A.7 and Theorem 21: T_B <= 2 T_B*, T_L <= T_L* + 1; a sample of benchmarks/bfb.py's sweep."""
    for n in (d + 1, d + 2, 2 * d + 1, 57, 100, 233, 500):
        if n <= d:
            continue
        value = bfb_value(parse(f"generalized_kautz({d}, {n})"))
        assert value.t_b <= 2 * Fraction(n - 1, n)
        moore = next(k for k in range(1, n) if sum(d**i for i in range(k + 1)) >= n)
        assert value.diameter <= moore + 1


@settings(max_examples=20, deadline=None, derandomize=True)
@given(topology=unit_digraphs)
def test_value_of_reduce_scatter_is_the_transpose_s(topology: Topology) -> None:
    assert bfb_reduce_scatter_value(topology) == bfb_value(topology.transpose())


def test_a_deadline_stops_the_core() -> None:
    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic() - 1)):
        bfb_value(parse("ring(3000)"))
