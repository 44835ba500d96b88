"""Groups of a mesh, and what groups reach as JSON: texts in full, brackets and cuts."""

from __future__ import annotations

import re
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest
from treadle.planning.group_summary import cut_off_values, membership_values, rate_values, rates_of_groups

from treadle.errors import FormatError, ScheduleError
from treadle.planning.meshes import as_axes, as_mesh, groups_of
from treadle.planning.solving.group_rates import AloneRate
from treadle.planning.together.shared_rates import SharedRates
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh


def test_meshes_as_they_are_typed() -> None:
    assert as_mesh(" dp = 3 , tp=2 ") == Mesh((3, 2), ("dp", "tp"))
    assert as_mesh("3, 2") == Mesh((3, 2), ("0", "1"))
    own = Mesh((2,), ("x",))
    assert as_mesh(own) is own
    assert as_mesh("x=999999999").n_ranks == 999999999
    for text in ("x=1000000000", "x=0", "x=", "x", "", "2,x=3", "2,03", "x=-1"):
        with pytest.raises(
            FormatError, match=f"^mesh {re.escape(repr(text))}: expected NAME=SIZE,... as dp=16,tp=8"
        ):
            as_mesh(text)
    assert [as_axes(cast(Any, axes)) for axes in ("a, b", 1, ["a", 2], ())] == [
        ("a", "b"),
        ("1",),
        ("a", "2"),
        (),
    ]


def test_groups_of_a_mesh() -> None:
    assert groups_of(None, None, 4, "ring") is None
    assert groups_of("2,3", "0", 6, "ring") == ((0, 3), (1, 4), (2, 5))
    with pytest.raises(
        FormatError,
        match=r"^axes a,b: the mesh that has them is missing; expected --mesh NAME=SIZE,\.\.\. \(mesh=\)$",
    ):
        groups_of(None, ("a", "b"), 4, "ring")
    with pytest.raises(
        FormatError, match=r"^mesh a=2,b=3: the axes that groups go over are missing; .* of a, b$"
    ):
        groups_of("a=2,b=3", None, 6, "ring")
    message = "mesh 2,3: it lays out 6 ranks, and ring has 5; --ranks (ranks=) chooses some"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        groups_of("2,3", "0", 5, "ring")


def test_rates_of_groups_as_json() -> None:
    assert rate_values("x", Fraction(3, 2)) == {"x_bytes_per_s": 1.5, "x_exact": "3/2"}
    assert rates_of_groups(None) == {}
    exact = SharedRates(Fraction(3), Fraction(3), (), (4, 5))
    assert rates_of_groups(exact) == {**rate_values("together", Fraction(3)), "binding_links": [4, 5]}
    alone = (
        cast(AloneRate, SimpleNamespace(algbw=Fraction(5), groups=(2, 3, 7), is_exact=True)),
        cast(AloneRate, SimpleNamespace(algbw=Fraction(6), groups=(1,), is_exact=False)),
    )
    bracket = SharedRates(Fraction(3), Fraction(4), alone, (), rs_ag=Fraction(2))
    assert rates_of_groups(bracket) == {
        **rate_values("together", Fraction(3)),
        **rate_values("together_upper", Fraction(4)),
        "gap": 0.25,
        **rate_values("rs_ag", Fraction(2)),
        **rate_values("alone", Fraction(5)),
        "alone_rates": [
            {**rate_values("algbw", Fraction(5)), "groups": 3, "first_group": 2},
            {**rate_values("algbw", Fraction(6)), "groups": 1, "first_group": 1, "bound_only": True},
        ],
        "binding_links": [],
    }


def test_groups_and_cuts_as_json() -> None:
    ranks = tuple(range(6))
    assert membership_values(Collective(CollectiveKind.ALLGATHER, ranks)) == {}
    groups = Collective(CollectiveKind.ALLGATHER, ranks, groups=((0, 1, 2), (3, 4, 5)))
    assert membership_values(groups) == {"groups": 2, "group_size": 3}
    forwarding = Collective(CollectiveKind.ALLGATHER, ranks, groups=groups.groups, ranks_forward=True)
    assert membership_values(forwarding) == {"groups": 2, "group_size": 3, "ranks_forward": True}
    error: Any = SimpleNamespace(cut=(2, 1), group=7, forwarding=None)
    zero = Fraction(0)
    values = {
        **rate_values("optimal_algbw", zero),
        **rate_values("optimal_busbw", zero),
        **rate_values("together", zero),
        **rate_values("alone", zero),
        "witness": {"kind": "cut", "nodes": [2, 1]},
        "cut_off_group": 7,
    }
    assert cut_off_values(error) == values
    error.forwarding = SimpleNamespace(algbw=Fraction(9))
    assert cut_off_values(error) == {**values, **rate_values("forwarding", Fraction(9))}
