"""Prices of collectives in all groups at once: against loads added up by hand, and the papers' figures."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import bound, step_costs
from treadle.schedules.collective import CollectiveKind
from treadle.training.prices import schedule_prices
from treadle.training.prices.collective_prices import TimeModel
from treadle.training.prices.fabric_costs import SCHEDULERS

AG, RS, AR, A2A = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
DGX, MESH = "dgx_h100:2", "fsdp=2,tp=8"
LINK = '"25Gbit/s"'
MIB, GIB = 2**20, 2**30


def gb_per_s(costs: object, kind: CollectiveKind | None, *axes: str) -> Fraction:
    return costs.price((kind, axes)).algbw / 10**9  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    ("schedule", "kind", "axis", "expected"),
    [
        ("treadle", AG, "tp", Fraction(4000, 7)),  # 500 GB/s into each GPU, NVLink and InfiniBand
        ("ring", AG, "tp", Fraction(450 * 8, 7)),  # NVLink alone
        ("ring", AR, "tp", Fraction(450 * 8, 14)),
        ("tree", AR, "tp", 225),  # an inner rank passes all of it down to two
        ("tree", AG, "tp", Fraction(450 * 8, 7)),
        ("ring", A2A, "tp", Fraction(450 * 8, 7)),
        ("bound", AR, "tp", Fraction(500 * 8, 14)),
        ("treadle", None, "fsdp", 50),
    ],
)
def test_rates_of_a_box(schedule: str, kind: CollectiveKind | None, axis: str, expected: Fraction) -> None:
    assert float(gb_per_s(step_costs(DGX, MESH, schedule=schedule), kind, axis)) == pytest.approx(
        float(expected), rel=1e-3
    )


def test_rings_of_all_groups_add_up() -> None:
    """Eight groups cross each leaf's two uplinks of 50 GB/s at once, with 3/4 of their data each."""
    fabric = "leaf_spine:4,2,gpus_per_leaf=8,oversubscription=4"
    costs = step_costs(fabric, "dp=4,tp=8", schedule="ring")
    assert gb_per_s(costs, AG, "dp") == Fraction(100, 8) / Fraction(3, 4)


@pytest.mark.parametrize("schedule", ["treadle", "ring", "tree"])
def test_no_schedule_is_quicker_than_the_bound(schedule: str) -> None:
    costs = step_costs(DGX, MESH, schedule=schedule)
    limit = step_costs(DGX, MESH, schedule="bound")
    for kind in (AG, RS, AR, A2A):
        for axis in ("fsdp", "tp"):
            times = [costs.time_s(kind, (axis,), size) for size in (1, 4096, MIB, 3 * MIB, GIB, 8 * GIB)]
            assert times == sorted(times)
            assert all(
                limit.time_s(kind, (axis,), size) <= time * (1 + 1e-9)
                for size, time in zip((1, 4096, MIB, 3 * MIB, GIB, 8 * GIB), times, strict=True)
            )
    assert limit.is_bound
    assert not costs.is_bound


def test_large_clusters_are_priced_by_rates() -> None:
    fabric = "leaf_spine:32,8,gpus_per_leaf=64,oversubscription=4"
    costs = step_costs(fabric, "fsdp=32,tp=64")
    assert costs.price((AG, ("fsdp",))).model is TimeModel.FARTHEST_RANK
    assert costs.price((AG, ("fsdp",))).delay_s == pytest.approx(5.2e-6)
    assert costs.priced[0].algbw == bound(fabric, AG, mesh="32,64", axes="0").algbw
    rings = step_costs(fabric, "fsdp=32,tp=64", schedule="ring").price((AG, ("fsdp",)))
    assert rings.model is TimeModel.RINGS
    assert rings.algbw <= costs.priced[0].algbw
    with pytest.raises(ScheduleError, match=r"double-binary-tree: 2048 ranks .* at most 1024"):
        step_costs(fabric, "fsdp=32,tp=64", schedule="tree").time_s(AR, ("fsdp",), MIB)


@pytest.mark.parametrize("schedule", ["treadle", "ring", "bound"])
def test_groups_that_are_cut_off_say_what_helps(schedule: str) -> None:
    """A path from rank 0 to rank 2 leads through rank 1 only, which is of another group."""
    costs = step_costs("mesh:4", "a=2,b=2", schedule=schedule)
    with pytest.raises(InfeasibleError, match=r"forward"):
        costs.time_s(AG, ("a",), MIB)
    forwarding = step_costs("mesh:4", "a=2,b=2", schedule=schedule, forward=True)
    assert forwarding.price((AG, ("a",))).algbw == 2 / (2 * Fraction(1, 2) * 2)


