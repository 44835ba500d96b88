"""Optimal all-to-all flows on the fabrics of a frontier, and the cache of their rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from treadle.context import Context, Progress, under
from treadle.errors import TreadleError
from treadle.finder.construction import Base
from treadle.finder.designing.store import key_of, read_value, store_value
from treadle.finder.measure import FlowRate, Option
from treadle.finder.workload import Exchange, Workload
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.rate import optimal_rate

FLOW_GAP = 1e-3
"""Largest gap of the optimum above a flow, as a fraction."""

_MOST_WORK = 5_000_000
"""Pairs of nodes times degree up to which a flow is computed: about four seconds."""

_MOST_UNEVEN_WORK = 150_000
"""The same for neighbours, which have no symmetry that helps: about a second."""

_MAX_FILE_BYTES = 2**22
_ROUNDING = 1e-12


class AlltoallRates(StrEnum):
    """All-to-all rates that a design reports."""

    FLOW = "flow"
    BOUND = "bound"


def with_flows(
    options: Sequence[Option],
    workload: Workload,
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Option, ...]:
    """Return the fabrics with the rates of optimal flows, where those are quick.

    If the workload has all-to-alls over all nodes, neighbours without a flow are dropped where other fabrics
    have one: their upper bound would look better than the flows of the others.
    """
    found = [with_flow(option, directory=directory, progress=progress) for option in options]
    exchanges = any(call.kind is Exchange.ALLTOALL and call.group_size is None for call in workload.calls)
    if not exchanges or all(option.flow is None for option in found):
        return tuple(found)
    return tuple(option for option in found if option.flow is not None or not _is_neighbour(option))


def _is_neighbour(option: Option) -> bool:
    made = option.candidate.construction
    return isinstance(made, Base) and made.family == "neighbour"


def with_flow(option: Option, *, directory: Path | None = None, progress: Progress | None = None) -> Option:
    """Return a fabric with the rate of an optimal flow on it, unless it is too large for a few seconds.

    Rates are cached in `directory`, if there is one.
    """
    most = _MOST_UNEVEN_WORK if _is_neighbour(option) else _MOST_WORK
    if option.nodes**2 * option.degree > most:
        return option
    question = {"topology": option.expression, "figure": "all-to-all rate", "gap": repr(FLOW_GAP)}
    path = None if directory is None else directory / f"{key_of(question)}.rate"
    if path is not None and (cached := _cached(path, option)) is not None:
        return replace(option, flow=cached)
    collective = on_all_ranks(option.topology, CollectiveKind.ALLTOALL)
    with under(Context(progress)):
        found = optimal_rate(option.topology, collective, gap=FLOW_GAP)
    if path is not None:
        value = {"topology": option.expression, "rate": found.rate, "witness": found.certificate.to_json()}
        store_value(path, value)
    return replace(option, flow=FlowRate(found.rate, found.gap))


def _cached(path: Path, option: Option) -> FlowRate | None:
    """Return the rate of a file, if its certificate proves again that the optimum is near enough.

    That a flow attains the rate is taken from the file: the flow itself is too large to be stored.
    """
    value = read_value(path, _MAX_FILE_BYTES)
    rate, certificate = value.get("rate"), value.get("witness")
    if (
        value.get("topology") != option.expression
        or type(rate) is not float
        or not isinstance(certificate, dict)
    ):
        return None
    try:
        collective = on_all_ranks(option.topology, CollectiveKind.ALLTOALL)
        upper = FlowDualCertificate.from_json(certificate).pair_rate_bound(option.topology, collective)
        gap = 1 - rate / float(upper)
    except (TreadleError, ArithmeticError, ValueError, LookupError, TypeError):
        return None  # damaged or foreign: computed again
    if not -_ROUNDING <= gap <= FLOW_GAP:
        return None
    return FlowRate(rate, gap if gap > _ROUNDING else 0.0)
