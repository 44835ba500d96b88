"""Plans of fabrics on each other's fabric, and what costs that know no fabric would have lost."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import InfeasibleError
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.isolated_costs import IsolatedCosts
from treadle.parallelism.searching.parallel_result import FabricMatrix, FabricSearch


def fabric_matrix(runs: Sequence[tuple[FabricRun, FabricSearch]]) -> FabricMatrix:
    """Step times of each fabric's plan on each fabric, and of the plan that isolated costs lead to.

    Parameters
    ----------
    runs : sequence of (FabricRun, FabricSearch)
        Of fabrics with equally many ranks.
    """
    return FabricMatrix(
        tuple(search.fabric for _, search in runs),
        tuple(tuple(_seconds(search, run) for run, _ in runs) for _, search in runs),
        tuple(isolated_seconds(run, search) for run, search in runs),
    )


def _seconds(search: FabricSearch, run: FabricRun) -> float | None:
    """Of a plan on a fabric; None where its groups are cut off there."""
    if search.fabric == run.topology.name:
        return search.best.seconds
    try:
        return run.plans.priced(search.fabric, search.best.plan, run.costs(search.mesh)).seconds
    except InfeasibleError:
        return None


def isolated_seconds(run: FabricRun, search: FabricSearch) -> float | None:
    """True time of the plan that is best by isolated costs, on the same mesh; None if none fits."""
    found = run.unawares(search.mesh, IsolatedCosts(run.fabric_costs(search.mesh)))
    return None if found is None else found.seconds
