"""Communication of layouts that people write by hand, inferred from the states of tensors alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations

import pytest

from reference.parallelism.all_strategies import Strategy, strategies
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.parallelism.state.strategies import Operator
from treadle.parallelism.state.transitions import Transitions
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

GATHER, SCATTER, REDUCE, EXCHANGE = KINDS = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
SIZES = {
    "a": 1024,
    "b": 2048,
    "c": 64,
    "d": 4096,
    "s": 4096,
    "t": 4096,
    "e": 64,
    "h": 32,
    "x": 128,
    "f": 8192,
}
BYTES = 2
FORWARD = Operator("EINSUM", ("cda", "ab"), ("cdb",))
OF_INPUT = Operator("EINSUM", ("cdb", "ab"), ("cda",))
OF_WEIGHT = Operator("EINSUM", ("cda", "cdb"), ("ab",))
Found = list[tuple[CollectiveKind, tuple[str, ...], int]]


def even_costs(mesh: Mesh, fused: int = 50) -> AlphaBetaCosts:
    """Latency, and 50 GB/s along any axis, another rate along several; half as much for allreduce."""
    names = mesh.axis_names
    subsets = [axes for n in range(1, len(names) + 1) for axes in combinations(names, n)]
    rates = {
        (kind, axes): (50 if len(axes) == 1 else fused) * 10**9 // (1 + (kind is REDUCE))
        for kind in KINDS
        for axes in subsets
    }
    return AlphaBetaCosts(Fraction(1, 10**5), rates)


def strategy(operator: Operator, mesh: Mesh, letters: Mapping[str, str]) -> Strategy:
    """The one that cuts these letters along these axes."""
    wanted = [(frozenset(letters.get(axis, "")), axis in letters) for axis in mesh.axis_names]
    return next(
        one
        for one in strategies(operator, SIZES, axis_sizes(mesh))
        if [(choice.dims, choice.divides) for choice in one.choices] == wanted
    )


def between(
    mesh: Mesh, letters: str, before: Sharding, after: Sharding, costs: AlphaBetaCosts | None = None
) -> Found:
    shape = tuple(SIZES[letter] for letter in letters)
    route = Transitions(mesh, costs or even_costs(mesh), shape, BYTES).cheapest(before, after)
    return [(step.kind, step.axes, step.size_bytes) for step in route.collectives]


def test_fully_sharded_matmul_gathers_weights_twice_and_scatters_the_gradient() -> None:
    """The three collectives of Fig. 5.1: activations by batch, weights and their gradients by rows."""
    mesh, stored = Mesh((8,), ("dp",)), Sharding((("dp",), ()))
    by_batch, weights = {"dp": "c"}, SIZES["a"] * SIZES["b"] * BYTES
    forward, of_input, of_weight = (
        strategy(operator, mesh, by_batch) for operator in (FORWARD, OF_INPUT, OF_WEIGHT)
    )
    assert between(mesh, "ab", stored, forward.inputs[1]) == [(GATHER, ("dp",), weights)]
    assert between(mesh, "ab", stored, of_input.inputs[1]) == [(GATHER, ("dp",), weights)]
    assert between(mesh, "ab", of_weight.outputs[0], stored) == [(SCATTER, ("dp",), weights)]
    # activations and their gradients stay where they are
    for letters, made, used in [
        ("cda", of_input.outputs[0], forward.inputs[0]),
        ("cda", forward.inputs[0], of_weight.inputs[0]),
        ("cdb", forward.outputs[0], of_input.inputs[0]),
        ("cdb", of_input.inputs[0], of_weight.inputs[1]),
    ]:
        assert between(mesh, letters, made, used) == []


def test_data_parallel_gradients_are_allreduced() -> None:
    mesh, stored = Mesh((8,), ("dp",)), Sharding(((), ()))
    by_batch = {"dp": "c"}
    assert between(mesh, "ab", stored, strategy(FORWARD, mesh, by_batch).inputs[1]) == []
    gradient = strategy(OF_WEIGHT, mesh, by_batch).outputs[0]
    assert between(mesh, "ab", gradient, stored) == [(REDUCE, ("dp",), SIZES["a"] * SIZES["b"] * BYTES)]


def test_hybrid_sharding_reduces_between_boxes_what_was_scattered_in_the_box() -> None:
    mesh, stored = Mesh((16, 8), ("dp", "fsdp")), Sharding((("fsdp",), ()))
    by_batch = {"dp": "d", "fsdp": "c"}
    weights = SIZES["a"] * SIZES["b"] * BYTES
    assert between(mesh, "ab", stored, strategy(FORWARD, mesh, by_batch).inputs[1]) == [
        (GATHER, ("fsdp",), weights)
    ]
    gradient = strategy(OF_WEIGHT, mesh, by_batch).outputs[0]
    assert between(mesh, "ab", gradient, stored, even_costs(mesh, fused=10)) == [
        (SCATTER, ("fsdp",), weights),
        (REDUCE, ("dp",), weights // 8),
    ]
    # what nobody writes by hand: as fast over all ranks as in the box, one reduce-scatter does both sums
    assert between(mesh, "ab", gradient, stored, even_costs(mesh, fused=50)) == [
        (SCATTER, ("dp", "fsdp"), weights),
        (GATHER, ("dp",), weights // 8),
    ]


@pytest.mark.parametrize("is_by_sequence", [False, True])
def test_tensor_parallel_blocks_end_in_one_collective(is_by_sequence: bool) -> None:
    """Columns, then rows: partial sums, reduced to replicas or scattered over the sequence."""
    mesh = Mesh((8,), ("tp",))
    columns = strategy(Operator("EINSUM", ("cda", "af"), ("cdf",)), mesh, {"tp": "f"})
    rows = strategy(Operator("EINSUM", ("cdf", "fa"), ("cda",)), mesh, {"tp": "f"})
    assert columns.outputs == rows.inputs[:1]
    activations = SIZES["c"] * SIZES["d"] * SIZES["a"] * BYTES
    rest = Sharding(((), ("tp",) if is_by_sequence else (), ()))
    entering = between(mesh, "cda", rest, columns.inputs[0])
    leaving = between(mesh, "cda", rows.outputs[0], rest)
    if is_by_sequence:
        assert (entering, leaving) == ([(GATHER, ("tp",), activations)], [(SCATTER, ("tp",), activations)])
    else:
        assert (entering, leaving) == ([], [(REDUCE, ("tp",), activations)])


def test_context_parallel_gathers_keys_and_sums_their_gradients() -> None:
    mesh = Mesh((8,), ("cp",))
    attention = strategy(Operator("ATTENTION", ("bhsx", "bhtx", "bhtx"), ("bhsx",)), mesh, {"cp": "s"})
    backward = strategy(
        Operator("ATTENTION", ("bhsx", "bhtx", "bhtx", "bhsx"), ("bhsx", "bhtx", "bhtx")), mesh, {"cp": "s"}
    )
    own = Sharding(((), (), ("cp",), ()))
    keys = SIZES["b"] * SIZES["h"] * SIZES["t"] * SIZES["x"] * BYTES
    assert between(mesh, "bhsx", own, attention.inputs[0]) == []
    assert between(mesh, "bhtx", own, attention.inputs[1]) == [(GATHER, ("cp",), keys)]
    assert between(mesh, "bhtx", backward.outputs[1], own) == [(SCATTER, ("cp",), keys)]


def test_heads_instead_of_the_sequence_are_an_alltoall() -> None:
    """As DeepSpeed-Ulysses does around attention."""
    mesh = Mesh((8,), ("sp",))
    attention = strategy(Operator("ATTENTION", ("bhsx", "bhtx", "bhtx"), ("bhsx",)), mesh, {"sp": "h"})
    own = Sharding(((), (), ("sp",), ()))
    held = SIZES["b"] * SIZES["h"] * SIZES["s"] * SIZES["x"] * BYTES // 8
    assert between(mesh, "bhsx", own, attention.inputs[0]) == [(EXCHANGE, ("sp",), held)]
    assert between(mesh, "bhsx", attention.outputs[0], own) == [(EXCHANGE, ("sp",), held)]


def test_expert_parallel_exchanges_tokens_both_ways() -> None:
    mesh = Mesh((8,), ("ep",))
    dispatch = strategy(Operator("DISPATCH", ("sa", "s"), ("eta",)), mesh, {"ep": "st"})
    experts = strategy(Operator("EINSUM", ("eta", "eaf"), ("etf",)), mesh, {"ep": "e"})
    back = strategy(Operator("EINSUM", ("etf", "efa"), ("eta",)), mesh, {"ep": "e"})
    combine = strategy(Operator("COMBINE", ("eta",), ("sa",)), mesh, {"ep": "st"})
    held = SIZES["e"] * SIZES["t"] * SIZES["a"] * BYTES // 8
    assert between(mesh, "eta", dispatch.outputs[0], experts.inputs[0]) == [(EXCHANGE, ("ep",), held)]
    assert between(mesh, "eaf", Sharding((("ep",), (), ())), experts.inputs[1]) == []
    assert experts.outputs == back.inputs[:1]
    assert between(mesh, "eta", back.outputs[0], combine.inputs[0]) == [(EXCHANGE, ("ep",), held)]
    assert combine.outputs == dispatch.inputs[:1]
