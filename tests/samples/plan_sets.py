"""Plans with several ranges of sizes, put together by hand from schedulers of different shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from treadle import planning
from treadle.schedules.plan import Pipelining, Plan, PlanEntry


@cache
def plan_set(
    fabric: str,
    collective: str,
    algorithms: Sequence[str],
    starts: Sequence[int],
    end: int | None = None,
    first: int = 0,
) -> Plan:
    """A plan whose i-th range begins at starts[i - 1] and is served by algorithms[i].

    Parameters
    ----------
    fabric, collective : str
    algorithms : sequence of str
    starts : sequence of int
        First sizes of all ranges but the first.
    end : int, optional
        Last size of the last range.
    first : int
        First size of the first range.
    """
    plans = [planning.solve(fabric, collective, algorithm=name).plan for name in algorithms]
    lows, highs = [first, *starts], [*(start - 1 for start in starts), end]
    entries = [
        PlanEntry(low, high, plan.entries[-1].schedule, algorithm=name)
        for low, high, plan, name in zip(lows, highs, plans, algorithms, strict=True)
    ]
    last = plans[-1]
    return replace(last, entries=tuple(entries), algorithm="by-size")


def with_protocols(plan: Plan, *cuts: tuple[int, str]) -> Plan:
    """The plan as a cost model would have it that changes protocols at some sizes."""
    entries = []
    for entry in plan.entries:
        low = max((cut for cut in cuts if cut[0] <= entry.min_bytes), key=lambda cut: cut[0])
        later = [cut for cut in cuts if entry.min_bytes < cut[0] and entry.supports(cut[0])]
        known = tuple(Pipelining(size, 1, protocol) for size, protocol in (low, *later))
        entries.append(replace(entry, pipelining=known))
    return replace(plan, entries=tuple(entries))
