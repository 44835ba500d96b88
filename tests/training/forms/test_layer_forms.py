"""What tensor, context and expert parallelism make of a layer's passes."""

from __future__ import annotations

from typing import Any

import pytest

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import AlphaBetaCosts
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.layer_forms import with_quicker_order
from treadle.training.forms.layer_passes import LayerSeconds
from treadle.training.forms.rank_part import rank_part
from treadle.training.models.model_layer import Weight
from treadle.training.training_options import ExpertOrder, TrainingOptions

SUM, EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
SECONDS = LayerSeconds((4, 8), (2, 5), (3, 6))


def experts(n_exchanges: int = 2, **fields: Any) -> dict[str, Any]:
    weights = (Weight("w", 8), Weight("experts", 64, expert=True))
    return {
        "experts": 4,
        "top_k": 2,
        "routed_elements": 20,
        "exchanges": n_exchanges,
        "weights": weights,
        **fields,
    }


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize(("inner", "outer"), [(1, 100), (100, 1)])
def test_the_quicker_order_of_exchange_and_gather_is_taken(inner: int, outer: int, *, spread: bool) -> None:
    """Copies along the faster axis."""
    mesh = mesh_of(ep=4, tp=2)
    options = TrainingOptions(kappa=1, sequence_parallel=spread)
    share = rank_part(ParallelLayout(mesh), options, 4, {"": 8})
    rates = {
        (kind, axes): rate for kind in CollectiveKind for axes, rate in ((("tp",), inner), (("ep",), outer))
    }
    layers = plain_layers(1, boundary_elements=10, **experts(reductions=1))
    found = with_quicker_order(share, layers, AlphaBetaCosts(0, rates)).options.expert_order
    assert found is (ExpertOrder.GATHER_FIRST if outer > inner else ExpertOrder.EXCHANGE_FIRST)
    alone = rank_part(ParallelLayout(mesh_of(ep=4)), options, 4, {"": 8})
    assert with_quicker_order(alone, layers, AlphaBetaCosts(0, {})) is alone
    assert with_quicker_order(share, plain_layers(1), AlphaBetaCosts(0, {})) is share


def test_experts_of_several_replicas_are_summed_apart() -> None:
    mesh = mesh_of(dp=2, ep=4)
    step = small_step(plain_layers(1, **experts()), mesh, free_costs(mesh), seconds=SECONDS)
    found = {(task.traffic, task.size_bytes) for task in step.of("allreduce")}
    assert found == {((SUM, ("dp", "ep")), 8), ((SUM, ("dp",)), 16)}


def test_what_cannot_be_shared_is_refused() -> None:
    layout = ParallelLayout(mesh_of(dp=4, cp=4))
    options = TrainingOptions(kappa=1, micro_batches=2)
    with pytest.raises(ScheduleError, match=r"batch of 12: expected a multiple of 8 \(4 replicas"):
        rank_part(layout, options, 12, {"": 8})
    with pytest.raises(ScheduleError, match=r"sequences of 6 tokens: expected a multiple of cp, 4"):
        rank_part(layout, options, 8, {"": 6})
    assert rank_part(layout, options, 16, {"": 8}).rank_tokens("") == 4
