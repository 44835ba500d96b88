"""Plans of fabrics on each other's fabric, and what costs that know no fabric would have lost.

Such costs are those of planners that know no fabric: each axis by itself, and several axes one after the
other. They leave out what the fabric does: concurrent groups share links, and a group over several axes
moves less over the slow ones than a collective along each of them in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import prod

from treadle.context import context, under
from treadle.errors import InfeasibleError
from treadle.inputs.problem import make_problem
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_result import FabricMatrix, FabricSearch
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Traffic
from treadle.training.prices.collective_prices import Price, TimeModel
from treadle.training.prices.fabric_costs import FabricCosts
from treadle.training.prices.schedule_prices import optimal_price


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
    """Return the time of a plan on a fabric; None if its groups are disconnected there."""
    if search.fabric == run.topology.name:
        return search.best.seconds
    try:
        return run.plans.priced(search.fabric, search.best.plan, run.costs(search.mesh)).seconds
    except InfeasibleError:
        return None


def isolated_seconds(run: FabricRun, search: FabricSearch) -> float | None:
    """Return the true time of the plan that is best by isolated costs; None if none fits."""
    found = run.unawares(search.mesh, IsolatedCosts(run.fabric_costs(search.mesh)))
    return None if found is None else found.seconds


_GATHERING = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)


class IsolatedCosts:
    """Seconds of a group alone on the fabric, along one axis at a time (`training.costs.Costs`).

    Parameters
    ----------
    costs : FabricCosts
        The true ones: fabric, mesh and message costs.
    """

    is_bound = False
    summary = "each axis by itself, one group at a time"

    def __init__(self, costs: FabricCosts) -> None:
        self._costs = costs
        self._prices: dict[tuple[CollectiveKind, str], Price] = {}
        self._sizes = dict(zip(costs.mesh.axis_names, costs.mesh.shape, strict=True))

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: float) -> float:
        """Return the seconds along one axis after the other, in the order that takes least."""
        real = [axis for axis in axes if self._sizes.get(axis, 1) > 1]
        if kind not in _GATHERING:
            return sum(self._price(kind, axis).time_s(size_bytes) for axis in real)

        def seconds(order: tuple[str, ...]) -> float:
            total = 0.0
            for at, axis in enumerate(order):
                # the following axes still cut the whole buffer into so many parts
                rest = prod(self._sizes[later] for later in order[at + 1 :])
                total += self._price(kind, axis).time_s(size_bytes / rest)
            return total

        return min(map(seconds, permutations(real)))

    def send_s(self, axis: str, size_bytes: float) -> float:
        """Same as the true costs: concurrently sending neighbours are one group already."""
        return self._costs.send_s(axis, size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[float, ...]:
        """Return no slowdown: collectives are priced alone."""
        return (1.0,) * len(running)

    def _price(self, kind: CollectiveKind, axis: str) -> Price:
        if (kind, axis) not in self._prices:
            costs = self._costs
            group = sorted(costs.mesh.groups(axis)[0])
            others = not costs.topology.is_compute.all()
            problem = make_problem(costs.topology, kind, ranks=group, forward=costs.forward or not others)
            with under(context().unlimited):
                price = optimal_price(problem, costs.messages, TimeModel.FARTHEST_RANK)
            self._prices[kind, axis] = price
        return self._prices[kind, axis]
