"""Whole and balanced capacities on small fabrics: against all of them, and trimmed bandwidths by hand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import integral_capacities as module
from treadle.synthesis.trees.integral_capacities import best_balancing
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def fabric_of(links: Sequence[tuple[str, str, int]], switches: str = "st") -> Topology:
    builder = TopologyBuilder("odd")
    for name in sorted({name for one, other, _ in links for name in (one, other)}):
        if name in switches:
            builder.switch(name)
        else:
            builder.compute(name)
    for link in links:
        builder.link(*link)
    return builder.build()


@pytest.mark.parametrize(
    ("into", "out", "direct", "bandwidths", "share"),
    [
        # a -> s -> b: the narrower one counts
        (5, 4, 3, [4, 4, 3], Fraction(1)),
        (4, 5, 3, [4, 4, 3], Fraction(1)),
        (4, 4, 3, [4, 4, 3], Fraction(1)),
    ],
)
def test_bandwidths_that_a_switch_passes_on(
    into: int, out: int, direct: int, bandwidths: list[int], share: Fraction
) -> None:
    topology = fabric_of([("a", "s", into), ("s", "b", out), ("a", "b", direct), ("b", "a", 50)])
    collective = Collective(K.ALLGATHER, tuple(topology.compute_nodes.tolist()), weights=(1, 0))
    found = best_balancing(topology, collective)
    assert found.bandwidths.tolist() == [*bandwidths, 50]
    assert (found.scale, found.share) == (1, share)


def test_no_way_out_of_large_fabrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest total keeps s -> b, which two ways lead to, and cuts c off."""
    links = [("a", "s", 1), ("s", "t", 1), ("t", "b", 1), ("s", "c", 1), ("b", "a", 5), ("c", "a", 5)]
    topology = fabric_of(links)
    ranks = tuple(topology.compute_nodes.tolist())
    collective = Collective(K.ALLGATHER, ranks, weights=(1, 0, 0))
    found = best_balancing(topology, collective)
    assert found.share == Fraction(1, 2)
    assert (found.bandwidths * 2 == np.array([2, 1, 1, 1, 10, 10]) * found.scale).all()
    monkeypatch.setattr(module, "MOST_LINKS", 5)
    with pytest.raises(InfeasibleError) as refused:
        best_balancing(topology, collective)
    assert str(refused.value) == (
        "odd: taking the least bandwidth away to balance switches and forwarders cuts ranks off, "
        "and of 6 links (at most 5) no better way is looked for"
    )
