"""Cost models in place of one alpha: prices of steps' collectives by class of link and protocol."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from treadle.errors import FormatError
from treadle.planning import bound, step_costs, train
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.costs.cost_presets import cost_presets

AG, AR, A2A = CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
SCHEDULES = {
    "dgx_a100:1": {"treadle": (AG, AR, A2A), "ring": (AG, A2A), "tree": (AR,), "bound": (AG, AR, A2A)},
    'torus:3,3,bandwidth="1GB/s"': {
        "treadle": (AG, AR, A2A),
        "bound": (AG, A2A),
        "torus": (AG, A2A),
        "shifted-ring": (AR,),
        "double-binary-tree": (AR,),
        "any-fabric": (AR, A2A),
    },
}
SIZES = (1, 1000, 2**17, 2**24, 2**31)


@pytest.mark.parametrize("fabric", SCHEDULES)
def test_one_alpha_for_all_classes_is_alpha(fabric: str) -> None:
    """10 us whatever the link, and all of its bandwidth: the prices are those of that alpha, by all ways."""
    mesh = "fsdp=9" if "torus" in fabric else "fsdp=8"
    for (schedule, kinds), simulates in product(SCHEDULES[fabric].items(), (True, False)):
        plain, model = (
            step_costs(fabric, mesh, schedule=schedule, simulates=simulates, **how)  # type: ignore[arg-type]
            for how in ({"alpha_s": 1e-5}, {"cost_model": "dissertation"})
        )
        for kind, size in product(kinds, SIZES):
            expected = plain.time_s(kind, ("fsdp",), size)
            found = model.time_s(kind, ("fsdp",), size)
            assert found == pytest.approx(expected, rel=1e-6), (schedule, kind, size)
        if not plain.scheduler.is_own_fabric:
            assert model.send_s("fsdp", 1000) == pytest.approx(plain.send_s("fsdp", 1000))


@pytest.mark.parametrize("name", ["reference", "nccl-ampere"])
def test_no_schedule_is_quicker_than_the_bound_of_a_model(name: str) -> None:
    mesh = "fsdp=2,tp=8"
    floor = step_costs("dgx_a100:2", mesh, schedule="bound", cost_model=name)
    for schedule in ("treadle", "ring", "tree"):
        costs = step_costs("dgx_a100:2", mesh, schedule=schedule, cost_model=name)
        for axes in (("tp",), ("fsdp",)):
            for kind in (AG, AR):
                for size in SIZES:
                    least = floor.time_s(kind, axes, size)
                    assert 0 < least <= costs.time_s(kind, axes, size) * (1 + 1e-9), (axes, kind, size)


def test_each_size_is_carried_by_the_protocol_that_is_quickest() -> None:
    """One box: three us and half of the bandwidth, or ten and all of it; a launch of one us for both."""
    protocols = (
        Protocol("low", ClassCost(alpha_ns=3000, efficiency=Fraction(1, 2)), launch_ns=1000),
        Protocol("high", ClassCost(alpha_ns=10_000), launch_ns=1000),
    )
    model = CostModel("two", "made up", protocols)
    costs = step_costs("dgx_a100:1", "tp=8", schedule="bound", cost_model=model)
    rate = float(bound("dgx_a100:1", AG).algbw)
    large = 2**30
    assert costs.time_s(AG, ("tp",), 1) == pytest.approx(4e-6)
    assert costs.time_s(AG, ("tp",), large) == pytest.approx(1e-6 + large / rate)
    between = [costs.time_s(AG, ("tp",), size) for size in (10_000, 10**6, 5 * 10**6, 10**7)]
    assert between == sorted(between)


def test_channels_cap_what_leaves_a_rank() -> None:
    slow = CostModel("slow", "made up", (Protocol("one", channels=2, channel_bytes_per_s=10**9),))
    costs = step_costs("dgx_a100:1", "tp=8", schedule="bound", cost_model=slow)
    assert costs.time_s(AG, ("tp",), 8 * 10**9) == pytest.approx(7 * 10**9 / 2e9)


def test_a_step_takes_longer_by_dearer_messages() -> None:
    def seconds(name: str) -> float:
        found = train(
            "gpt2", "dgx_h100:1", mesh="dp=8", gpu="h100", batch=8, schedules="treadle", cost_model=name
        )
        assert any(name in words for words in found.rows[0].model_words)
        return float(found.rows[0].outcome.iteration_s)

    assert seconds("reference") < seconds("preprint-a100")


def test_alpha_beside_a_model_is_refused() -> None:
    with pytest.raises(FormatError, match="use one of them"):
        step_costs("dgx_h100:1", "tp=8", alpha_s=1e-6, cost_model="reference")
    assert "reference" in cost_presets()
    with pytest.raises(FormatError, match="neither a file"):
        train("gpt2", "ring:4", mesh="dp=4", gpu="a100", cost_model="refrence")
