"""Costs of workloads: closed forms, pruned trees, and the choice of a topology per call."""

from __future__ import annotations

from treadle.finder.evaluate import cheapest_sequence


def test_fabrics_change_only_where_that_pays() -> None:
    """Of equals the first stays: changing to and fro would cost as much as staying."""
    costs = [{"a": 1.0, "b": 2.0}, {"a": 6.0, "b": 1.0}, {"a": 1.0, "b": 2.0}]
    assert cheapest_sequence(costs, 2.5) == (("b", "b", "b"), 5.0)
    assert cheapest_sequence(costs, 0.5) == (("a", "b", "a"), 4.0)
    assert cheapest_sequence([{"a": 1.0, "b": 1.0}], 1.0) == (("a",), 1.0)
    assert cheapest_sequence([{"a": 1.0}, {"b": 1.0}], 3.0) == (("a", "b"), 8.0)
    tied = [{"a": 1.0, "b": 1.0}, {"a": 3.0, "b": 1.0}]
    assert cheapest_sequence(tied, 1.0) == (("b", "b"), 2.0)
