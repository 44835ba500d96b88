"""Optimal all-to-all flows on the fabrics of a frontier, and their rates kept on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from treadle.context import Context, Progress, under
from treadle.errors import TreadleError
from treadle.finder.construction import Base
from treadle.finder.designing.store import key_of, store_value
from treadle.finder.measure import FlowRate, Option
from treadle.finder.workload import Exchange, Workload
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.rate import optimal_rate

FLOW_GAP = 1e-3
"""What the optimum may be above a flow, as a share."""

_MOST_WORK = 5_000_000
"""Pairs of nodes times degree up to which a flow is computed: about four seconds."""

_MOST_UNEVEN_WORK = 150_000
"""The same of neighbours, which have no symmetry to help: about a second."""

_MAX_FILE_BYTES = 2**22
_ROUNDING = 1e-12


class AlltoallRates(StrEnum):
    """What a design says of all-to-alls."""

    FLOW = "flow"
    BOUND = "bound"


def with_flows(
    options: Sequence[Option],
    workload: Workload,
    *,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Option, ...]:
    """Fabrics with the rates of optimal flows, where those are quick.

    Of a workload with all-to-alls over all nodes, neighbours without a flow are left out where others have
    one: a bound beside flows would make them look better than they are.

    Parameters
    ----------
    options : sequence of Option
    workload : Workload
    directory : Path, optional
    progress : callable, optional
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
    """A fabric with the rate of an optimal flow on it, if that takes a few seconds at most.

    Parameters
    ----------
    option : Option
    directory : Path, optional
        Where rates are kept; None: neither look nor keep.
    progress : callable, optional

    Returns
    -------
    Option
        Without `flow` where the fabric is large.
    """
    most = _MOST_UNEVEN_WORK if _is_neighbour(option) else _MOST_WORK
    if option.nodes**2 * option.degree > most:
        return option
    question = {"topology": option.expression, "figure": "all-to-all rate", "gap": repr(FLOW_GAP)}
    path = None if directory is None else directory / f"{key_of(question)}.rate"
    kept = None if path is None else _kept(path, option)
    if kept is not None:
        return replace(option, flow=kept)
    collective = on_all_ranks(option.topology, CollectiveKind.ALLTOALL)
    with under(Context(progress)):
        found = optimal_rate(option.topology, collective, gap=FLOW_GAP)
    if path is not None:
        value = {"topology": option.expression, "rate": found.rate, "witness": found.witness.to_json()}
        store_value(path, value)
    return replace(option, flow=FlowRate(found.rate, found.gap))


def _kept(path: Path, option: Option) -> FlowRate | None:
    """The rate of a file, if its upper side holds again and is as near as it has to be.

    That a flow reaches the rate is taken from the file: the flow itself is too large to be kept.
    """
    try:
        if not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
            return None
        value = json.loads(path.read_bytes())
        witness = value["witness"]
        if value["topology"] != option.expression or type(value["rate"]) is not float:
            return None
        if not isinstance(witness, dict):
            return None
        collective = on_all_ranks(option.topology, CollectiveKind.ALLTOALL)
        upper = FlowDualCertificate.from_json(witness).pair_rate_bound(option.topology, collective)
        gap = 1 - value["rate"] / float(upper)
        if not -_ROUNDING <= gap <= FLOW_GAP:
            return None
        os.utime(path)
        return FlowRate(value["rate"], gap if gap > _ROUNDING else 0.0)
    except (OSError, TreadleError, ArithmeticError, ValueError, LookupError, TypeError, RecursionError):
        return None  # damaged or foreign: made anew
