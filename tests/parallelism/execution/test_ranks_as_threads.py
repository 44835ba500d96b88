"""Ranks as threads of one process: single moves of tensors, and whole steps against one device."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.execution.drawn_plans import draw_plan, may_cut, uneven_costs  # noqa: E402
from parallelism.execution.modules import (  # noqa: E402
    LANGUAGE_MODEL,
    language_model,
    make_block,
    make_tied,
    one_part,
)
from parallelism.execution.threaded_ranks import ThreadedRanks  # noqa: E402
from parallelism.state.shards_on_ranks import all_shardings, check_state, lay_out, mask  # noqa: E402
from treadle.parallelism.execution import rank_exchanges, rank_step  # noqa: E402
from treadle.parallelism.execution.counting import RankHoldings  # noqa: E402
from treadle.parallelism.execution.rank_step import RankTask, ReadTensor, find_routes, routes_of, run_step  # noqa: E402
from treadle.parallelism.execution.reference import path_of_run, reference_step  # noqa: E402
from treadle.parallelism.execution.run_comparison import errors_of  # noqa: E402
from treadle.parallelism.execution.tensor_blocks import BlockPosition, block, overlap, within  # noqa: E402
from treadle.parallelism.graph.model_graph import ModelGraph  # noqa: E402
from treadle.parallelism.plan.part_plan import Chunk  # noqa: E402
from treadle.parallelism.state.moves import Mixed, moves_from  # noqa: E402
from treadle.parallelism.state.sharding import Sharding  # noqa: E402
from treadle.parallelism.state.transitions import Step, Transitions  # noqa: E402
from treadle.schedules.collective import CollectiveKind  # noqa: E402
from treadle.schedules.mesh import Mesh  # noqa: E402

SQUARE = Mesh((2, 2), ("dp", "tp"))
SIX = Mesh((2, 1, 3), ("a", "idle", "b"), (3, 0, 5, 1, 4, 2))
SIZES = {"a": 2, "b": 3}


def test_where_ranks_stand() -> None:
    """Places in the order of the mesh: ranks 3, 0, 5 have a = 0 and b = 0, 1, 2; then 1, 4, 2."""
    places = {(0, 0): 3, (0, 1): 0, (0, 2): 5, (1, 0): 1, (1, 1): 4, (1, 2): 2}
    for (a, b), rank in places.items():
        place = BlockPosition(SIX, rank)
        assert (place.sizes, place.at) == (SIZES, {"a": a, "b": b})
        assert place.rank_at({"a": a, "b": b}) == rank
    # the group along b of rank 5, by rank
    found = BlockPosition(SIX, 5).members(("b",))
    assert found == [{"a": 0, "b": 1}, {"a": 0, "b": 0}, {"a": 0, "b": 2}]
    assert [BlockPosition(SIX, 5).rank_at(at) for at in found] == [0, 3, 5]
    both = BlockPosition(SIX, 5).members(("b", "a"))
    assert [BlockPosition(SIX, 5).rank_at(at) for at in both] == [0, 1, 2, 3, 4, 5]
    plain = BlockPosition(Mesh((2, 3), ("a", "b")), 4)
    assert (plain.at, plain.rank_at({"a": 1, "b": 1}), plain.rank_at({"b": 2})) == ({"a": 1, "b": 1}, 4, 2)


def test_blocks_and_what_they_have_in_common() -> None:
    """30 elements by a (2), then b (3): 15 each, then 5; by b, then a: 10 each, then 5."""
    at = {"a": 1, "b": 2}
    assert block(Sharding((("a", "b"), ())), (30, 7), SIZES, at) == (slice(25, 30), slice(0, 7))
    assert block(Sharding((("b", "a"), ())), (30, 7), SIZES, {"a": 1, "b": 1}) == (slice(15, 20), slice(0, 7))
    assert block(Sharding(((), ("b",))), (30, 9), SIZES, at) == (slice(0, 30), slice(6, 9))
    first, second = (slice(2, 9), slice(0, 4)), (slice(5, 12), slice(1, 3))
    assert overlap(first, second) == (slice(5, 9), slice(1, 3))
    assert overlap((slice(0, 5),), (slice(5, 9),)) is None
    assert overlap((slice(0, 5),), (slice(4, 9),)) == (slice(4, 5),)
    assert within((slice(5, 9), slice(1, 3)), first) == (slice(3, 7), slice(1, 3))


def routes_of_single_moves(shape: tuple[int, ...]) -> list[tuple[Step, ...]]:
    """Every move from every state, or every fifth of those that are done in two halves."""
    found: list[tuple[Step, ...]] = []
    halves = 0

    def step(kind: CollectiveKind | None, axes: frozenset[str], before: Any, after: Any) -> Step:
        return Step(kind, tuple(axis for axis in SIZES if axis in axes), 0, 0, before, after)

    for state in all_shardings(shape, SIZES):
        for move in moves_from(state, tuple(SIZES)):
            if not isinstance(move.target, Mixed):
                if move.target.unsupported(shape, SIZES) is None:
                    found.append((step(move.kind, move.axes, state, move.target),))
                continue
            for second in moves_from(move.target, tuple(SIZES)):
                assert isinstance(second.target, Sharding)
                halves += 1
                if second.target.unsupported(shape, SIZES) is None and halves % 5 == 0:
                    first = step(move.kind, move.axes, state, move.target)
                    found.append((first, step(second.kind, second.axes, move.target, second.target)))
    return found


def test_every_move_between_states_is_done_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (6, 12)
    ranks = ThreadedRanks(SIX)
    monkeypatch.setattr(rank_exchanges, "_done", ranks.done)
    whole = np.random.default_rng(5).integers(-99, 99, shape).astype(float)
    routes = routes_of_single_moves(shape)
    kinds = {(route[0].kind, len(route)) for route in routes}
    assert kinds == {(None, 1), (CollectiveKind.ALLTOALL, 2)} | {
        (CollectiveKind(kind), 1) for kind in ("allgather", "allreduce", "reduce-scatter", "alltoall")
    }
    places = [tuple(BlockPosition(SIX, rank).at[axis] for axis in SIZES) for rank in range(6)]
    laid = [lay_out(whole, route[0].before, SIZES, at) for at, route in enumerate(routes)]

    def work(rank: int) -> list[np.ndarray]:
        exchange, made = ranks.exchange(rank), []
        for route, held in zip(routes, laid, strict=True):
            before, after = route[0].before, route[-1].after
            here = mask(before, shape, SIZES, places[rank])
            local = torch.tensor(held[places[rank]][here].reshape(before.local_shape(shape, SIZES)))
            value = exchange.follow(local, shape, route)
            assert tuple(value.shape) == after.local_shape(shape, SIZES)
            full = np.full(shape, np.nan)
            full[mask(after, shape, SIZES, places[rank])] = value.numpy().ravel()
            made.append(full)
        return made

    found = ranks.run(work)
    for at, route in enumerate(routes):
        assert isinstance(route[-1].after, Sharding)
        held = {places[rank]: found[rank][at] for rank in range(6)}
        check_state(held, whole, route[-1].after, SIZES)
    local_steps = sum(route[0].kind is None for route in routes)
    n_halves = sum(len(route) == 2 for route in routes)
    assert len([one for one in ranks.called if one[0]]) == len(routes) - local_steps + n_halves


def executed(monkeypatch: pytest.MonkeyPatch, task: RankTask) -> tuple[dict[str, float], list[ReadTensor]]:
    mesh = task.plan.mesh
    ranks = ThreadedRanks(mesh)
    monkeypatch.setattr(rank_exchanges, "_done", ranks.done)
    monkeypatch.setattr(rank_step, "_groups", ranks.groups)
    expected = reference_step(task.model, task.makes, seed=3)
    routes = routes_of(mesh, task.costs)
    with torch.no_grad():
        find_routes(task, expected, routes)
    found = ranks.run(lambda rank: run_step(task, expected, rank, routes))
    return errors_of(task.model, mesh, expected, found), found


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return language_model(2)


LOSS = ("mm", "amax", "sub", "exp", "sum_2", "log", "sub_1", "gather", "zeros_like", "scatter", "mul_2",
        "exp_1", "sum_5", "mul_3", "sub_2", "mm_1", "mm_2")  # fmt: skip
"""From the logits to the gradients of table and norm."""


def by_tokens(graph: Any, node: Any, **axes: tuple[str]) -> dict[Any, tuple[str, ...]]:
    """Samples along dp, the sequence along tp; or what `axes` say."""
    axes = axes or {"c": ("dp",), "d": ("tp",)}
    names = {role: graph.atoms[role.atom].name for role in may_cut(node) if not role.prime}
    return {role: axes[name] for role, name in names.items() if name in axes}


def in_chunks(node: Any) -> Chunk | None:
    return Chunk("d", 4) if node.name in LOSS else None


def test_tokens_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of each rank's part of the sequence of 8, of which it has four."""
    model = one_part("tied", make_tied)
    plan = draw_plan(model, SQUARE, 3, chosen=by_tokens, chunks=in_chunks)
    errors, found = executed(monkeypatch, RankTask(model, plan, {"tied": make_tied}, uneven_costs(SQUARE)))
    assert set(errors) == {"0 tied: output 0", "0 tied: embedding.weight", "0 tied: norm.weight"}
    assert max(errors.values()) < 1e-13
    assert len({one.parameter_bytes for one in found}) == 1


