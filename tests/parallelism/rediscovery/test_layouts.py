"""Layouts that people know, each found as the optimum where its setting calls for it, and only there.

They are told by states: which axes cut which letters, what is gathered, reduced and exchanged.
"""

from __future__ import annotations

from parallelism.problem.settings import costs
from parallelism.rediscovery.small_settings import (
    GB,
    GLANCE,
    KAPPA,
    LINE,
    Layout,
    line_costs,
    model,
    searched,
)
from treadle.parallelism.search.branching import SearchEffort
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.models.attention import Heads
from treadle.training.models.feed_forward import Experts

GATHER, SCATTER, REDUCE, EXCHANGE = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
BOXES = Mesh((4, 2), ("ib", "nv"))


def cuts_samples(layout: Layout) -> bool:
    """Whether all products and attentions of the block are cut by samples over all ranks."""
    axes = layout.plan.mesh.axis_names
    return all(cuts == {(axis, "b") for axis in axes} for cuts in layout.heavy().values())


def is_whole(layout: Layout) -> bool:
    return not any(layout.stored().values())


def is_sharded(layout: Layout) -> bool:
    return all(axes == set(layout.plan.mesh.axis_names) for axes in layout.stored().values())


def test_data_parallelism_where_links_are_slow_and_memory_is_ample() -> None:
    """Whole weights, one reduction of each gradient; a faster fabric hides gathers and shards weights."""
    graph = model(128, 512, words=8192)
    found = searched(graph, LINE, line_costs(30e9))
    assert cuts_samples(found)
    assert is_whole(found)
    assert found.moved() == {("gradient", REDUCE, ("x",))}
    other = searched(graph, LINE, line_costs(400e9), effort=GLANCE)
    assert is_sharded(other)
    assert ("gradient", REDUCE, ("x",)) not in other.moved()


def test_fully_sharded_data_parallelism_where_links_hide_and_memory_is_short() -> None:
    """Weights gathered, gradients scattered; slower links make some of them worth staying whole."""
    graph = model(64, 512, words=8192)
    found = searched(graph, LINE, line_costs(160e9), memory=0.9 * GB)
    assert cuts_samples(found)
    assert is_sharded(found)
    assert {("weight", GATHER, ("x",)), ("gradient", SCATTER, ("x",))} <= found.moved()
    assert not [one for one in found.moved() if one[0] == "gradient" and one[1] is REDUCE]
    other = searched(graph, LINE, line_costs(25e9), memory=0.9 * GB, effort=GLANCE)
    assert not is_sharded(other)
    assert ("gradient", REDUCE, ("x",)) in other.moved()


def test_hybrid_sharding_where_only_boxes_are_fast_inside() -> None:
    """Shards within a box, replicas over boxes; with fast links between boxes shards lie over all ranks."""
    graph = model(64, 512)
    slow = costs(BOXES, slow=36e9, fast=450e9, within=("nv",), alpha_s=5e-6)
    # within 1% of the optimum there are also plans that shard one weight over all ranks
    close = SearchEffort(gap=0.003, n_parts=60)
    found = searched(graph, BOXES, slow, memory=1.25 * GB, kappa=KAPPA, effort=close)
    assert cuts_samples(found)
    stored = found.stored()
    assert set().union(*stored.values()) == {"nv"}
    assert sum(axes == {"nv"} for axes in stored.values()) >= len(stored) - 1
    assert {axes for what, _, axes in found.moved() if what == "weight"} == {("nv",)}
    assert ("gradient", REDUCE, ("ib", "nv")) in found.moved()
    fast = costs(BOXES, slow=450e9, fast=450e9, within=("nv",), alpha_s=5e-6)
    assert is_sharded(searched(graph, BOXES, fast, memory=1.25 * GB, effort=GLANCE, kappa=KAPPA))


