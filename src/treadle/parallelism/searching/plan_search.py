"""The best plan of a model on one mesh: problem, presets, search, and evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

from treadle.context import context, under
from treadle.errors import FormatError, ScheduleError
from treadle.parallelism.evaluation.bound_check import checked_bound, checked_mixture, checked_proof
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.evaluation.plan_timeline import plan_timeline
from treadle.parallelism.evaluation.reshardings import Reshardings
from treadle.parallelism.evaluation.resimulation import Resimulated, resimulate
from treadle.parallelism.explaining.state_format import dims_of, matching_tensors, read_state
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.problem.assembly import ParameterBytes
from treadle.parallelism.problem.refining import JoinedCosts, refined
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.search.bound_certificate import ProofStep, bound_certificate, proof_steps
from treadle.parallelism.search.branching import NAMED_EFFORT, Incumbent, SearchEffort, minimise
from treadle.parallelism.search.factor_graph import FactorGraph
from treadle.parallelism.search.layer_columns import Layering, priced
from treadle.parallelism.search.minimax import Minimax, step_time
from treadle.parallelism.search.mixed_layers import MixedLayers
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan, least_persistent
from treadle.parallelism.search.slices import Domains, consistent
from treadle.parallelism.searching.mesh_choices import joined_meshes
from treadle.parallelism.searching.mesh_problem import MeshProblem, MeshResult
from treadle.parallelism.searching.mesh_search import Look
from treadle.parallelism.searching.parallel_options import ParallelRequest
from treadle.parallelism.searching.parallel_result import PricedPlan
from treadle.parallelism.state.sharding import axis_sizes
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs
from treadle.training.models.training_model import TrainingModel
from treadle.unsupported import Unsupported

OURS = "treadle"
STAGES = "pp"
"""Name of the axis along which pipeline stages lie."""
_FIRST_PASSES = 12
"""Calls of message passing of a first look: the bound is then mostly within a few percent."""


_MOST_COARSE_PARTS = 60
"""Time limit of branch and bound on a coarse mesh: only its plan and the fine mesh's bound count."""


@dataclass(frozen=True)
class PipelineForm:
    """Pipelining of a step.

    Parameters
    ----------
    stages : int
    micro_batches : int
    interleave : int
        Virtual stages on each stage.
    """

    stages: int = 1
    micro_batches: int = 1
    interleave: int = 1


ONE_PASS = PipelineForm()
"""No pipeline."""


