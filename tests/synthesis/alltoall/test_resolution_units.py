"""Units of bandwidth where links are far apart, by hand, and widest paths by definition."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.math.lp import no_optimum
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.resolution import Resolution, resolution
from treadle.topologies.topology import Topology, TopologyBuilder


def fabric(narrow: int = 1, *, cap: int = 0) -> Topology:
    """a to b over 3 narrow links, b to c of 10^7 and c to a of 10^8 B/s; b may have an injection cap."""
    builder = TopologyBuilder("far")
    for name in "abc":
        builder.compute(name, injection_bytes_per_s=cap if name == "b" else 0)
    for ends, width in (("ab", narrow), ("ab", narrow), ("ab", narrow), ("bc", 10**7), ("ca", 10**8)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def collective() -> Collective:
    """a has 2 for b, b 4 for c, c 1 for a."""
    demands = Demands(np.array([[0, 2, 0], [0, 0, 4], [1, 0, 0]]))
    return Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands)


def test_bandwidths_that_are_near_have_the_widest_as_unit() -> None:
    assert resolution(fabric(100), collective()) == Resolution(1e8)
    assert not resolution(fabric(100), collective()).is_wide
    assert resolution(fabric(99), collective()).is_wide
    assert resolution(fabric(99), collective(), wide=1e8 / 99 + 1) == Resolution(1e8)
    found = Resolution(4.0).of(np.array([8, 2, 4]))
    assert found.tolist() == [2, 0.5, 1]


def test_the_neediest_pair_gives_the_unit_and_what_matters() -> None:
    """a has a path of width 1 for 2 units: the largest demand of 4 makes 2 of it.

    Behind it are 3 B/s for 2 units; all 7 together need no more than 10.5 of a link.
    """
    found = resolution(fabric(), collective())
    assert found.unit == 2
    assert found.most == pytest.approx(10.5 / 2)
    assert found.is_wide
    assert found.of(np.array([1, 4, 10**7])).tolist() == pytest.approx([0.5, 2, 5.25])


def test_solvers_that_fail_may_owe_it_to_bandwidths() -> None:
    assert str(no_optimum("it", "kUnknown", np.array([1, 999_999]))) == (
        "it: solver ended with kUnknown, expected an optimum"
    )
    assert str(no_optimum("it", "kUnknown", np.array([2 * 10**6, 2]))) == (
        "it: solver ended with kUnknown, expected an optimum; the widest link has 1e+06 times the bandwidth "
        "of the narrowest: more than floating point resolves; leave the narrowest links out, or widen them"
    )
