"""Find the best fabrics of a size and degree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Unpack

from treadle.checking import checked
from treadle.context import Progress, context, in_context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.finder.designing.candidates import check_pairs, frontier_options
from treadle.finder.designing.design_flow import AlltoallRates, with_flow, with_flows
from treadle.finder.designing.design_limits import design_limits
from treadle.finder.designing.design_options import DesignOptions
from treadle.finder.designing.design_result import DesignResult, DesignRow
from treadle.finder.designing.design_rows import (
    MAX_DEGREE,
    MAX_NODES,
    format_sizes,
    others_of,
    plan_of,
    reconfigured,
    row_of,
    size_of,
    worthwhile,
)
from treadle.finder.designing.fabrics_of_size import fabrics_of_size
from treadle.finder.designing.hybrids import best_hybrids
from treadle.finder.designing.placements import PlacementPace, priced_fabrics
from treadle.finder.designing.store import cached_plan, default_directory
from treadle.finder.designing.workload_costs import PricedFabric, with_exact_rates
from treadle.finder.measure import Option
from treadle.finder.searches.fresh import USUAL_SEARCH
from treadle.finder.workload import Network, Workload
from treadle.options.keywords import DesignKeywords
from treadle.schedulers.repairing.repair_candidates import JUDGED_AT
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.topologies.limits import check_count


@checked()
@in_context()
def design(
    nodes: int,
    degree: int,
    *,
    network: Network,
    workload: Workload,
    progress: Progress | None = None,
    **options: Unpack[DesignKeywords],
) -> DesignResult:
    """Find the fabrics of `nodes` and `degree` that no other known one beats, and the best for a workload.

    Parameters
    ----------
    nodes, degree : int
        N from 2 to 100000, d from 1 to 64.
    network : Network
    workload : Workload
    progress : callable, optional
        progress(stage, done, total).
    **options
        The fields of `DesignOptions`.

    Raises
    ------
    InfeasibleError
        If no fabric of that size is possible, or known.
    TreadleError
        If a number is out of range, or the workload's groups do not fit the nodes.

    Examples
    --------
    >>> import treadle
    >>> from treadle.finder.workload import Network, allreduce_of
    >>> network = Network(alpha_s=1e-6, bandwidth_bytes_per_s=25 * 10**9)
    >>> found = treadle.design(16, 4, network=network, workload=allreduce_of(2**20))
    >>> [(row.option.expression, row.option.candidate.steps) for row in found.rows]
    [('metacyclic_cayley(8, 2, 7, 4, 7, 9, 6)', 2), ('circulant(16, 3, 4)', 3)]
    """
    given = DesignOptions(**options)
    bidirectional = given.bidirectional
    check_count("design", "nodes", nodes, least=2, most=MAX_NODES)
    check_count("design", "degree", degree, most=MAX_DEGREE)
    if bidirectional:
        check_pairs(nodes, degree)
    if network.bandwidth_bytes_per_s < degree:
        raise ScheduleError(
            f"design: a bandwidth of {network.bandwidth_bytes_per_s} bytes/s leaves each of {degree} links "
            f"less than 1 byte/s; expected at least {degree} bytes/s"
        )
    for call in workload.calls:
        call.groups(nodes)
    directory = (given.cache or default_directory()) if given.use_cache else None
    known = fabrics_of_size(nodes, degree, given, directory)
    fabrics, finder = known.options, known.finder
    if not fabrics:
        raise InfeasibleError(
            f"design: no fabric with {nodes} nodes of degree {degree} is known with bidirectional links; "
            f"drop --bidirectional or change a number"
        )
    if given.alltoall is AlltoallRates.FLOW:
        with context().stage("all-to-all"):
            fabrics = with_flows(fabrics, workload, directory=directory, progress=progress)
    shown = format_sizes(workload)
    with context().stage("workload"):
        hybrids = []
        if given.topology is None:
            hybrids = best_hybrids(nodes, degree, workload, network, partial(frontier_options, finder))
        priced = _priced(fabrics, hybrids, given, network, workload)
        rows = _rows(priced, len(fabrics), network, workload, shown)
        timed = [row for row in rows if row.seconds is not None]
        best = min(timed or rows, key=lambda row: row.seconds or row.allreduce_s or 0.0)
        reconfiguration = None
        if given.reconfiguration_delay_s is not None:
            costs = [one.costs(workload, network) for one in priced]
            reconfiguration = reconfigured(
                finder, priced, costs, workload, network, nodes, given.reconfiguration_delay_s
            )
    return DesignResult(
        nodes=nodes,
        degree=degree,
        is_bidirectional=bidirectional,
        network=network,
        workload=workload,
        shown_bytes=shown,
        rows=rows,
        best=best,
        limits=design_limits(nodes, degree, bidirectional, network, shown),
        reconfiguration=reconfiguration,
        seconds=context().seconds,
        efforts=known.efforts,
        kept=known.kept,
        others=others_of(finder, nodes, degree, fabrics) if given.topology is None else (),
    )


def _priced(
    fabrics: Sequence[Option],
    hybrids: Sequence[PricedFabric],
    given: DesignOptions,
    network: Network,
    workload: Workload,
) -> list[PricedFabric]:
    """Price the workload on all fabrics; hybrids follow the others."""
    pace = PlacementPace.of(given.seed, is_searched=given.search not in (None, USUAL_SEARCH))
    hybrid_times = (one.seconds(workload, network) for one in hybrids)
    best_s = min((seconds for seconds in hybrid_times if seconds is not None), default=inf)
    priced = priced_fabrics(fabrics, workload, network, pace, best_s=best_s)
    for one in hybrids:
        has_flow = one.option.parts == 1 and given.alltoall is AlltoallRates.FLOW
        option = with_flow(one.option) if has_flow else one.option
        priced.append(replace(one, option=option, shared=with_exact_rates(option, one.shared, workload)))
    return priced


def _rows(
    priced: Sequence[PricedFabric], n_known: int, network: Network, workload: Workload, shown_bytes: int
) -> tuple[DesignRow, ...]:
    """Return a row for each of the known fabrics, and for those hybrids behind them that are worthwhile."""
    has_flows = all(one.option.flow for one in priced if one.option.parts == 1)
    costs = [one.costs(workload, network, by_flow=has_flows) for one in priced]
    rows = tuple(
        row_of(one, cost, workload, network, shown_bytes) for one, cost in zip(priced, costs, strict=True)
    )
    return (*rows[:n_known], *worthwhile(rows[:n_known], rows[n_known:]))


def design_plan(
    result: DesignResult,
    kind: CollectiveKind,
    *,
    row: DesignRow | None = None,
    cache: Path | None = None,
    use_cache: bool = True,
) -> tuple[Plan, bool]:
    """Build and verify the schedule of a row (default the best).

    Parameters
    ----------
    result : DesignResult
    kind : CollectiveKind
        Allgather, reduce-scatter or allreduce.
    row : DesignRow, optional
    cache : Path, optional
        Directory; default the user's.
    use_cache : bool

    Returns
    -------
    Plan
    bool
        Whether it came from the cache.

    Raises
    ------
    RejectedError
        If the verifier rejects the schedule: a defect of Treadle.

    Examples
    --------
    >>> import treadle
    >>> from treadle.finder.workload import Network, allreduce_of
    >>> found = treadle.design(8, 2, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20))
    >>> kind = treadle.CollectiveKind.ALLGATHER
    >>> plan, is_cached = treadle.planning.design_plan(found, kind, use_cache=False)
    >>> plan.algorithm, is_cached, treadle.verify(plan).is_ok
    ('finder: abelian_cayley("8",3,1)', False, True)
    """
    chosen = row or result.best
    if chosen.option.parts > 1:
        raise InfeasibleError(
            f"design: {chosen.option.expression} is in {chosen.option.parts} parts, so that no {kind} over "
            f"all nodes is possible; 'treadle solve' with --mesh plans for its groups, or pick another row"
        )
    topology = result.topology(chosen)
    directory = (cache or default_directory()) if use_cache else None
    question = {"topology": topology.name, "collective": kind.value, "construction": chosen.option.notation}
    plan, is_cached = cached_plan(
        question, lambda: plan_of(topology, chosen.option, kind), directory=directory
    )
    return replace(plan, provenance={**plan.provenance, JUDGED_AT: size_of(result.workload, kind)}), is_cached
