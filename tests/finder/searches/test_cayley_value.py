"""Costs of Cayley digraphs: against the general routine, the batch, all link subsets, and known values."""

import numpy as np
import pytest

from treadle.finder.searches.cayley_groups import groups_of_order
from treadle.topologies.catalogue.cayley import cayley_graph


@pytest.mark.parametrize("n", [8, 12, 16, 18, 20, 24, 27, 30])
def test_enumerated_groups_satisfy_the_axioms(n: int) -> None:
    groups = groups_of_order(n, seed=0)
    assert groups == groups_of_order(n, seed=0)
    for named in groups:
        table = named.group.table()
        assert named.group.order == n
        assert np.array_equal(table[table], table[:, table])
        assert np.array_equal(np.sort(table, axis=1), np.broadcast_to(np.arange(n), (n, n)))
        everything = cayley_graph(named.expression(tuple(range(1, n))))
        assert everything.group == named.group
