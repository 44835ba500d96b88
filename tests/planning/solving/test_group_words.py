"""Groups of ranks: rates reckoned by hand, who is cut off in words, and problems that are of one group."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError
from treadle.inputs.problem import Problem
from treadle.planning import CutOffGroupError, make_problem
from treadle.schedulers import group_rates
from treadle.schedulers.alone_rates import AloneRate, alone_rates
from treadle.schedulers.bound_results import _words
from treadle.schedulers.group_rates import (
    algbw_of_phases,
    as_no_group,
    bracket_note,
    exact_algbw_of_phases,
    find_cut_off,
    own_fabric,
    phase_optima,
)
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import Topology, TopologyBuilder


def optimum(lower: int, upper: int | None = None) -> Any:
    upper = lower if upper is None else upper
    return SimpleNamespace(lower=Fraction(lower), upper=Fraction(upper), is_exact=lower == upper)


def test_times_of_phases_add_up() -> None:
    """One after the other at 3 and 6 bytes/s: a third and a sixth of a second a byte."""
    assert algbw_of_phases([optimum(3), optimum(6)]) == 2
    assert exact_algbw_of_phases([optimum(3), optimum(6)]) == 2
    assert exact_algbw_of_phases([optimum(3), optimum(6, 7)]) is None


def test_what_is_told_of_two_sides() -> None:
    assert bracket_note(optimum(3)) == ()
    assert bracket_note(optimum(3, 4)) == (
        "the optimum of the groups is not known exactly: what is built is at most 25.00% below it",
    )


def test_groups_that_are_alike_are_solved_once() -> None:
    """The least first, one that is not exact before one that is."""
    rates = {0: (Fraction(5), True), 2: (Fraction(3), True), 3: (Fraction(5), False)}
    asked: list[int] = []

    def alone(group: int) -> tuple[Fraction, bool]:
        asked.append(group)
        return rates[group]

    told: list[str] = []
    watch = Context(lambda *words: told.append(words[0]))
    problem = make_problem("ring:4", "allgather")
    with under(watch):
        found = alone_rates(problem, [0, 0, 2, 3, 2], alone)
    assert asked == [0, 2, 3]
    assert found == (
        AloneRate(Fraction(3), (2, 4), True),
        AloneRate(Fraction(5), (3,), False),
        AloneRate(Fraction(5), (0, 1), True),
    )
    assert told == ["group 0 alone", "group 2 alone", "group 3 alone"]


def line(n: int, *, missing: tuple[tuple[int, int], ...] = ()) -> Topology:
    """A path whose links both ways are there but for those that are named."""
    builder = TopologyBuilder("line")
    names = [builder.compute(f"n{node}") for node in range(n)]
    for one in range(n - 1):
        for tail, head in ((one, one + 1), (one + 1, one)):
            if (tail, head) not in missing:
                builder.link(names[tail], names[head], 1)
    return builder.build()


@pytest.mark.parametrize(
    ("fabric", "kind", "words", "found"),
    [
        # groups 0, 2 and 1, 3: the ranks of either are two hops apart
        (
            line(4),
            "allgather",
            {"mesh": "2,2", "axes": "0"},
            (0, "group 0 (n0, n2): 'n0' does not reach 'n2'", ("n0",)),
        ),
        (line(4), "allgather", {"mesh": "2,2", "axes": "0", "forward": True}, None),
        (line(4), "allgather", {"mesh": "2,2", "axes": "1"}, None),
        (
            line(4, missing=((3, 2),)),
            "allgather",
            {"mesh": "2,2", "axes": "1"},
            (1, "group 1 (n2, n3): 'n3' does not reach 'n2'", ("n2",)),
        ),
        (
            line(4, missing=((2, 3),)),
            "allgather",
            {"mesh": "2,2", "axes": "1"},
            (1, "group 1 (n2, n3): 'n2' does not reach 'n3'", ("n2",)),
        ),
        # a broadcast needs the way from the root only, a reduce the way back
        (line(4, missing=((3, 2),)), "broadcast", {"mesh": "2,2", "axes": "1"}, None),
        (
            line(4, missing=((3, 2),)),
            "broadcast",
            {"mesh": "2,2", "axes": "1", "root": 1},
            (1, "group 1 (n2, n3): 'n3' does not reach 'n2'", ("n3",)),
        ),
        (
            line(4, missing=((3, 2),)),
            "reduce",
            {"mesh": "2,2", "axes": "1"},
            (1, "group 1 (n2, n3): 'n3' does not reach 'n2'", ("n2",)),
        ),
        (line(4, missing=((2, 3),)), "reduce", {"mesh": "2,2", "axes": "1"}, None),
    ],
)
def test_groups_that_are_cut_off(fabric: Topology, kind: str, words: Any, found: Any) -> None:
    assert find_cut_off(make_problem(fabric, kind, **words)) == found


def test_many_ranks_of_a_group_are_not_all_told() -> None:
    shown = group_rates._SHOWN
    told = find_cut_off(make_problem(line(2 * shown + 2), "allgather", mesh=f"{shown + 1},2", axes="0"))
    assert told is not None
    names = ", ".join(f"n{2 * place}" for place in range(shown))
    assert told[1].startswith(f"group 0 ({names}, ...): ")
    told = find_cut_off(make_problem(line(2 * shown), "allgather", mesh=f"{shown},2", axes="0"))
    assert told is not None
    assert told[1].startswith(f"group 0 ({names}): ")


def test_what_is_said_of_a_group_that_is_cut_off() -> None:
    apart = make_problem("ring:4", "allgather", mesh="2,2", axes="0")
    forward = make_problem("ring:4", "allgather", mesh="2,2", axes="0", forward=True)
    assert _words(apart, "so", None) == (
        "ring(4): so, and would not if other compute nodes forwarded; connect them"
    )
    assert _words(forward, "so", None) == "ring(4): so; connect them"
    rate: Any = SimpleNamespace(algbw=Fraction(5 * 10**9, 2))
    assert _words(apart, "so", rate) == (
        "ring(4): so without ranks of other groups; with --forward all groups reach 2.5 GB/s algbw"
    )
    with pytest.raises(CutOffGroupError) as caught:
        treadle.bound("ring:4", "allgather", mesh="2,2", axes="0")
    assert (caught.value.group, caught.value.cut) == (0, ("n0",))
    assert caught.value.forwarding is not None
    assert caught.value.forwarding.algbw == 2
    assert isinstance(caught.value, InfeasibleError)


def test_a_group_has_its_own_fabric() -> None:
    apart = make_problem("path:4", "allgather", mesh="2,2", axes="1")
    own, member = own_fabric(apart, 1)
    assert own.node_names == ("n2", "n3")
    assert (member.ranks, member.groups) == ((0, 1), None)
    forward = make_problem("path:4", "allgather", mesh="2,2", axes="1", forward=True)
    own, member = own_fabric(forward, 1)
    assert own.node_names == ("n0", "n1", "n2", "n3")
    assert member.ranks == (2, 3)


def test_switches_only_pass_on_in_groups() -> None:
    builder = TopologyBuilder("star")
    switch = builder.switch("s")
    for name in "abcd":
        builder.duplex(builder.compute(name), switch, 1)
    plain = builder.build()
    for field in ("multicast", "aggregation"):
        star = replace(plain, **{field: ~plain.is_compute})
        own, _ = own_fabric(make_problem(star, "allgather", mesh="2,2", axes="1"), 0)
        assert not (own.multicast | own.aggregation).any()
        assert getattr(star, field).any()


def grouped(kind: str, **words: Any) -> Problem:
    found = make_problem("ring:4", kind, **words)
    return replace(found, collective=replace(found.collective, groups=((0, 1, 2, 3),)))


def test_one_group_of_all_ranks_is_no_group() -> None:
    for kind in ("allgather", "reduce-scatter"):
        plain = as_no_group(grouped(kind))
        assert plain is not None
        assert (plain.collective.groups, plain.collective.ranks_forward) == (None, False)
        assert plain == make_problem("ring:4", kind)
    assert as_no_group(grouped("allreduce")) is None
    assert as_no_group(make_problem("ring:4", "allgather")) is None
    assert as_no_group(make_problem("ring:4", "allgather", mesh="2,2", axes="1")) is None
    turned = grouped("allgather")
    order = replace(turned, collective=replace(turned.collective, groups=((0, 2, 1, 3),)))
    assert as_no_group(order) is None
    for field in ("multicast", "aggregation"):
        box = make_problem("dgx_a100:1", "allgather")
        able = ~box.topology.is_compute
        one = replace(box.collective, groups=(tuple(range(8)),))
        copying = Problem(replace(box.topology, **{field: able}), one)
        assert as_no_group(copying) is None
        assert as_no_group(Problem(box.topology, one)) is not None


def test_phases_of_allreduces_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[CollectiveKind] = []

    def found(problem: Problem) -> Any:
        asked.append(problem.collective.kind)
        if len(asked) > 2:
            raise TimeLimitError("late")
        return optimum(len(asked))

    monkeypatch.setattr(group_rates, "groups_optimum", found)
    problem = make_problem("ring:4", "allreduce", mesh="2,2", axes="1")
    phases = phase_optima(problem)
    assert phases is not None
    assert [one.lower for one in phases] == [1, 2]
    assert asked == [CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER]
    assert phase_optima(problem) is None
    assert phase_optima(make_problem("ring:4", "allgather", mesh="2,2", axes="1")) is None
