"""Plans made better by changing one node at a time, priced anew for every change."""

from __future__ import annotations

import math

from treadle.parallelism.search.factor_graph import FactorGraph
from treadle.parallelism.search.minimax import Minimax


def moved(graph: FactorGraph, aim: Minimax, plan: list[int], *, price: float, n_sweeps: int) -> list[int]:
    """As the core's `improve_plan`: at infinite price excess counts first."""

    def merit(changed: list[int]) -> tuple[float, ...]:
        if not graph.is_allowed(changed):
            return (math.inf, math.inf)
        amounts = graph.amounts(changed)
        value, excess = aim.value(amounts), float(aim.excess(amounts[None])[0])
        return (excess, value) if math.isinf(price) else (value + price * excess,)

    now = list(plan)
    for _ in range(n_sweeps):
        changed = False
        for node, size in enumerate(graph.sizes):
            old = merit(now)
            found = [merit([*now[:node], state, *now[node + 1 :]]) for state in range(size)]
            best = min(found)
            if best[0] < old[0] or best < old:
                now[node], changed = found.index(best), True
        if not changed:
            break
    return now
