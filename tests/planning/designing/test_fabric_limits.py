"""Facts of small fabrics in full, and each limit at the number that is just enough."""

from __future__ import annotations

from fractions import Fraction

import pytest

from harness.summaries import fabric_summary
from treadle.finder.designing.fabric_values import DistanceFacts
from treadle.planning import FactLimits, describe_fabric
from treadle.topologies import Topology, TopologyBuilder, parse


def two_diamonds() -> Topology:
    """Nodes 0 to 3 and 4 to 7, all joined but 0 with 3 and 4 with 7; these ends are joined across.

    Ends see 3, 3 and 1 others at distances 1, 2 and 3; the others 3, 2 and 2.
    """
    draft = TopologyBuilder("two diamonds")
    for node in range(8):
        draft.compute(f"n{node}")
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    for one, other in [*edges, *((a + 4, b + 4) for a, b in edges), (3, 4), (7, 0)]:
        draft.duplex(f"n{one}", f"n{other}", 5)
    return draft.build()


def test_a_one_way_ring_in_full() -> None:
    """Three nodes with links of 2 bytes/s: three pairs each at distances 0, 1 and 2."""
    facts = describe_fabric(parse('uni_ring(1, 3, bandwidth="2B/s")'))
    assert fabric_summary(facts) == {
        "regular": True,
        "bidirectional": False,
        "degree": 1,
        "diameter": 2,
        "pairs_by_distance": [3, 3, 3],
        "mean_distance": 1.5,
        "mean_distance_exact": "3/2",
        "alltoall_pair_rate_bound_bytes_per_s": pytest.approx(6 / 9),
        "alltoall_pair_rate_bound_exact": "2/3",
        "moore_steps": 2,
        "least_mean_distance_exact": "3/2",
        "t_b_bound_exact": "2/3",
        "alltoall_pair_rate_limit_bytes_per_s": pytest.approx(2 / 3),
        "alltoall_pair_rate_limit_exact": "2/3",
        "moore_optimal": True,
        "allgather_breadth_first": {
            "steps": 2,
            "algbw_bytes_per_s": 3.0,
            "algbw_exact": "3/1",
            "t_b_exact": "2/3",
            "bw_optimal": True,
        },
        "reduce_scatter_breadth_first": {
            "steps": 2,
            "algbw_bytes_per_s": 3.0,
            "algbw_exact": "3/1",
            "t_b_exact": "2/3",
            "bw_optimal": True,
        },
        "vertex_transitive": True,
        "reverse_symmetric": True,
        "distance_regular": False,
        "omitted": [],
    }


def test_a_fabric_that_is_not_alike() -> None:
    facts = describe_fabric(two_diamonds())
    assert facts.distances == DistanceFacts((8, 24, 20, 12), False, Fraction(24 * 5, 100))
    assert facts.distances is not None
    assert facts.distances.mean == Fraction(100, 56)
    assert [*facts.distances.per_node] == [Fraction(1), Fraction(3), Fraction(5, 2), Fraction(3, 2)]
    assert (facts.degree, facts.degrees, facts.diameter) == (3, (3, 3), 3)
    assert (facts.is_vertex_transitive, facts.is_distance_regular, facts.is_reverse_symmetric) == (
        False,
        False,
        True,
    )
    # three and four others of eight: two steps at least, one way or two
    assert facts.bounds is not None
    assert (facts.bounds.steps, facts.bounds.steps_bidirectional) == (2, 2)
    assert (facts.bounds.mean_distance, facts.bounds.t_b) == (Fraction(11, 7), Fraction(7, 8))
    assert facts.bounds.pair_rate == Fraction(3 * 5, 11)
    assert facts.is_moore_optimal is False
    assert facts.is_moore_optimal_bidirectional is False


def test_a_path_has_no_bounds_of_its_size() -> None:
    facts = describe_fabric(parse('path(3, bandwidth="7B/s")'))
    assert (facts.degrees, facts.degree, facts.bounds) == ((1, 2), None, None)
    assert facts.distances == DistanceFacts((3, 4, 2), False, Fraction(4 * 7, 8))
    assert (facts.is_moore_optimal, facts.is_moore_optimal_bidirectional) == (None, None)
    told = fabric_summary(facts)
    assert (told["degree_min"], told["degree_max"], told["regular"]) == (1, 2, False)
    assert "degree" not in told
    assert "moore_optimal" not in told


