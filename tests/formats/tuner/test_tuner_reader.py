"""Rows of tuner tables at their limits, and what the judge makes of the arcs of a plan's trees."""

from __future__ import annotations

from treadle.formats.tuner.interpreter import interpret
from treadle.formats.verdict import Check, Terms

HEADING = "# collective_type,min_bytes,max_bytes,algorithm\n"


ROW = "allreduce,100,300,ring,ll,-1,-1,4,-1,-1\n"


def test_a_table_alone_is_parsed() -> None:
    found = interpret([(HEADING + ROW + ROW.replace(",4,", ",7,")).encode()], Terms())
    assert (found.check, found.counts, found.n_ranks) == (Check.PARSED, (("row", 2),), 7)
    assert interpret([(HEADING + ROW.replace(",4,", ",-1,")).encode()], Terms()).n_ranks == 0