def test_queries_in_parts_see_the_keys_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model = one_part("block", make_block)
    plan = draw_plan(model, SQUARE, 3, chosen=partial(by_tokens, k=("tp",)))
    errors, _ = executed(monkeypatch, RankTask(model, plan, {"block": make_block}, uneven_costs(SQUARE)))
    assert max(errors.values()) < 1e-13


def test_a_step_on_one_device_is_that_of_the_modules_joined(model: ModelGraph) -> None:
    """Parts from their own seeds, the head with the embedding's table, one loss and its tangent."""
    runs = reference_step(model, LANGUAGE_MODEL, seed=7)
    assert [run.part for run in runs] == ["embedding", "block", "block", "head"]
    made = []
    for number, run in enumerate(runs):
        torch.manual_seed(7 + 1000 * number)
        made.append(LANGUAGE_MODEL[run.part]())
    (embedding, words), (first, one), (second, other), (head, given) = made
    head.out.weight = embedding.weight
    hidden = embedding(*words)
    for module, arguments in ((first, one), (second, other)):
        hidden.retain_grad()
        hidden = module(hidden, *arguments[1:])
    loss = head(hidden, *given[1:])
    tangent = torch.randn((), dtype=loss.dtype, generator=torch.Generator().manual_seed(8))
    loss.backward(tangent)
    assert torch.equal(runs[-1].outputs[0], loss)
    assert torch.equal(runs[-2].outputs[0], hidden)
    parts = {part.name: part for part in model.parts}
    for run, (module, _) in zip(runs, made, strict=True):
        parameters = dict(module.named_parameters())
        for path, tensor in parts[run.part].parameters.items():
            assert torch.equal(run.gradients[tensor.node], parameters[path].grad), (run.part, path)
            assert torch.equal(run.placeholders[tensor.node], parameters[path]), (run.part, path)
    again = reference_step(model, LANGUAGE_MODEL, seed=8)
    assert not torch.equal(again[-1].outputs[0], loss)


