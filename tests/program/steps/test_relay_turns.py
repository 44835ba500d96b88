"""Turns at the rank that ways pass first: each begins elsewhere, and nobody sends two with one turn there."""

from __future__ import annotations

from itertools import product

import numpy as np

from treadle.program.steps.step_lowering import relay_turns
from treadle.topologies import parse


def test_who_comes_in_by_different_links_goes_out_by_different_links() -> None:
    fabric = parse("generalized_kautz(3, 27)")
    into = [np.flatnonzero(fabric.heads == node).tolist() for node in range(27)]
    out = [np.flatnonzero(fabric.tails == node).tolist() for node in range(27)]
    for node in range(27):
        paths = list(product(into[node], out[node]))
        turns = relay_turns(fabric, paths)
        assert set(turns.tolist()) <= set(range(len(out[node])))
        if len(into[node]) == len(out[node]):  # a Latin square
            for turn in range(len(out[node])):
                now = [path for path, its in zip(paths, turns.tolist(), strict=True) if its == turn]
                assert sorted(first for first, _ in now) == into[node]
                assert sorted(second for _, second in now) == out[node]


def test_links_and_switches_have_no_turns() -> None:
    ring, boxes = parse("ring(4)"), parse("dgx_a100:2")
    assert relay_turns(ring, []).tolist() == []
    assert relay_turns(ring, [(0,), (2,)]).tolist() == [0, 0]
    to_switch = int(np.flatnonzero(~boxes.is_compute[boxes.heads])[0])
    onward = np.flatnonzero(boxes.tails == boxes.heads[to_switch])
    assert relay_turns(boxes, [(to_switch, int(link)) for link in onward]).tolist() == [0] * len(onward)
