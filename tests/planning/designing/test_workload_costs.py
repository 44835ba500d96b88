"""What calls cost on a fabric, what nothing can be below, and which sizes are looked at."""

from __future__ import annotations

import pytest

from treadle.finder.designing import hybrids
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.placements import placement_sheet
from treadle.finder.measure import Option


@pytest.fixture(scope="module")
def torus() -> Option:
    """Distances 1 (four others), 2 (four others): 8 (4 + 8) of all nodes together are 108."""
    return named_option("torus(3, 3)", 9, 4)


def test_sheets_of_fabrics_in_their_own_order(torus: Option) -> None:
    first, second, *_ = placement_sheet(torus).splitlines()
    assert (first, second) == ("rank,node,number", "0,n0_0,0")


def test_axes_gathered_in_blocks() -> None:
    assert list(hybrids._partitions((1, 2, 3))) == [
        ((1,), (2,), (3,)),
        ((1, 2), (3,)),
        ((2,), (1, 3)),
        ((1,), (2, 3)),
        ((1, 2, 3),),
    ]
    assert list(hybrids._shares(2, 2)) == [(0, 2), (1, 1), (2, 0)]
    assert len(list(hybrids._shares(4, 3))) == 15
    assert all(sum(shares) == 4 for shares in hybrids._shares(4, 3))