@pytest.mark.parametrize(
    ("path", "nth", "name"),
    [
        ("layers.*.w", 3, "layers.3.w"),
        ("layers.[1:32:2].w1.weight", 2, "layers.5.w1.weight"),
        ("layers.[4:9].w", 2, "layers.6.w"),
        ("left|right.w", 1, "right.w"),
        ("a.b", 5, "a.b"),
    ],
)
def test_names_of_parameters_in_a_run(path: str, nth: int, name: str) -> None:
    assert path_of_run(path, nth) == name


def test_the_fullest_moment_counts_a_storage_once() -> None:
    holdings = RankHoldings()
    kept = torch.zeros(10)
    holdings.add("one", lambda: [kept, kept[:3]])
    holdings.measure("first", [torch.zeros(5)])
    assert (holdings.peak_bytes, holdings.peak_at) == (60, "first")
    holdings.measure("as full", [torch.zeros(5)])
    assert holdings.peak_at == "first"
    holdings.add("two", lambda: [torch.zeros(2, dtype=torch.float64)])
    holdings.measure("fuller", [kept])
    assert (holdings.peak_bytes, holdings.peak_at) == (60, "first")
    holdings.measure("fullest", [torch.zeros(5)])
    assert (holdings.peak_bytes, holdings.peak_at) == (76, "fullest")


def test_routes_are_those_of_transitions_and_found_once() -> None:
    costs, sizes = uneven_costs(SQUARE), {"dp": 2, "tp": 2}
    routes = routes_of(SQUARE, costs)
    states = all_shardings((8, 4), sizes)
    for before, after in zip(states, states[::-1], strict=True):
        for shape, item in (((8, 4), 2), ((8, 4), 4), ((4, 8), 2)):
            found = routes(shape, item, before, after)
            assert found == Transitions(SQUARE, costs, shape, item).cheapest(before, after).steps
            assert routes(shape, item, before, after) is found
    assert routes((8, 4), 2, states[0], states[0]) == ()
