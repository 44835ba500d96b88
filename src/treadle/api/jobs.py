"""Collectives that share a fabric: their max-min rates, and plans that reach them together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from treadle.checking import checked
from treadle.context import Progress, context, in_context
from treadle.errors import InfeasibleError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import resolve_topology
from treadle.schedulers.jobs.job_plans import JobsResult, job_rates, plan_jobs, read_jobs
from treadle.schedules.jobs import Job
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import without_failures
from treadle.topologies.topology import Topology


@checked()
@in_context()
def bound_jobs(
    topology: FabricLike,
    jobs: Sequence[Job] | Path | str,
    *,
    without: str | Sequence[str] | None = None,
    file_format: str | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> JobsResult:
    """Compute exact max-min rates of different concurrent collectives, with link lengths that prove them.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
    jobs : sequence of Job, or a TOML file of them
        See docs/how-to/groups.md.
    without, file_format
        See `treadle.planning.make_problem`.
    time_limit_s : float, optional
        Seconds after which to give up.
    progress : callable, optional
        progress(stage, done, total).

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a job's rank cannot be reached.
    TimeLimitError
        If time ran out.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> _ = Path("jobs.toml").write_text('[[job]]\\nkind = "allgather"\\n[[job]]\\nkind = "alltoall"\\n')
    >>> found = treadle.planning.bound_jobs("ring:4", "jobs.toml")
    >>> found.alone, found.together
    ((Fraction(8, 3), Fraction(2, 1)), (Fraction(8, 7), Fraction(8, 7)))
    """
    return job_rates(*_problem(topology, jobs, without, file_format))[0]


@checked()
@in_context()
def solve_jobs(
    topology: FabricLike,
    jobs: Sequence[Job] | Path | str,
    *,
    without: str | Sequence[str] | None = None,
    file_format: str | None = None,
    max_trees: int | None = None,
    exact: bool = False,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> JobsResult:
    """Compute plans of concurrent collectives that reach their max-min rates, verified together.

    Parameters
    ----------
    topology, jobs, without, file_format, time_limit_s, progress
        See `bound_jobs`.
    max_trees : int, optional
        Maximum number of trees per root (with unrestricted roots per rank), or of chunks of a unit of demand;
        the loss is reported. Default: the optimum if it needs at most 4,096, else a loss of at most 0.1%.
    exact : bool
        Reach the optimum, however many trees it takes; InfeasibleError beyond the limits of plans.

    Raises
    ------
    RejectedError
        If the plans do not verify, which is a defect of Treadle.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> _ = Path("jobs.toml").write_text('[[job]]\\nkind = "allgather"\\n[[job]]\\nkind = "alltoall"\\n')
    >>> found = treadle.planning.solve_jobs("ring:4", "jobs.toml")
    >>> found.together, found.reached, found.report.is_max_min
    ((Fraction(8, 7), Fraction(8, 7)), (Fraction(8, 7), Fraction(8, 7)), True)
    """
    budget = TreeBudget(max_trees=max_trees, exact=exact)
    return plan_jobs(*job_rates(*_problem(topology, jobs, without, file_format)), budget)


def _problem(
    topology: FabricLike,
    jobs: Sequence[Job] | Path | str,
    without: str | Sequence[str] | None,
    file_format: str | None,
) -> tuple[Topology, tuple[Job, ...]]:
    with context().stage("fabric"):
        fabric = resolve_topology(topology, file_format=file_format)
        if without is not None:
            fabric = without_failures(fabric, without)
        for node in np.flatnonzero(fabric.injection_bytes_per_s)[:1]:
            raise InfeasibleError(
                f"compute node {fabric.node_names[node]!r} has an injection cap, which concurrent jobs do "
                f"not model; put a switch with links of that bandwidth between the node and its links"
            )
        return fabric, read_jobs(jobs, fabric) if isinstance(jobs, Path | str) else tuple(jobs)
