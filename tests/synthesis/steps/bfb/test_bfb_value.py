"""Breadth-first-broadcast values: against the linear program, against each other, and published numbers."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.bfb_lp import lp_loads, lp_time
from samples.strategies import digraphs
from treadle.context import Context, TimeLimitError, under
from treadle.engine import core
from treadle.errors import InfeasibleError, ScheduleError, TopologyError
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import Topology, parse
from treadle.topologies.catalogue.direct import from_arcs

unit_digraphs = digraphs(compute=(2, 7), max_bandwidth=1, extra_links=14)


def with_loops(topology: Topology, loops: list[int]) -> Topology:
    """The fabric with self-loops added in front, so that link numbers move."""
    return from_arcs(
        "looped", [*loops, *topology.tails], [*loops, *topology.heads], n=topology.n_nodes, bandwidth=1
    )


@settings(max_examples=14, deadline=None, derandomize=True)
@given(topology=unit_digraphs, loops=st.lists(st.integers(0, 1), max_size=2))
def test_value_equals_the_linear_program(topology: Topology, loops: list[int]) -> None:
    looped = with_loops(topology, loops)
    expected = lp_loads(topology)
    value = bfb_value(looped)
    assert list(value.loads) == expected
    assert bfb_value(looped, transform_limit=0).loads == value.loads  # subset sums against flows
    assert value.seconds_per_byte == sum(expected) / topology.n_nodes


@pytest.mark.parametrize(
    "name",
    [
        "torus(3, 4)",
        "hypercube(4)",
        "generalized_kautz(3, 19)",
        "circulant(12, 1, 3, 4, 5)",
        "circulant(15, 1, 4, 5)",
        "kautz(2, 2)",
        "de_bruijn(2, 3)",
    ],
)
def test_value_of_named_graphs_equals_the_linear_program(name: str) -> None:
    topology = parse(name)
    assert list(bfb_value(topology).loads) == lp_loads(topology)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(topology=digraphs(compute=(2, 5), max_bandwidth=7))
def test_unequal_bandwidths_agree_between_algorithms(topology: Topology) -> None:
    value = bfb_value(topology)
    assert value.loads == bfb_value(topology, transform_limit=0).loads
    wide = from_arcs("wide", topology.tails, topology.heads, n=topology.n_nodes)
    scaled = Topology(
        name="wide",
        node_names=wide.node_names,
        is_compute=wide.is_compute,
        tails=wide.tails,
        heads=wide.heads,
        bandwidths=topology.bandwidths * (2**46 + 1),  # products beyond 64 bits
    )
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


def test_figure_3_5_receiver_u2_has_load_two_thirds() -> None:
    """Figure 3.5: w1, w2 hold v1's shard and w2, w3 hold v2's."""
    far = 9  # not one step nearer
    rows = [  # distances from u2, v1, v2, w1, w2, w3 to u2, w1, w2, w3
        [0, 2, 2, 1, 1, 1],
        [far, 1, far, 0, far, far],
        [far, 1, 1, far, 0, far],
        [far, far, 1, far, far, 0],
    ]
    status, (top, bottom, _), _ = core.bfb_orbit_loads(np.array(rows, np.uint16), np.ones(3, np.int64), 10)
    assert (status, top.tolist(), bottom.tolist()) == (0, [1, 2], [1, 3])
    links = from_arcs("links", [1, 2, 3], [0, 0, 0], n=4)
    assert lp_time(links, {1: [0, 1], 2: [1, 2]}) == pytest.approx(2 / 3)


def test_figure_3_1_complete_bipartite() -> None:
    """Figure 3.1: K_{2,2} takes 2 steps and 3/4 M/B, Moore- and BW-optimal."""
    value = bfb_value(parse("complete_bipartite(2, 2)"))
    assert (value.diameter, value.t_b) == (2, Fraction(3, 4))


def test_table_3_4_generalized_kautz() -> None:
    """Table 3.4: Pi_{4,1024} has T_L = 5 alpha and T_B = 1.332 M/B."""
    value = bfb_value(parse("generalized_kautz(4, 1024)"))
    assert (value.diameter, f"{float(value.t_b):.3f}") == (5, "1.332")


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


@pytest.mark.parametrize("k", range(2, 6))
def test_twisted_tori_are_bw_optimal(k: int) -> None:
    """Section 3.6.2, for all sizes up to 10^4 nodes in benchmarks/bfb.py."""
    for dims in ((k, 2 * k), (k, k, 2 * k), (k, 2 * k, 2 * k)):
        assert bfb_value(parse(f"twisted_torus{dims}")).is_bw_optimal, dims


def test_conjecture_1_is_false() -> None:
    """Conjecture 1 of section A.6.4: every circulant is BW-optimal. These are not."""
    assert not bfb_value(parse("circulant(12, 1, 3, 4, 5)")).is_bw_optimal
    value = bfb_value(parse("circulant(15, 1, 4, 5)"))
    assert value.loads == (1, Fraction(3, 2))  # 8 sources over 6 links would be 4/3
    assert not value.is_bw_optimal


def test_circulants_of_two_offsets_are_bw_optimal() -> None:
    """Section A.6.4: proved for k = 2."""
    for n in range(5, 21):
        for b in range(2, (n + 1) // 2):
            for a in range(1, b):
                if np.gcd.reduce([n, a, b]) == 1:
                    assert bfb_value(parse(f"circulant({n}, {a}, {b})")).is_bw_optimal, (n, a, b)


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


def test_bad_fabrics_are_refused_in_one_line() -> None:
    for name, error, words in (
        ("dgx_a100(1)", TopologyError, "without switches"),
        ("path(1)", TopologyError, "at least 2 nodes"),
        ("ring(70000)", TopologyError, "at most 65535"),
    ):
        with pytest.raises(error, match=words) as caught:
            bfb_value(parse(name))
        assert "\n" not in str(caught.value)
    one_way = from_arcs("one way", [0, 1, 1], [1, 2, 0], n=3)
    with pytest.raises(InfeasibleError, match="no path from 'n2' to 'n0'"):
        bfb_value(one_way)
    with pytest.raises(InfeasibleError, match="no path"):
        bfb_value(from_arcs("two parts", [0, 1, 2, 3], [1, 0, 3, 2], n=4))


def test_t_b_needs_equal_nodes() -> None:
    value = bfb_value(parse("path(3)"))
    assert value.seconds_per_byte == Fraction(1 + 1, 3)
    assert not value.is_bw_optimal
    with pytest.raises(ScheduleError, match="nodes differ in bandwidth"):
        _ = value.t_b


def test_a_deadline_stops_the_core() -> None:
    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic() - 1)):
        bfb_value(parse("ring(3000)"))
