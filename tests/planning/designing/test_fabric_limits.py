"""Facts of small fabrics in full, and each limit at the number that is just enough."""

from __future__ import annotations

from fractions import Fraction

from harness.summaries import fabric_summary
from treadle.finder.designing.fabric_values import DistanceFacts
from treadle.planning import describe_fabric
from treadle.topologies import parse


def test_a_path_has_no_bounds_of_its_size() -> None:
    facts = describe_fabric(parse('path(3, bandwidth="7B/s")'))
    assert (facts.degrees, facts.degree, facts.bounds) == ((1, 2), None, None)
    assert facts.distances == DistanceFacts((3, 4, 2), False, Fraction(4 * 7, 8))
    assert (facts.is_moore_optimal, facts.is_moore_optimal_bidirectional) == (None, None)
    told = fabric_summary(facts)
    assert (told["degree_min"], told["degree_max"], told["regular"]) == (1, 2, False)
    assert "degree" not in told
    assert "moore_optimal" not in told
