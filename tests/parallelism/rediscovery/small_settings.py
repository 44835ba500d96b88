"""Small transformers on small meshes, and what of a plan of the search tells which layout it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from parallelism.problem.settings import NUMBERS, TIMES
from reference.parallelism.legality import violations
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.compute_graph import Node, OperatorKind
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, PartPlan
from treadle.parallelism.problem.search_problem import make_problem
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.one_plan import fastest_plan
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts, Costs
from treadle.training.models.attention import Heads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape

KAPPA = 1.2
"""Contention: without it, what hides behind computing is free, and plans move weights for nothing."""
LINE = Mesh((8,), ("x",))
GB = 1e9
CLOSED = SearchEffort(gap=0.01, n_parts=60)
GLANCE = SearchEffort(gap=0.01, n_parts=3)
"""For what a setting is compared with: a good plan, its bound is of no interest."""


def model(
    batch: int,
    sequence: int,
    *,
    hidden: int = 1024,
    inner: int = 4096,
    words: int = 2048,
    layers: int = 4,
    heads: Heads | None = None,
    experts: Experts | None = None,
) -> ModelGraph:
    heads = Heads(8, 8, 128) if heads is None else heads
    shape = TransformerShape("tiny", hidden, inner, words, layers, heads, experts=experts)
    return model_graph(transformer(shape), batch=batch, sequence=sequence)


def line_costs(rate: float, *, exchange: float | None = None) -> AlphaBetaCosts:
    """Eight ranks in a row that gather and reduce at one rate, and exchange at the same or another."""
    gather, scatter = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
    rates = {(gather, ("x",)): rate, (scatter, ("x",)): rate, (CollectiveKind.ALLREDUCE, ("x",)): rate / 2}
    rates[CollectiveKind.ALLTOALL, ("x",)] = rate if exchange is None else exchange
    return AlphaBetaCosts(5e-6, rates)


@dataclass(frozen=True)
class Layout:
    """What the search found, in words that tell layouts apart."""

    model: ModelGraph
    found: Incumbent
    plan: ParallelPlan
    result: Evaluation

    @property
    def block(self) -> PartPlan:
        return self.plan.plan_of("block")

    def node(self, name: str) -> Node:
        return next(node for node in self.model.part("block").graph.nodes if node.name == name)

    def cuts(self, name: str) -> set[tuple[str, str]]:
        """Pairs of an axis and the letter that it cuts of an operator of the block."""
        node, plan, atoms = self.node(name), self.block.operators[name], self.model.part("block").graph.atoms
        sides = [*zip(node.operands, plan.inputs, strict=True), *zip(node.results, plan.outputs, strict=True)]
        return {
            (axis, atoms[role.atom].name + "'" * role.prime)
            for side, state in sides
            for role, axes in zip((i for dim in side.roles for i in dim), state.dims, strict=True)
            for axis in axes
        }

    def heavy(self) -> dict[str, set[tuple[str, str]]]:
        """Cuts of the block's products and attentions."""
        kinds = (OperatorKind.EINSUM, OperatorKind.ATTENTION)
        return {name: self.cuts(name) for name in self.block.operators if self.node(name).kind in kinds}

    def stored(self) -> dict[str, set[str]]:
        """Axes that cut each matrix of the block where it is stored."""
        return {path: set(one.axes) for path, one in self.block.parameters.items() if "norm" not in path}

    def moved(self) -> set[tuple[str, CollectiveKind, tuple[str, ...]]]:
        """What collectives of the block are for (a matrix, its gradient, another tensor), kinds and axes."""
        part = self.model.part("block")
        matrices = {at for path, at in part.parameters.items() if "norm" not in path}
        what = {part.graph.spelled(at): "weight" for at in matrices}
        what |= {part.graph.spelled(part.graph.gradients[at]): "gradient" for at in matrices}
        large = [one for times in self.result.parts for one in times.movements if one.part == "block"]
        return {
            (what.get(one.tensor, "tensor"), one.collective.kind, one.collective.axes)
            for one in large
            if one.collective.size_bytes > 2**16  # a norm's weight is no layout
        }

    def recomputed(self) -> set[str]:
        return {name for name, one in self.block.operators.items() if one.keep is ActivationPolicy.RECOMPUTED}


def searched(
    graph: ModelGraph,
    mesh: Mesh,
    costs: Costs,
    *,
    memory: float = inf,
    effort: SearchEffort = CLOSED,
    kappa: float = 1.0,
) -> Layout:
    """The search's plan, legal and as quick as claimed by the evaluator that shares nothing with it."""
    problem = make_problem(graph, mesh, costs, TIMES, kappa=kappa)
    found = fastest_plan(problem.graph, memory_bytes=memory, effort=effort)
    assert isinstance(found, Incumbent)
    assert found.plan is not None
    plan = problem.decode(problem.tidied(found.plan))
    assert violations(plan, graph) == ()
    result = evaluate(plan, graph, costs, replace(NUMBERS, kappa=kappa))
    # of a loop the evaluator adds the latency of each chunk's collectives
    assert result.seconds <= found.value * (1 + (1e-3 if plan.n_chunked else 1e-9))
    assert result.peak_bytes <= memory
    if effort is CLOSED:
        assert found.gap <= 0.01 + 1e-9
    return Layout(graph, found, plan, result)
