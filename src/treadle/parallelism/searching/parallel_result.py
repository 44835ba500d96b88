"""Results of the search for the best plan: values, and tables of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from treadle.brief import brief
from treadle.notebook import displayed_by
from treadle.parallelism.evaluation.resimulation import Resimulated
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.searching.mesh_problem import MeshResult
from treadle.parallelism.searching.parallel_options import ParallelRequest
from treadle.schedules.mesh import Mesh
from treadle.tabular import Cell, Tabular, plain_row
from treadle.topologies.topology import Topology
from treadle.training.costs import Costs
from treadle.unsupported import Unsupported


@brief("name", "seconds", "memory_bytes")
@dataclass(frozen=True)
class PricedPlan:
    """A plan, and what the independent evaluator says of it.

    Parameters
    ----------
    name : str
        ``treadle``, or a preset: ``fsdp over 0,1``.
    plan : ParallelPlan
    seconds : float
        Of a step, simulated task by task.
    estimate_s : float
        Of a step, as the search estimates and bounds it.
    compute_s, exposed_s, idle_s : float
        Of a rank (mean of the stages): in which it computes, communicates and does not compute, or neither.
        They add up to the step.
    communication_s : float
        Hidden or not.
    by_axes : mapping of str to float
        Seconds of communication by the axes whose groups do it: ``0,1`` is one group over both.
    memory_bytes : float
        Of the fullest moment.
    fits : bool

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> best = found.searches[0].best
    >>> f"{best.seconds * 1e3:.2f} ms, {best.memory_bytes / 2**30:.2f} GB", best.fits
    ('0.23 ms, 0.34 GB', True)
    """

    name: str
    plan: ParallelPlan
    seconds: float
    estimate_s: float
    compute_s: float
    exposed_s: float
    idle_s: float
    communication_s: float
    by_axes: Mapping[str, float]
    memory_bytes: float
    fits: bool


@dataclass(frozen=True)
class MeshTrial:
    """A mesh that was looked at.

    Parameters
    ----------
    mesh : Mesh
    seconds : float
        Of the best plan known there; infinity where none fits.
    bound_s : float
        No plan on this mesh takes less.
    is_searched : bool
        Searched until the gap was proven or time was up; else only presets and a first bound.
    micro_batches, interleave : int
        Of a pipeline.
    """

    mesh: Mesh
    seconds: float
    bound_s: float
    is_searched: bool
    micro_batches: int = 1
    interleave: int = 1


@brief("fabric", "mesh.notation", "gap")
@dataclass(frozen=True)
class FabricSearch:
    """The search on one fabric.

    Parameters
    ----------
    topology : Topology
    mesh : Mesh
        Of the best plan.
    best : PricedPlan
    named : tuple of PricedPlan
        Plans by the book, the quickest that fits first, those that do not fit last.
    bound_s : float
        No plan of the kind that was searched has a smaller estimate, on the meshes of `meshes`.
    checked_bound_s : float
        What of it, on the best plan's mesh, the evaluator confirms by passes of its own: over all states, or
        over each of the boxes into which the search split them. Constraints are left to the search.
    is_late : bool
        The time limit ended it.
    meshes : tuple of MeshTrial
    resimulation : Resimulated or Unsupported
        The nearest named layout in the simulator of `train`, or why there is none.
    found : MeshResult
        Problem and states, for those who ask what else there was.
    costs_on : callable
        Costs of the fabric on a mesh.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> search = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2").searches[0]
    >>> search.best.name, search.named[0].name
    ('treadle', 'DP')
    >>> f"{search.best.seconds * 1e3:.2f} ms, no plan below {search.bound_s * 1e3:.2f} ms"
    '0.23 ms, no plan below 0.23 ms'
    """

    topology: Topology
    mesh: Mesh
    best: PricedPlan
    named: tuple[PricedPlan, ...]
    bound_s: float
    checked_bound_s: float
    is_late: bool
    meshes: tuple[MeshTrial, ...]
    resimulation: Resimulated | Unsupported
    found: MeshResult
    costs_on: Callable[[Mesh], Costs]

    @property
    def fabric(self) -> str:
        """The fabric's name."""
        return self.topology.name

    @property
    def gap(self) -> float:
        """Share of the estimated time that may be saved at most."""
        return max(0.0, 1 - self.bound_s / self.best.estimate_s)

    @property
    def rows(self) -> tuple[PricedPlan, ...]:
        """The best plan, then named ones."""
        return (self.best, *self.named)


@dataclass(frozen=True)
class FabricMatrix:
    """Plans of fabrics on each other's fabric.

    Parameters
    ----------
    fabrics : tuple of str
    seconds : tuple of tuples of (float or None)
        Row: whose plan; column: on which fabric. None where the mesh cuts groups off there.
    isolated_s : tuple of (float or None)
        On each fabric the plan that is found when each axis is priced by itself, at its true price.
    """

    fabrics: tuple[str, ...]
    seconds: tuple[tuple[float | None, ...], ...]
    isolated_s: tuple[float | None, ...]


@displayed_by("treadle.render.parallelism:parallelize_rows")
@dataclass(frozen=True)
class ParallelizeResult(Tabular):
    """The best plan on each fabric, and presets.

    Parameters
    ----------
    model : ModelGraph
    request : ParallelRequest
    searches : tuple of FabricSearch
        One for each fabric.
    matrix : FabricMatrix, optional
        With several fabrics.
    notes : tuple of str
        What was assumed.
    seconds : float
        CPU time.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> found.plan
    <ParallelPlan words, 2, 1 part>
    >>> found.searches[0].best
    <PricedPlan treadle, 0.00023 s, 346.28MB memory>
    """

    model: ModelGraph
    request: ParallelRequest
    searches: tuple[FabricSearch, ...]
    matrix: FabricMatrix | None
    notes: tuple[str, ...]
    seconds: float

    @property
    def plan(self) -> ParallelPlan:
        """Search of the first fabric."""
        return self.searches[0].best.plan

    @property
    def tokens(self) -> int:
        """Tokens of a step, all micro-batches of a pipeline together: the graph is that of one of them."""
        pipeline = self.plan.pipeline
        return self.model.tokens * (1 if pipeline is None else pipeline.micro_batches)

    def records(self) -> list[dict[str, Cell]]:
        """Return a row for each fabric and plan."""
        fields = ("compute_s", "exposed_s", "idle_s", "communication_s", "memory_bytes", "fits")
        return [
            plain_row(
                {
                    "fabric": search.fabric,
                    "mesh": row.plan.mesh.notation,
                    "plan": row.name,
                    "step_s": row.seconds,
                    **{name: getattr(row, name) for name in fields},
                }
            )
            for search in self.searches
            for row in search.rows
        ]
