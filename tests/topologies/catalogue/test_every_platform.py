"""What holds of every platform of the table, whoever adds it."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from treadle import planning, topologies
from treadle.errors import TopologyError
from treadle.topologies.catalogue.platform_table import Platform
from treadle.topologies.registry import all_platforms, catalogue


@pytest.mark.parametrize("one", all_platforms(), ids=lambda one: one.function.__name__)
def test_a_platform_says_its_source_and_has_samples(one: Platform) -> None:
    assert catalogue()[one.function.__name__] is one.function
    assert len(one.source) > 2
    assert (inspect.getdoc(one.function) or "").partition("\n")[0].endswith(".")
    for text in one.samples:
        topology = topologies.parse(text)
        assert topology == topologies.parse(topology.name)
        # every node takes in as much as it gives out, or trees could not be packed
        balance = np.zeros(topology.n_nodes, dtype=np.int64)
        np.add.at(balance, topology.heads, topology.bandwidths)
        np.subtract.at(balance, topology.tails, topology.bandwidths)
        assert not balance.any()
        result = planning.solve(topology, "allgather")
        assert result.report.is_ok
        assert result.plan.algbw > 0


def test_a_platform_of_a_name_that_is_taken_is_refused() -> None:
    def mi300x() -> topologies.Topology:
        return topologies.ring(3)

    with pytest.raises(TopologyError, match="mi300x: there is one of that name already"):
        topologies.platform(source="nowhere", samples=("mi300x()",))(mi300x)
    with pytest.raises(TopologyError, match="expected a source of its values and a sample"):
        topologies.platform(source="", samples=("other()",))(mi300x)
