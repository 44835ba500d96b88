"""Neighbours have no symmetry: beyond a size they have no flow, and are left out beside all-to-alls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.finder.construction import Base, ScheduleMethod
from treadle.finder.designing import design_flow
from treadle.finder.designing.candidates import named_option
from treadle.finder.measure import Option
from treadle.finder.workload import Call, Exchange, Workload


def test_neighbours_without_a_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_flow, "_MOST_UNEVEN_WORK", 300)
    plain = named_option("torus(3, 3)", 9, 4)
    odd = named_option("with_exchanged_heads(torus(3, 3), 0, 9)", 9, 4)
    made = Base(odd.expression, "Neighbour(4,9)", ScheduleMethod.BFB, "neighbour")
    odd = Option(replace(odd.candidate, construction=made), odd.distances)
    reducing = Workload("one", (Call(Exchange.ALLREDUCE, 1),))
    exchanging = Workload("two", (Call(Exchange.ALLREDUCE, 1), Call(Exchange.ALLTOALL, 1)))
    first, second = design_flow.with_flows([plain, odd], reducing)
    assert first.flow is not None
    assert second.flow is None
    assert design_flow.with_flows([plain, odd], exchanging) == (first,)
    assert design_flow.with_flows([odd], exchanging) == (odd,)
    monkeypatch.undo()
    assert all(one.flow is not None for one in design_flow.with_flows([plain, odd], exchanging))
