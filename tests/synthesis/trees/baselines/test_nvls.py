"""NCCL's NVLS: stars through switches that sum and copy, their rates in closed form, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import Topology, TopologyBuilder

GB = 10**9
ALLREDUCE = CollectiveKind.ALLREDUCE


def planes(ranks: int, widths: list[int], *, multicast: bool = True, aggregation: bool = True) -> Topology:
    """Ranks around several switches, with a link of so many GB/s to each; equal switches are one."""
    builder = TopologyBuilder("planes")
    names = [builder.compute(f"gpu{number}") for number in range(ranks)]
    for number, width in enumerate(widths):
        switch = builder.switch(f"sw{number}", multicast=multicast, aggregation=aggregation)
        for name in names:
            builder.duplex(name, switch, width * GB)
    return builder.build()


@pytest.mark.parametrize(("n", "widths"), [(3, [450]), (4, [25, 50]), (8, [100, 100, 100])])
@pytest.mark.parametrize(
    ("kind", "crossings"),
    [
        (ALLREDUCE, lambda n: Fraction(n + 1, n)),  # up and down once, and each part once more
        (CollectiveKind.ALLGATHER, lambda n: Fraction(1)),  # a store comes back to who asks
        (CollectiveKind.REDUCE_SCATTER, lambda n: Fraction(1)),
    ],
)
def test_rates_in_closed_form(n: int, widths: list[int], kind: CollectiveKind, crossings: object) -> None:
    plan = planning.solve(planes(n, widths), kind, algorithm="nvls").plan
    assert planning.verify(plan).is_ok
    assert plan.algbw == sum(widths) * GB / crossings(n)  # type: ignore[operator]
    if kind is ALLREDUCE:
        assert plan.algbw == plan.optimal_algbw


def test_unequal_shards_keep_their_shares() -> None:
    plan = planning.solve(planes(4, [100]), "allgather", algorithm="nvls", weights=(3, 0, 2, 1)).plan
    assert planning.verify(plan).is_ok
    assert plan.algbw == 100 * GB


def test_compare_shows_what_switches_that_sum_would_do() -> None:
    """One box of H100: 450 GB/s of rings, 700 with NVLink SHARP; N / (N + 1) of 450 is 400 of algbw."""
    found = planning.compare("dgx_h100(1)", ALLREDUCE)
    assert found.in_network is not None
    assert found.in_network.row.algbw == found.in_network.bound.algbw == 400 * GB
    assert "nvls" not in {row.algorithm for row in found.rows}
    said = planning.compare("dgx_h100(1, nvls=True)", ALLREDUCE)
    assert said.in_network is None
    assert next(row for row in said.rows if row.algorithm == "nvls").algbw == 400 * GB


@pytest.mark.parametrize(
    ("fabric", "kind"),
    [
        ("dgx_a100(1)", "allreduce"),  # its switches do not sum
        ("dgx_h100(2, 2)", "allreduce"),
        ("dgx_h100(1)", "allgather"),
        ("ring(4)", "allreduce"),
    ],
)
def test_where_that_is_no_question(fabric: str, kind: str) -> None:
    assert planning.compare(fabric, kind).in_network is None


def test_the_row_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "dgx_h100:1", "allreduce", "--size", "1G"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.startswith("nvls (in-network) ")]
    assert [row[2:4] for row in rows] == [["700.00", "-"]]
    said = " ".join(" ".join(lines).split())
    assert "100.0% of the optimum there, 400 GB/s; state it as in 'dgx_h100(1, nvls=True)'" in said
