"""Costs of large fabrics: each rate once, from what it follows.

On a fabric whose links come in equal pairs a reduce-scatter is an allgather turned round, and an allreduce
the one after the other: exact rates of up to a minute each are then worked out for allgathers only. An
all-to-all has demands between all pairs: where its groups are blocks of neighbouring ranks it is priced on
the first few blocks by themselves; elsewhere as `FabricCosts` does, and beyond what a matrix of demands holds
it has no price, so that no plan uses it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod

import numpy as np

from treadle.context import context, under
from treadle.inputs.problem import make_problem
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.topologies.topology import Topology
from treadle.training.costs import Costs, DerivedCosts, Seconds, Traffic, format_traffic
from treadle.training.prices.collective_prices import Price, TimeModel
from treadle.training.prices.fabric_costs import FabricCosts
from treadle.training.prices.schedule_prices import MOST_EXCHANGED, optimal_price

MOST_TOGETHER = 512
"""Ranks in groups whose all-to-alls are worked out together; of 1024 in groups of 8 that takes 25 s."""
_MOST_IN_BLOCKS = 128
"""Ranks of the first blocks, if they have more than two: 512 in groups of 8 take 10 s for the same rate."""
_GATHER = CollectiveKind.ALLGATHER


def costs_of_any_size(costs: FabricCosts) -> Costs:
    """Return the costs themselves up to `MOST_TOGETHER` ranks, `LargeCosts` beyond."""
    return LargeCosts(costs) if costs.mesh.n_ranks > MOST_TOGETHER else costs


@dataclass(frozen=True)
class LargeCosts(DerivedCosts):
    """Seconds of collectives of thousands of ranks (`training.costs.Costs`).

    Parameters
    ----------
    costs : FabricCosts
    """

    costs: FabricCosts
    _blocks: dict[int, Price] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return dict(zip(self.costs.mesh.axis_names, self.costs.mesh.shape, strict=True))

    @cached_property
    def _is_paired(self) -> bool:
        return has_equal_pairs(self.costs.topology)

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: float) -> float:
        """Same as `FabricCosts.time_s`; infinite for all-to-alls without a price."""
        real = [axis for axis in axes if self._sizes.get(axis, 1) > 1]
        if kind is CollectiveKind.ALLTOALL:
            return self._exchange_s(tuple(real), size_bytes)
        if not self._is_paired or kind not in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE):
            return self.costs.time_s(kind, axes, size_bytes)
        once = self.costs.time_s(_GATHER, axes, size_bytes)
        return once if kind is CollectiveKind.REDUCE_SCATTER else 2 * once

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """Same as `FabricCosts.slowdowns`; all-to-alls without a matrix share links as allgathers do."""
        if self.costs.mesh.n_ranks <= MOST_EXCHANGED:
            return self.costs.slowdowns(running)
        alike = [(_GATHER if kind is CollectiveKind.ALLTOALL else kind, axes) for kind, axes in running]
        order = sorted(range(len(alike)), key=lambda at: format_traffic(alike[at]))
        found = dict(zip(order, self.costs.slowdowns(tuple(alike[at] for at in order)), strict=True))
        return tuple(found[at] for at in range(len(alike)))

    def _exchange_s(self, axes: tuple[str, ...], size_bytes: float) -> float:
        size, mesh = prod(self._sizes[axis] for axis in axes), self.costs.mesh
        if size < 2:
            return 0.0
        inner = tuple(axis for axis, ranks in self._sizes.items() if ranks > 1)[-len(axes) :]
        if mesh.rank_order is not None or axes != inner or 2 * size > MOST_TOGETHER:
            is_known = mesh.n_ranks <= MOST_EXCHANGED
            return self.costs.time_s(CollectiveKind.ALLTOALL, axes, size_bytes) if is_known else inf
        if size not in self._blocks:
            self._blocks[size] = self._block_price(size)
        return self._blocks[size].time_s(size_bytes)

    def _block_price(self, size: int) -> Price:
        """Return the rates of all-to-alls within each of the first blocks of ranks."""
        count = min(max(_MOST_IN_BLOCKS // size, 2), self.costs.mesh.n_ranks // size)
        mesh = Mesh((count, size), ("block", "rank"))
        costs = self.costs
        ranks = range(count * size)
        problem = make_problem(costs.topology, CollectiveKind.ALLTOALL, ranks=ranks, mesh=mesh, axes="rank")
        with under(context().unlimited):
            return optimal_price(problem, costs.messages, TimeModel.FARTHEST_RANK)


def has_equal_pairs(topology: Topology) -> bool:
    """Whether each link has a reverse link of the same bandwidth and latency."""
    rows = [topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns]
    there = np.stack([np.asarray(row, dtype=np.int64) for row in rows])
    back = there[[1, 0, 2, 3]]
    return bool(
        np.array_equal(there[:, np.lexsort(there)], back[:, np.lexsort(back)])
        and not topology.multicast.any()
        and not topology.aggregation.any()
    )