def test_tensor_parallelism_where_tokens_are_few_and_layers_wide() -> None:
    """Heads and inner width are cut, no weight is gathered; sums are scattered over tokens, where norms run.

    With 32 times the tokens weights are what is cheap to move.
    """
    heads = Heads(32, 8, 128)
    graph = model(1, 1024, hidden=4096, inner=16384, layers=2, heads=heads)
    found = searched(graph, LINE, line_costs(400e9), kappa=KAPPA)
    products = found.heavy()
    inner = ("up", "gate", "down", "d_activation", "d_feed_forward_w1", "d_feed_forward_w2")
    assert all(products[name] == {("x", "f")} for name in (*inner, "d_feed_forward_w3"))
    assert products["attention"] == products["attention_backward"] == {("x", "k")}
    assert all(("x", "s") not in cuts for cuts in products.values())
    assert is_sharded(found)
    assert not [one for one in found.moved() if one[0] != "tensor" and one[1] is not EXCHANGE]
    assert found.block.operators["down"].outputs[0].partial == {"x"}
    assert {("tensor", GATHER, ("x",)), ("tensor", SCATTER, ("x",))} <= found.moved()
    assert found.cuts("ffn_normed") == found.cuts("attention_residual") == {("x", "s")}
    many = model(8, 4096, hidden=4096, inner=16384, layers=2, heads=heads)
    other = searched(many, LINE, line_costs(100e9), effort=GLANCE, kappa=KAPPA)
    assert cuts_samples(other)
    assert ("weight", GATHER, ("x",)) in other.moved()


def test_context_parallelism_where_one_long_sample_meets_slow_exchanges() -> None:
    """Queries are cut and keys gathered; fast exchanges turn tokens into heads, many samples need neither."""
    graph = model(1, 65536, layers=2)
    found = searched(graph, LINE, line_costs(400e9, exchange=2e9))
    assert all(cuts == {("x", "s")} for cuts in found.heavy().values())
    keys = found.block.operators["attention"].inputs[1]
    assert not keys.axes
    assert ("tensor", GATHER, ("x",)) in found.moved()
    assert EXCHANGE not in {kind for _, kind, _ in found.moved()}
    other = searched(graph, LINE, line_costs(100e9), effort=GLANCE)
    assert other.cuts("attention") == {("x", "k")}
    assert other.cuts("up") == {("x", "s")}
    assert ("tensor", EXCHANGE, ("x",)) in other.moved()
    assert cuts_samples(searched(model(8, 8192, layers=2), LINE, line_costs(100e9), effort=GLANCE))


def test_expert_parallelism_where_exchanges_are_fast() -> None:
    """Tokens go to experts and back; where exchanges are slow, every rank picks tokens for its experts."""
    graph = model(8, 2048, layers=2, words=8192, experts=Experts(64, 2, 1024))
    found = searched(graph, LINE, line_costs(200e9))
    of_experts = [name for name in found.heavy() if "experts" in name]
    assert len(of_experts) == 9
    assert found.cuts("attention") == found.cuts("query") == {("x", "b")}
    assert found.cuts("experts_up") == found.cuts("experts_down") == {("x", "e")}
    assert found.cuts("dispatch") == {("x", "b")}
    graph_part = graph.part("block").graph
    for path in (f"layers.*.experts.w{number}.weight" for number in (1, 2, 3)):
        assert found.stored()[path] == {"x"}
        tensor = graph_part.spelled(graph.part("block").parameters[path])
        assert not [one for times in found.result.parts for one in times.movements if one.tensor == tensor]
    assert ("tensor", EXCHANGE, ("x",)) in found.moved()
    other = searched(graph, LINE, line_costs(200e9, exchange=2e9), effort=GLANCE)
    assert other.cuts("dispatch") == {("x", "e")}
    assert EXCHANGE not in {kind for _, kind, _ in other.moved()}


def test_recomputation_under_pressure_of_memory() -> None:
    """What is cheap to compute and large to keep is computed again, and nothing is where there is room."""
    graph = model(64, 512, words=8192)
    found = searched(graph, LINE, line_costs(200e9), memory=0.8 * GB)
    assert {"activation", "ffn_normed"} <= found.recomputed()
    assert not {"up", "gate"} & found.recomputed()
    ample = searched(graph, LINE, line_costs(200e9), effort=GLANCE)
    assert ample.recomputed() == set()
    assert ample.result.peak_bytes > 0.8 * GB
    assert ample.result.seconds < found.result.seconds