def test_switches_leave_distances_alone() -> None:
    """From each of two ranks to the other by a switch: two hops; four links of 3 bytes/s."""
    draft = TopologyBuilder("star")
    for name in ("a", "b"):
        draft.compute(name)
    draft.switch("s")
    draft.duplex("a", "s", 3)
    draft.duplex("b", "s", 3)
    facts = describe_fabric(draft.build())
    assert (facts.n_ranks, facts.is_direct, facts.degrees, facts.allgather) == (2, False, None, None)
    assert facts.distances == DistanceFacts((2, 0, 2), True, Fraction(4 * 3, 4))
    assert "vertex_transitive" not in fabric_summary(facts)


@pytest.mark.parametrize(
    ("enough", "omitted"),
    [
        ({"distance_nodes": 8}, "distances: 8 nodes and 24 links are too many to search"),
        ({"distance_work": 72}, "distances: 8 nodes and 24 links are too many to search"),
        (
            {"breadth_first_pairs": 192},
            "breadth-first broadcast: 1.9e+02 pairs of nodes and links, at most 1.9e+02 are gone through",
        ),
        ({"breadth_first_degree": 3}, "breadth-first broadcast: 3 links into a node, at most 2"),
    ],
)
def test_limits_are_met_at_their_number(enough: dict[str, int], omitted: str) -> None:
    """Three hops over 24 links from the first 64 nodes; 8 x 24 pairs of nodes and links."""
    assert describe_fabric(two_diamonds(), limits=FactLimits(**enough)).omissions == ()
    less = {name: most - 1 for name, most in enough.items()}
    assert describe_fabric(two_diamonds(), limits=FactLimits(**less)).omissions == (omitted,)


@pytest.mark.parametrize(
    ("enough", "omitted"),
    [
        ({"symmetry_links": 24}, "vertex-transitive: 24 links, at most 23"),
        ({"regularity_pairs": 192}, "distance-regular: not tried on 8 nodes of degree 3"),
    ],
)
def test_limits_where_distances_do_not_tell(enough: dict[str, int], omitted: str) -> None:
    far = "distances: 8 nodes and 24 links are too many to search"
    found = describe_fabric(two_diamonds(), limits=FactLimits(distance_nodes=7, **enough))
    assert found.omissions == (far,)
    assert found.is_vertex_transitive is False
    assert found.is_distance_regular is False
    less = {name: most - 1 for name, most in enough.items()}
    assert omitted in describe_fabric(two_diamonds(), limits=FactLimits(distance_nodes=7, **less)).omissions


def test_limits_of_reversal() -> None:
    """A one-way fabric that is no Cayley digraph by its name: six links round, three across."""
    draft = TopologyBuilder("odd")
    for node in range(3):
        draft.compute(f"n{node}")
    for one, other in ((0, 1), (1, 2), (2, 0), (0, 2)):
        draft.link(f"n{one}", f"n{other}", 1)
    odd = draft.build()
    assert describe_fabric(odd).omissions == ()
    assert describe_fabric(odd, limits=FactLimits(symmetry_links=4)).omissions == ()
    assert describe_fabric(odd, limits=FactLimits(symmetry_links=3)).omissions in (
        (),
        ("reverse-symmetric: 4 links, at most 3",),
    )


def test_what_people_lift_limits_to() -> None:
    lifted, usual = FactLimits.lifted(), FactLimits()
    assert (usual.distance_nodes, usual.distance_work) == (6000, 2 * 10**8)
    assert (usual.breadth_first_pairs, usual.breadth_first_degree) == (2 * 10**8, 4096)
    assert (usual.regularity_pairs, usual.symmetry_work, usual.symmetry_links) == (
        3 * 10**7,
        3 * 10**7,
        50_000,
    )
    for name in ("distance_work", "breadth_first_pairs", "breadth_first_degree", "regularity_pairs"):
        assert getattr(lifted, name) == 2**62
    assert lifted.symmetry_links == 2**62
    assert lifted.symmetry_work > usual.symmetry_work
    assert lifted.distance_nodes > usual.distance_nodes
