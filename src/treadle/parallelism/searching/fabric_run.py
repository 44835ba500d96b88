"""A model on one fabric: its costs by mesh, the loop over meshes, and the plans that come out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite
from time import monotonic

from treadle.context import Context, Progress, context, under
from treadle.errors import InfeasibleError
from treadle.options.keywords import ParallelizeKeywords
from treadle.parallelism.plan.parallel_plan import PlanClaim
from treadle.parallelism.problem.mixing import layering_of, mixed
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.searching.large_costs import costs_of_any_size
from treadle.parallelism.searching.mesh_choices import coarse_meshes
from treadle.parallelism.searching.mesh_problem import MeshProblem, MeshResult
from treadle.parallelism.searching.mesh_search import Look, MeshSearch, search_meshes
from treadle.parallelism.searching.parallel_options import AUTO_TIME_LIMIT_S, DEFAULT_TIME_LIMIT_S
from treadle.parallelism.searching.parallel_result import FabricSearch, MeshTrial, PricedPlan
from treadle.parallelism.searching.pipeline_run import search_staged
from treadle.parallelism.searching.pipeline_search import LayoutSpace, PipelineLayout, climb
from treadle.parallelism.searching.plan_search import OURS, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh
from treadle.topologies.topology import Topology
from treadle.training.costs import Costs
from treadle.training.prices.fabric_costs import FabricCosts, scheduler_named
from treadle.training.prices.message_costs import message_costs

_MOST_FLAT = 256
"""Ranks on which every mesh of one axis or two is looked at."""
_MOST_LAYOUTS, _MOST_LAYOUT_PARTS = 3, 40
"""Layouts that are searched after a look, and parts of branch and bound for each."""
_MOST_LOWERED = 5
"""Searches under lower limits, where the evaluator counts more bytes than the search."""


class FabricRun:
    """Searches on one fabric.

    Parameters
    ----------
    topology : Topology
    search : PlanSearch
        Of the model.
    options : ParallelizeKeywords
    progress : callable, optional
    """

    def __init__(
        self,
        topology: Topology,
        search: PlanSearch,
        options: ParallelizeKeywords,
        progress: Progress | None = None,
    ) -> None:
        self.topology, self.plans, self.options = topology, search, options
        self.progress = progress
        self._costs: dict[Mesh, FabricCosts] = {}

    def fabric_costs(self, mesh: Mesh) -> FabricCosts:
        """Return the prices of the groups of a mesh."""
        if mesh not in self._costs:
            alpha_s = self.options.get("alpha_s")
            self._costs[mesh] = FabricCosts(
                self.topology,
                mesh,
                scheduler_named(self.options.get("schedule", "treadle")),
                messages=message_costs(self.topology, alpha_s=alpha_s),
                forward=self.options.get("forward", False),
            )
        return self._costs[mesh]

    def costs(self, mesh: Mesh) -> Costs:
        """Return the same prices as the search reads them."""
        return costs_of_any_size(self.fabric_costs(mesh))

    def context_for(self, mesh: Mesh | None) -> Context:
        """Return a context with the time that a search on a mesh has; None: over meshes."""
        limit_s = self.options.get("time_limit_s")
        default_s = AUTO_TIME_LIMIT_S if mesh is None else DEFAULT_TIME_LIMIT_S
        return Context(self.progress, monotonic() + (default_s if limit_s is None else limit_s))

    def run_auto(self, space: LayoutSpace, plans_of: Callable[[PipelineForm], PlanSearch]) -> FabricSearch:
        """Return the best plan with stages or without, of all meshes on few ranks.

        Raises
        ------
        InfeasibleError
            If none was found that fits into memory.
        """
        is_small = space.n_ranks <= _MOST_FLAT and space.mesh is None and space.may_have_one_stage
        searches: list[Callable[[], FabricSearch]] = [lambda: self.run(None)] if is_small else []
        if is_small:
            space = replace(space, min_stages=2)
        searches.append(lambda: self.run_pipelines(space, plans_of))
        found: list[FabricSearch] = []
        failure: InfeasibleError | None = None
        for search in searches:
            try:
                found.append(search())
            except InfeasibleError as error:
                failure = failure or error
        if not found:
            assert failure is not None, "a search at least was made"
            raise failure
        best, bound_s = min(found, key=lambda one: one.best.seconds), min(one.bound_s for one in found)
        return self._with_bound(best, bound_s, tuple(trial for one in found for trial in one.meshes))

    def run_pipelines(
        self, space: LayoutSpace, plans_of: Callable[[PipelineForm], PlanSearch]
    ) -> FabricSearch:
        """Return the best plan of the layouts of a space, those without stages among them.

        Parameters
        ----------
        space : LayoutSpace
        plans_of : callable
            Searches of the model with one of this many micro-batches.

        Raises
        ------
        InfeasibleError
            If none was found that fits into memory.
        """
        found: dict[PipelineLayout, FabricSearch] = {}
        with under(self.context_for(space.mesh)):
            looks = climb(space, plans_of, self.costs)
            failure: InfeasibleError | None = None
            for layout in sorted(looks, key=lambda one: (looks[one].seconds, looks[one].bound_s)):
                best_s = min((one.best.estimate_s for one in found.values()), default=inf)
                if found and looks[layout].bound_s >= best_s * (1 - self.plans.request.gap):
                    continue
                if found and (context().is_late or len(found) >= _MOST_LAYOUTS):
                    break
                try:
                    found[layout] = self._of_layout(layout, looks[layout], plans_of(layout.form))
                except InfeasibleError as error:
                    failure = error
            if not found:
                assert failure is not None, "a look at least was taken"
                raise failure
        looked = {layout: (one.seconds, one.bound_s) for layout, one in looks.items()}
        looked |= {layout: (one.best.estimate_s, one.bound_s) for layout, one in found.items()}
        trials = tuple(
            MeshTrial(one.mesh, *seconds, one in found, one.form.micro_batches, one.form.interleave)
            for one, seconds in looked.items()
        )
        best = min(found.values(), key=lambda one: one.best.seconds)
        return self._with_bound(best, min(best.best.estimate_s, *(one.bound_s for one in trials)), trials)

    def _with_bound(
        self, search: FabricSearch, bound_s: float, meshes: tuple[MeshTrial, ...]
    ) -> FabricSearch:
        return replace(search, best=self._claimed(search.best, bound_s), bound_s=bound_s, meshes=meshes)

    def _claimed(self, row: PricedPlan, bound_s: float) -> PricedPlan:
        """Return a plan that states its estimate and bound."""
        overlap = self.plans.request.overlap.value
        claim = PlanClaim(row.estimate_s, bound_s, row.memory_bytes, overlap)
        return replace(row, plan=replace(row.plan, claim=claim))

    def _of_layout(self, layout: PipelineLayout, look: Look[MeshResult], plans: PlanSearch) -> FabricSearch:
        """Return the best plan in a layout."""
        costs = self.costs(layout.mesh)
        effort = SearchEffort(gap=plans.request.gap, n_parts=_MOST_LAYOUT_PARTS)
        best, named, found, bound_s = search_staged(
            plans, layout.mesh, costs, layout.form, look, effort=effort
        )
        # the bound of a pipeline has no proof
        checked_s = max(plans.checked_bound(found), 0.0) if layout.form.stages == 1 else 0.0
        return self._search_of(plans, self._claimed(best, bound_s), named, (bound_s, checked_s), (), found)

    def _search_of(
        self,
        plans: PlanSearch,
        best: PricedPlan,
        named: Sequence[PricedPlan],
        bounds_s: tuple[float, float],
        trials: tuple[MeshTrial, ...],
        found: MeshResult,
    ) -> FabricSearch:
        again, mesh = plans.resimulated(best.plan, found.posed.costs), best.plan.mesh
        # plans that do not fit come last
        rows = tuple(sorted(named, key=lambda row: (not row.fits, row.seconds)))
        late = found.is_late
        return FabricSearch(
            self.topology, mesh, best, rows, *bounds_s, late, trials, again, found, self.costs
        )

    def run(self, mesh: Mesh | None) -> FabricSearch:
        """Return the best plan on a mesh; None: on the best mesh.

        Raises
        ------
        InfeasibleError
            If no plan fits into memory, with the least memory that one does.
        """
        n_ranks = len(self.topology.compute_nodes)
        with under(self.context_for(mesh)):
            found = search_meshes(
                coarse_meshes(n_ranks, self.topology.name) if mesh is None else [mesh],
                lambda one: self.plans.look(self.plans.make_problem(one, self.costs(one))),
                lambda _, look: self.plans.search(look, known=self.plans.coarser_plans(look.found.posed)),
                gap=self.plans.request.gap,
                refines=mesh is None,
            )
        self._check_fit(found)
        return self._result(found)

    def _check_fit(self, found: MeshSearch[MeshResult]) -> None:
        """Raise InfeasibleError where no plan fits into memory on any mesh."""
        if isfinite(found.best.seconds):
            return
        request, shortage = self.plans.request, found.best.found.shortage
        place = f"{self.plans.model.name} on {self.topology.name}, mesh {found.mesh.notation}"
        limit = f"{_gigabytes(request.memory_bytes)} a rank"
        if shortage is None:
            raise InfeasibleError(
                f"{place}: no plan was found that fits into {limit} before time was up, and "
                f"none is proven to be impossible; give a longer --time-limit"
            )
        words = "none fits into any: what is pinned, or the mesh, forbids every plan"
        if shortage.plan is not None:
            words = (
                "the least that a plan was found to fit into is "
                f"{_gigabytes(shortage.least_bytes)}, and none fits into less than "
                f"{_gigabytes(shortage.bound_bytes)}; use more ranks, or fewer tokens"
            )
        raise InfeasibleError(f"{place}: no plan fits into {limit}; {words}")

    def _result(self, found: MeshSearch[MeshResult]) -> FabricSearch:
        posed, mesh = found.best.found.posed, found.mesh
        assert found.best.found.plan is not None, "a finite time has a plan"
        named = self._named(posed)
        labels, first = self._fitting(found.best, mesh, named)
        with under(self.context_for(mesh)):
            checked_s = max(self.plans.checked_bound(found.best.found), 0.0)
        trials = tuple(
            replace(one, bound_s=max(one.bound_s, min(checked_s, first.estimate_s)))
            if one.mesh == mesh
            else one
            for one in found.trials
        )
        bound_s = min(one.bound_s for one in trials)
        best = self._claimed(first, bound_s)
        if self.options.get("mixed", False):
            best, bound_s, of_mixtures_s = self._mixed(best, posed, labels, bound_s)
            checked_s = max(min(checked_s, of_mixtures_s), 0.0)
        return self._search_of(self.plans, best, named, (bound_s, checked_s), trials, found.best.found)

    def unawares(self, mesh: Mesh, costs: Costs) -> PricedPlan | None:
        """Return the true time of the best plan by other costs on a mesh; None if no plan fits.

        It fits by the evaluator's count, as plans of `run` do.
        """
        with under(self.context_for(mesh)):
            found = self.plans.search(self.plans.look(self.plans.make_problem(mesh, costs)))
        if found.found.plan is None:
            return None
        posed = found.found.posed
        try:
            _, row = self._fitting(found, mesh, self._named(posed))
        except InfeasibleError:
            return None
        return self.plans.priced(OURS, row.plan, self.costs(mesh))

    def _named(self, posed: MeshProblem) -> list[PricedPlan]:
        problem = posed.problem
        return [
            self.plans.priced(name, problem.decode(problem.tidied(plan)), posed.costs)
            for name, plan in posed.named.items()
        ]

    def _fitting(
        self, found: Look[MeshResult], mesh: Mesh, named: Sequence[PricedPlan]
    ) -> tuple[tuple[int, ...], PricedPlan]:
        """Return the plan found, or one that fits where the evaluator counts more memory than the search.

        The search leaves moments out. It is repeated under lower limits, with presets as a fallback. What it
        proved holds for plans that fit by its own, lower count, so for those that really fit.
        """
        posed, limit = found.found.posed, self.plans.request.memory_bytes
        allowed = set(self.plans.allowed(posed))
        problem, plan, watch = posed.problem, found.found.plan, self.context_for(mesh)
        known = [
            (problem.tidied(posed.named[row.name]), row)
            for row in named
            if row.fits and posed.named[row.name] in allowed
        ]
        lowered, proven_s = limit, found.bound_s / (1 - self.plans.request.gap)
        for _ in range(_MOST_LOWERED):
            if plan is None:
                break
            labels = problem.tidied(plan)
            row = self.plans.priced(OURS, problem.decode(labels), posed.costs)
            if row.fits:
                known.append((labels, row))
                break
            lowered -= 1.02 * (row.memory_bytes - limit)
            if lowered <= 0 or watch.is_late:
                break
            start = Look(inf, -inf, MeshResult(posed, None))
            effort = SearchEffort(gap=self.plans.request.gap, enough=proven_s)
            again = self.plans.with_memory(lowered).search(start, effort=effort)
            plan = again.found.plan
        if not known:
            raise InfeasibleError(
                f"{self.plans.model.name} on {self.topology.name}, mesh {mesh.notation}: no plan was found "
                f"that fits into {_gigabytes(limit)} a rank by the evaluator's count; use more ranks, or "
                f"fewer tokens"
            )
        labels, row = min(known, key=lambda one: one[1].seconds)
        return labels, replace(row, name=OURS)

    def _mixed(
        self, best: PricedPlan, posed: MeshProblem, labels: tuple[int, ...], bound_s: float
    ) -> tuple[PricedPlan, float, float]:
        """Return the best plan whose layers may differ, if that is quicker, and a bound on all of these.

        Then a bound on them that was checked: infinity where layers cannot differ.
        """
        request, problem, costs = self.plans.request, posed.problem, posed.costs
        most, overlap, effort = request.memory_bytes, request.overlap, SearchEffort(gap=request.gap)
        with under(self.context_for(best.plan.mesh)):
            found = mixed(problem, costs, [labels], memory_bytes=most, overlap=overlap, effort=effort)
        if found is None:
            return best, bound_s, inf
        layering = layering_of(problem, costs)
        assert layering is not None, "layers were mixed"
        with under(self.context_for(best.plan.mesh)):
            checked_s = self.plans.checked_mixture(found[1], layering)
        bound_s = min(bound_s, max(found[1].bound, 0.0))
        row = self.plans.priced(OURS, found[0], costs)
        if not row.fits or row.seconds >= best.seconds:
            return best, bound_s, checked_s
        return self._claimed(row, bound_s), bound_s, checked_s


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.4g} GB"
