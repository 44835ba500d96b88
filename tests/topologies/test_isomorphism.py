"""Isomorphisms: against networkx, on relabelled fabrics, and table A.3's reverse symmetry."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.topologies.catalogue.circulants import circulant
from treadle.topologies.catalogue.distance_regular import distance_regular
from treadle.topologies.catalogue.graphs import complete, path, ring
from treadle.topologies.catalogue.kautz import diamond, kautz, modified_de_bruijn
from treadle.topologies.isomorphism import (
    UndecidedError,
    find_automorphism,
    find_isomorphism,
    is_reverse_symmetric,
    link_map,
)
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import line_graph


# Table A.3, column Reverse-Symmetric.
@pytest.mark.parametrize(
    ("fabric", "symmetric"),
    [
        (complete(5), True),
        (kautz(2, 2), True),
        (line_graph(complete(4), 2), True),
        (circulant(16, 3, 4), True),
        (distance_regular(4, 32), True),
        (ring(6, bidirectional=False), True),
        (diamond(), False),
        (modified_de_bruijn(2, 3), True),
        (modified_de_bruijn(2, 4), False),
        (modified_de_bruijn(3, 2), False),
        (modified_de_bruijn(4, 2), False),
    ],
    ids=lambda value: value.name if isinstance(value, Topology) else "",
)
def test_table_a3_reverse_symmetry(fabric: Topology, symmetric: bool) -> None:
    assert is_reverse_symmetric(fabric) == symmetric


def test_maps_that_are_no_isomorphism_are_refused() -> None:
    with pytest.raises(TopologyError, match="links do not become links"):
        link_map(path(3), path(3), np.array([1, 0, 2], dtype=np.int32))
    with pytest.raises(TopologyError, match="expected each of 3 nodes once"):
        link_map(path(3), path(3), np.array([0, 0, 1], dtype=np.int32))
    with pytest.raises(TopologyError, match="node 3 does not exist"):
        find_automorphism(path(3), 0, 3)


def test_the_work_limit_is_a_distinct_outcome() -> None:
    with pytest.raises(UndecidedError, match="not decided within 1000 visits"):
        find_isomorphism(circulant(64, 3, 10), circulant(64, 5, 10), work_limit=1000)