class PlanSearch:
    """Searches of one model under one request, mesh by mesh.

    Parameters
    ----------
    model : ModelGraph
    request : ParallelRequest
    layers : TrainingModel, optional
        The same model as `train` has it.
    """

    def __init__(
        self, model: ModelGraph, request: ParallelRequest, layers: TrainingModel | None = None
    ) -> None:
        self.model, self.request, self.layers = model, request, layers
        self.numbers = request.numbers
        self._reshardings: dict[tuple[int, Mesh], tuple[Costs, Reshardings]] = {}

    def with_memory(self, memory_bytes: float) -> PlanSearch:
        """Return the same searches under another limit."""
        return PlanSearch(self.model, replace(self.request, memory_bytes=memory_bytes), self.layers)

    def make_problem(self, mesh: Mesh, costs: Costs, form: PipelineForm = ONE_PASS) -> MeshProblem:
        """Return the problem on a mesh, or on that of a pipeline's stage.

        Raises
        ------
        FormatError
            If a constraint has an unknown name.
        """
        numbers, zero = self.numbers, self.request.zero
        held, spread = (numbers.stored_bytes, numbers.optimizer_bytes), numbers.spread_bytes[zero]
        parameters = ParameterBytes(*held, zero, spread, form.micro_batches, form.stages)
        problem = make_problem(
            self.model, mesh, costs, self.request.times, parameters=parameters, kappa=numbers.kappa
        )
        return MeshProblem(problem, costs, self.presets(problem), self._within(problem))

    def look(self, posed: MeshProblem) -> Look[MeshResult]:
        """Return the best preset that fits, and the first bound."""
        graph = posed.problem.graph
        aim = self._aim(graph)
        effort = SearchEffort(gap=self.request.gap, n_parts=1, first_passes=_FIRST_PASSES)
        with under(context().unlimited):  # each mesh has a look at least
            found = minimise(graph, aim, within=posed.within, warm_starts=self.allowed(posed), effort=effort)
        return Look(found.value, found.bound, MeshResult(posed, found.plan, proof=found))

    def search(
        self,
        before: Look[MeshResult],
        *,
        known: Iterable[tuple[int, ...]] = (),
        effort: SearchEffort | None = None,
    ) -> Look[MeshResult]:
        """Return the best plan, until the gap is proven, one is found that is quick enough, or time is up.

        Parameters
        ----------
        before : Look
        known : iterable of plans
            Besides the presets; if one is within the gap of the first bound, no search is needed.
        effort : SearchEffort, optional
            By default until the gap is proven.
        """
        posed = before.found.posed
        graph, known = posed.problem.graph, list(known)
        aim = self._aim(graph)
        amounts = {plan: graph.amounts(plan) for plan in known}
        values = ((aim.value(one) if aim.fits(one) else inf, plan) for plan, one in amounts.items())
        value, best = min(values, default=(inf, None))
        if best is not None and value <= before.seconds and before.bound_s >= value * (1 - self.request.gap):
            return Look(value, before.bound_s, replace(before.found, plan=best))
        named = [*self.allowed(posed), *known, *([] if before.found.plan is None else [before.found.plan])]
        found = fastest_plan(
            graph,
            memory_bytes=self.request.memory_bytes,
            overlap=self.request.overlap,
            within=posed.within,
            named=named,
            effort=SearchEffort(gap=self.request.gap) if effort is None else effort,
        )
        if isinstance(found, MemoryShortage):
            return Look(inf, inf, MeshResult(posed, None, found))
        bound = max(found.bound, min(before.bound_s, found.value))
        late = context().is_late and bound < found.value * (1 - self.request.gap)
        proof = found if found.bound >= bound else before.found.proof
        return Look(found.value, bound, MeshResult(posed, found.plan, is_late=late, proof=proof))

    def coarser_plans(self, posed: MeshProblem) -> list[tuple[int, ...]]:
        """Return for three axes or more the best known plans on two, with neighbouring axes joined.

        A search over few states finds what one over many would take long to meet. Constraints refer to
        the fine mesh: then there are none.
        """
        found = []
        for mesh, parts in joined_meshes(posed.problem.mesh) if not self.request.constraints else ():
            coarse = self.make_problem(mesh, JoinedCosts(posed.costs, parts))
            effort = SearchEffort(gap=self.request.gap, n_parts=_MOST_COARSE_PARTS)
            plan = self.search(self.look(coarse), effort=effort).found.plan
            if plan is not None:
                fine = refined(coarse.problem, posed.problem, parts, coarse.problem.tidied(plan))
                found += [] if fine is None else [fine]
            if context().is_late:
                break
        return found

    def estimated(self, plan: ParallelPlan, costs: Costs) -> Evaluation:
        """Return what the evaluator says of a plan."""
        key = id(costs), plan.mesh  # costs are kept, so that no others take their place
        _, reshardings = self._reshardings.setdefault(key, (costs, Reshardings(plan.sizes, costs)))
        overlap = self.request.overlap.value
        return evaluate(plan, self.model, costs, self.numbers, overlap=overlap, reshardings=reshardings)

    def priced(self, name: str, plan: ParallelPlan, costs: Costs) -> PricedPlan:
        """Return a plan with its step, simulated."""
        found = self.estimated(plan, costs)
        timeline = plan_timeline(plan, self.model, costs, self.numbers, found)
        times = [timeline.device_time(device) for device in timeline.devices]
        compute = float(sum(one.compute_s + one.contention_s for one in times)) / len(times)
        idle = float(sum(one.idle_s for one in times)) / len(times)
        seconds, held = float(timeline.total_s), found.peak_bytes
        parts = compute, max(0.0, seconds - compute - idle), idle, found.communication_s
        by_axes = {",".join(axes): total for axes, (_, _, total) in found.by_axes.items()}
        fits = held <= self.request.memory_bytes
        return PricedPlan(name, plan, seconds, found.seconds, *parts, by_axes, held, fits)

    def checked_bound(self, found: MeshResult) -> float:
        """Bound by the evaluator's own pass over the entire problem, or over the search's boxes."""
        graph, proof = found.posed.problem.graph, found.proof
        aim, overlap, most = self._aim(graph), self.request.overlap.value, self.request.memory_bytes
        known = [] if found.plan is None else [found.plan]
        certificate = bound_certificate(graph, aim, known=known, n_passes=_FIRST_PASSES)
        if certificate is None:
            return inf
        at_root = checked_bound(graph, certificate, overlap=overlap, memory_bytes=most)
        if proof is None or proof.record is None or at_root >= proof.bound:
            return at_root
        within = found.posed.within if self.request.constraints else None
        steps = _proof_steps(graph, aim, proof, within)
        by_boxes = checked_proof(graph, steps, overlap=overlap, memory_bytes=most, within=within)
        return max(at_root, by_boxes)

    def _aim(self, graph: FactorGraph) -> Minimax:
        return step_time(graph, overlap=self.request.overlap, memory_bytes=self.request.memory_bytes)

    def checked_mixture(self, found: MixedLayers, layering: Layering) -> float:
        """Bound by that pass for layers that may differ, at the prices of their bound."""
        request = self.request
        if found.column is None or found.ending is None:
            return 0.0
        block, ends = (
            _proof_steps(side.graph, priced(side, request.overlap, found.prices), one)
            for side, one in ((layering.layers, found.column), (layering.ends, found.ending))
        )
        return checked_mixture(
            layering.graph,
            layering.block,
            layering.boundary,
            found.prices.tolist(),
            (block, ends),
            overlap=request.overlap.value,
            memory_bytes=request.memory_bytes,
        )

    def resimulated(self, plan: ParallelPlan, costs: Costs) -> Resimulated | Unsupported:
        """Simulate the nearest named layout of a plan in the simulator of `train`."""
        if self.layers is None:
            return Unsupported("a captured graph has no table of layers")
        return resimulate(plan, self.model, self.layers, costs, self.request.times)

    def presets(self, problem: SearchProblem) -> dict[str, tuple[int, ...]]:
        """Complete each preset in the best way; the fastest of those that do not fit."""
        graph, found = problem.graph, dict[str, tuple[int, ...]]()
        for name, domains in problem.named().items():
            is_hopeless = least_persistent(graph, domains) > self.request.memory_bytes
            for limit in (inf,) if is_hopeless else (self.request.memory_bytes, inf):
                aim = step_time(graph, overlap=self.request.overlap, memory_bytes=limit)
                with under(context().unlimited):
                    plan = minimise(graph, aim, within=domains, effort=NAMED_EFFORT).plan
                if plan is not None:
                    found[name] = plan
                    break
        return found

    def allowed(self, posed: MeshProblem) -> list[tuple[int, ...]]:
        """Return the presets that satisfy the constraints."""
        return [
            plan
            for plan in posed.named.values()
            if all(state in states for state, states in zip(plan, posed.within, strict=True))
        ]

    def _within(self, problem: SearchProblem) -> Domains:
        """Return the states that the constraints allow."""
        axes, parts = tuple(axis_sizes(problem.mesh)), {part.name: part for part in self.model.parts}
        constraints = {}
        for name, text in self.request.constraints.items():
            for part, tensor in matching_tensors(self.model, name):
                node = parts[part].graph.nodes[tensor.node]
                letters = dims_of(parts[part], tensor)
                state = read_state(text, letters, axes, place=f"--pin {name}")
                constraints[f"{part}/{node.path or parts[part].graph.spelled(tensor)}"] = str(state)
        try:
            found = consistent(problem.graph, problem.constrained(constraints))
        except ScheduleError as error:
            raise FormatError(f"--pin: {error}") from None
        if found is None:
            raise FormatError("--pin: no plan keeps all of these; leave one out")
        return found


def _proof_steps(
    graph: FactorGraph, aim: Minimax, found: Incumbent, within: Domains | None = None
) -> Iterator[ProofStep]:
    """Return the steps of the proof of a search's bound."""
    assert found.record is not None, "a search keeps its splits"
    return proof_steps(graph, aim, found.record, at_least=found.bound, known=found.plans, within=within)
