"""Stages, micro-batches and meshes together: cheap looks at neighbouring layouts, whole searches of the best.

A layout is a number of stages, a mesh for each stage, and the sequences of a micro-batch. A look at it is the
best preset and the first bound of a micro-batch on a stage's mesh, scaled to the pipeline: with m
micro-batches, p stages and v virtual stages on each, a step takes ``(m - 1/v) / p + 1/v`` times as long
as all layers with one micro-batch. From one layout for each number of stages the search climbs: it changes
one of the three at a time while that promises a shorter step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.searching.mesh_problem import MeshResult
from treadle.parallelism.searching.mesh_search import Look
from treadle.parallelism.searching.pipeline_run import inner_mesh, scaled, stages_of
from treadle.parallelism.searching.plan_search import STAGES, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs

MOST_STAGES = 64
_IN_A_BOX = 8
"""Ranks of the inner axis to begin with: GPUs of most boxes."""
_FEW_PARTS = 4
"""Time limit of branch and bound, where no preset fits."""


@dataclass(frozen=True)
class PipelineLayout:
    """A mesh with its stages, and how a step passes through them.

    Parameters
    ----------
    mesh : Mesh
        With an axis `STAGES`, where there are stages.
    form : PipelineForm
    """

    mesh: Mesh
    form: PipelineForm


@dataclass(frozen=True)
class LayoutSpace:
    """The layouts that are searched.

    Parameters
    ----------
    n_ranks : int
    sequences : int
        Of a step.
    blocks : int
        Layers that may be cut into stages.
    mesh : Mesh, optional
        The only one, if it is given.
    micro_batches, interleave : int, optional
        The only ones, if they are given.
    min_stages : int
    """

    n_ranks: int
    sequences: int
    blocks: int
    mesh: Mesh | None = None
    micro_batches: int | None = None
    interleave: int | None = None
    min_stages: int = 1

    @property
    def may_have_one_stage(self) -> bool:
        """Whether neither micro-batches nor interleaving are given, which need stages."""
        return self.micro_batches is None and self.interleave is None

    def starts(self) -> Iterator[PipelineLayout]:
        """Yield a layout for each number of stages: boxes inside, one sequence for each of them."""
        if self.mesh is not None:
            inner = self.mesh.shape[-1] if self.mesh.axis_names[-1] != STAGES else 1
            yield from self._with_batches(self.mesh, self.n_ranks // stages_of(self.mesh) // inner)
            return
        stages = self.min_stages
        while stages <= min(MOST_STAGES, self.blocks) and self.n_ranks % stages == 0:
            rest = self.n_ranks // stages
            inner = next(size for size in (_IN_A_BOX, 4, 2, 1) if rest % size == 0)
            yield from self._with_batches(_mesh(stages, rest, inner), rest // inner)
            stages *= 2

    def neighbours(self, one: PipelineLayout) -> Iterator[PipelineLayout]:
        """Yield layouts with twice or half as many stages, inner ranks, or sequences of a micro-batch."""
        stages, sequences = one.form.stages, self.sequences // one.form.micro_batches
        if stages > 1:
            yield from self._with_batches(one.mesh, 2 * sequences)
            yield from self._with_batches(one.mesh, sequences // 2)
        if self.mesh is not None:
            return
        inner, rest = one.mesh.shape[-1], self.n_ranks // stages
        for size in (inner // 2, 2 * inner):
            if size and rest % size == 0:
                yield from self._with_batches(_mesh(stages, rest, size), sequences)
        for count in (stages // 2, 2 * stages):
            is_possible = self.min_stages <= count <= min(MOST_STAGES, self.blocks)
            if is_possible and self.n_ranks % (count * inner) == 0:
                mesh = _mesh(count, self.n_ranks // count, inner)
                yield from self._with_batches(mesh, sequences * stages // count)

    def _with_batches(self, mesh: Mesh, sequences: int) -> Iterator[PipelineLayout]:
        """Yield the layout with about this many sequences in a micro-batch, if its numbers divide."""
        stages = stages_of(mesh)
        batches = self.micro_batches or max(1, self.sequences // max(sequences, 1))
        while stages > 1 and self.micro_batches is None and self.sequences % batches:
            batches += 1
        if stages == 1:
            batches = 1
        if self.sequences % batches == 0:
            form = PipelineForm(stages, batches, self._interleave(stages, batches))
            yield PipelineLayout(mesh, form)

    def _interleave(self, stages: int, batches: int) -> int:
        """Return the virtual stages per stage with the fastest pipeline; uneven ones lengthen a stage."""
        if self.interleave is not None:
            return self.interleave
        if stages == 1 or batches % stages:
            return 1

        def seconds(pieces: int) -> float:
            longest = pieces * -(-self.blocks // (stages * pieces)) / self.blocks
            return (batches - 1 / pieces) * longest + 1 / pieces

        return min(range(1, max(self.blocks // stages, 1) + 1), key=seconds)


def _mesh(stages: int, rest: int, inner: int) -> Mesh:
    shape = (rest // inner, inner) if 1 < inner < rest else (rest,)
    names = tuple(map(str, range(len(shape))))
    return Mesh(shape, names) if stages == 1 else Mesh((stages, *shape), (STAGES, *names))


def blocks_of(model: ModelGraph) -> int:
    """Return the number of layers that take and give activations."""
    return sum(part.repeats for part in model.parts if part.enters is not None and part.leaves is not None)


def climb(
    space: LayoutSpace, plans_of: Callable[[PipelineForm], PlanSearch], costs_of: Callable[[Mesh], Costs]
) -> dict[PipelineLayout, Look[MeshResult]]:
    """Return looks at layouts, among them one from which no neighbour promises a shorter step.

    Raises
    ------
    InfeasibleError
        If no layout exists, or ranks of groups do not reach each other in any.
    """
    known: dict[PipelineLayout, Look[MeshResult]] = {}
    failure = InfeasibleError(f"{space.sequences} sequences: no pipeline divides them into micro-batches")

    def look(one: PipelineLayout) -> None:
        nonlocal failure
        if one in known or (known and context().is_late):
            return
        context().announce(f"mesh {one.mesh.notation}, {one.form.micro_batches} micro-batches")
        plans = plans_of(one.form)
        try:
            found = plans.look(plans.make_problem(inner_mesh(one.mesh), costs_of(one.mesh), one.form))
        except InfeasibleError as error:
            failure = error
            return
        if found.found.plan is None:
            found = plans.search(found, effort=SearchEffort(gap=plans.request.gap, n_parts=_FEW_PARTS))
        known[one] = Look(scaled(found.seconds, one.form), scaled(found.bound_s, one.form), found.found)

    for start in space.starts():
        look(start)
    best: PipelineLayout | None = None
    while known:
        least = min(known, key=lambda one: (known[one].seconds, known[one].bound_s))
        if least == best or context().is_late or known[least].seconds == inf:
            return known
        best = least
        for one in space.neighbours(best):
            look(one)
    raise failure