def test_double_binary_trees() -> None:
    """12 chunks a half: 2 (9 - 1 + 12 + 1) steps of alpha and 1 MB / 24 over a quarter of B."""
    costs = step_costs(
        f"generalized_kautz(4, 1024, bandwidth={LINK})",
        "dp=1024",
        schedule="double-binary-tree",
        alpha_s=10e-6,
    )
    steps = 2 * ((1024).bit_length() - 2 + 12)
    assert costs.time_s(AR, ("dp",), MIB) == pytest.approx(steps * (10e-6 + MIB / 24 / 3.125e9))
    assert costs.price((AR, ("dp",))).algbw == 3_125_000_000
    with pytest.raises(ScheduleError, match="only an allreduce and an all-to-all"):
        costs.time_s(AG, ("dp",), MIB)


def test_steps_of_line_graphs_are_built_where_breadth_first_is_worse() -> None:
    """Table A.1, N = 256: L^2(DBJMod(4, 2)) takes 5 steps; breadth first a reduce-scatter has T_B 1.33."""
    fabric = f"with_links(line_graph(modified_de_bruijn(4, 2), 2), bandwidth={LINK})"
    price = step_costs(fabric, "ep=256", alpha_s=10e-6).price((AR, ("ep",)))
    assert price.delay_s == pytest.approx(10 * 10e-6)
    assert 12.5e9 / float(price.algbw) == pytest.approx(2 * 1.0156, rel=1e-3)


def test_no_fabric_is_quicker_than_moores_bounds() -> None:
    fabric = f"line_graph(circulant(16, 3, 4, bandwidth={LINK}))"
    limit = step_costs(fabric, "ep=64", schedule="any-fabric", alpha_s=10e-6)
    for schedule in ("treadle", "shifted-ring", "torus"):
        costs = step_costs(fabric, "ep=64", schedule=schedule, alpha_s=10e-6)
        for kind in (AG, RS, AR, A2A):
            assert limit.time_s(kind, ("ep",), MIB) <= costs.time_s(kind, ("ep",), MIB)
    # 64 = 1 + 4 + 16 + 43: 3 steps, mean distance 165 / 63
    assert limit.time_s(AR, ("ep",), MIB) == pytest.approx(60e-6 + 2 * 63 / 64 * MIB / 12.5e9)
    assert limit.price((A2A, ("ep",))).algbw == Fraction(12_500_000_000 * 64, 165)


@pytest.mark.parametrize("schedule", [name for name, one in SCHEDULERS.items() if one.is_own_fabric])
def test_fabrics_of_their_own_need_direct_links(schedule: str) -> None:
    with pytest.raises(ScheduleError, match="without switches"):
        step_costs(DGX, "dp=16", schedule=schedule).time_s(AR, ("dp",), MIB)
    with pytest.raises(ScheduleError, match="over all axes of the mesh"):
        step_costs("torus:4,4", "dp=4,tp=4", schedule=schedule).time_s(AR, ("dp",), MIB)


@pytest.mark.parametrize("most", [schedule_prices.MOST_SHARING_RANKS, 0])
def test_slowdowns_of_what_shares_links(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All goes through the one NIC of each; exact rates of all at once and what lengths prove agree."""
    monkeypatch.setattr(schedule_prices, "MOST_SHARING_RANKS", most)
    gather, sum_, exchange = (AG, ("fsdp",)), (AR, ("tp",)), (A2A, ("fsdp",))
    costs = step_costs("leaf_spine:2,1,gpus_per_leaf=2", "fsdp=2,tp=2")
    assert costs.slowdowns((gather, sum_)) == pytest.approx((2, 2))
    assert costs.slowdowns((gather, sum_, exchange)) == pytest.approx((3, 3, 3))
    assert costs.slowdowns((gather,)) == (1,)
    limit = step_costs("leaf_spine:2,1,gpus_per_leaf=2", "fsdp=2,tp=2", schedule="bound")
    assert limit.slowdowns((gather, exchange)) == (1, 1)


def test_slowdowns_of_larger_fabrics() -> None:
    """A tp group alone takes NVLink and InfiniBand, 500 GB/s; fsdp beside it wants 50 GB/s of these."""
    costs = step_costs("dgx_h100:16", "fsdp=16,tp=8")
    assert costs.slowdowns(((AG, ("fsdp",)), (AR, ("tp",)))) == pytest.approx((1.1, 1.1))
    assert costs.slowdowns(((AG, ("fsdp",)), (AR, ("fsdp",)))) == pytest.approx((2, 2))
