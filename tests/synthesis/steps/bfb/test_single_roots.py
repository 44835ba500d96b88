"""Breadth-first broadcasts from one root, send by send, and what they refuse."""

from __future__ import annotations

import re

import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.bfb.breadth_first import bfb_broadcast, bfb_schedule, distances_from
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

TAILS = [0, 0, 0, 1, 2, 1, 3, 3, 4]
HEADS = [1, 2, 2, 3, 3, 3, 4, 4, 0]


def fabric() -> Topology:
    """Into 1 one link, into 2 two; into 3 two from 1 and one from 2, into 4 two from 3; back to 0."""
    return from_arcs("odd", TAILS, HEADS, n=5)


def test_distances_from_a_root() -> None:
    assert distances_from(fabric(), 0).tolist() == [0, 1, 1, 2, 3]
    assert distances_from(fabric(), 4).tolist() == [1, 2, 2, 3, 0]
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=4)
    message = "oneway: there is no path from 'n0' to 'n3'"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        distances_from(oneway, 0)
    message = "oneway: there is no path from 'n1' to 'n0'"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        bfb_broadcast(oneway, 1)


@pytest.mark.parametrize(
    ("kind", "root", "words"),
    [
        (CollectiveKind.BROADCAST, None, "broadcast needs a root"),
        (CollectiveKind.REDUCE, None, "reduce needs a root"),
        (CollectiveKind.ALLGATHER, 0, "allgather has no root"),
        (CollectiveKind.BROADCAST, 5, "root 5: expected a rank from 0 to 4"),
        (CollectiveKind.REDUCE, -1, "root -1: expected a rank from 0 to 4"),
    ],
)
def test_roots_that_are_none(kind: CollectiveKind, root: int | None, words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{re.escape(words)}$"):
        bfb_schedule(fabric(), kind, root=root)
