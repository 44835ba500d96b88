"""Table A.2 of Efficient Direct-Connect Topologies: intersection arrays, sizes, diameters."""

from __future__ import annotations

import pytest

from treadle import topologies as family
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import from_arcs, from_edges
from treadle.topologies.catalogue.distance_regular import distance_regular
from treadle.topologies.catalogue.graphs import ring, star, torus
from treadle.topologies.distances import diameter
from treadle.topologies.intersection_arrays import intersection_array
from treadle.topologies.topology import Topology

# Size: (intersection array, T_L, T_L*, T_L**). The arrays are those of Brouwer, Cohen and Neumaier,
# Distance-Regular Graphs, chapter 14 and of Brouwer and Koolen, The distance-regular graphs of valency
# four; the other columns are table A.2's.
TABLE = {
    6: ("{4,1;1,4}", 2, 2, 2),
    9: ("{4,2;1,2}", 2, 2, 2),
    10: ("{4,3,1;1,3,4}", 3, 2, 2),
    14: ("{4,3,2;1,2,4}", 3, 2, 2),
    15: ("{4,2,1;1,1,4}", 3, 2, 2),
    16: ("{4,3,2,1;1,2,3,4}", 4, 2, 2),
    21: ("{4,2,2;1,1,2}", 3, 2, 3),
    26: ("{4,3,3;1,1,4}", 3, 3, 3),
    32: ("{4,3,3,1;1,1,3,4}", 4, 3, 3),
    35: ("{4,3,3;1,1,2}", 3, 3, 3),
    45: ("{4,2,2,2;1,1,1,2}", 4, 3, 3),
    70: ("{4,3,3,2,2,1,1;1,1,2,2,3,3,4}", 7, 3, 4),
    80: ("{4,3,3,3;1,1,1,4}", 4, 3, 4),
    189: ("{4,2,2,2,2,2;1,1,1,1,1,2}", 6, 4, 5),
    728: ("{4,3,3,3,3,3;1,1,1,1,1,4}", 6, 5, 6),
}


def _least_steps(n: int, branching: list[int]) -> int:
    """Steps until nodes that are reached in the numbers 1, b[0], b[0] b[1], ... may be all n."""
    reached = level = 1
    for step, b in enumerate(branching, start=1):
        level *= b
        reached += level
        if reached >= n:
            return step
    raise AssertionError(n)


@pytest.mark.parametrize("n", TABLE)
def test_table_a2(n: int) -> None:
    graph = distance_regular(4, n)
    array, steps, least, least_bidirectional = TABLE[n]
    assert str(intersection_array(graph)) == array
    assert graph.n_nodes == n
    assert diameter(graph) == steps
    assert _least_steps(n, [4] * 9) == least
    assert _least_steps(n, [4] + [3] * 9) == least_bidirectional
    assert graph.name == f"distance_regular(4, {n})"


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (torus(3, 4), "b_1 is"),
        (star(4), "different degrees"),
        (ring(4, bidirectional=False), "one direction"),
        (from_edges("pair", [(0, 1), (0, 1)], n=2), "parallel links"),
        (from_arcs("loop", [0], [0], n=1), "self-loops"),
    ],
)
def test_what_is_not_distance_regular_is_refused(graph: Topology, reason: str) -> None:
    with pytest.raises(TopologyError, match=f"not distance-regular: .*{reason}"):
        intersection_array(graph)


def test_sizes_that_the_table_lacks_are_refused() -> None:
    for d, n in ((4, 7), (3, 14)):
        with pytest.raises(TopologyError, match=f"no graph of degree {d} with {n} nodes"):
            distance_regular(d, n)
    with pytest.raises(TopologyError, match="prime power, found 6"):
        family.projective_plane(6)
    with pytest.raises(TopologyError, match="1 modulo 4, found 7"):
        family.paley(7)
    with pytest.raises(TopologyError, match="at most 4"):
        family.generalized_hexagon(5)
