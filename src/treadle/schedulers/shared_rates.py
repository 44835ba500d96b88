"""Rates of concurrent groups for reports: alone, together, and the links that all need."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.brief import brief
from treadle.schedulers.alone_rates import AloneRate
from treadle.schedules.certificate import Certificate

if TYPE_CHECKING:
    from treadle.schedulers.bound_results import BoundResult
    from treadle.schedulers.solving import SolveResult
    from treadle.schedules.plan import Plan


_SHORT = Fraction(1, 10**6)
"""Shorter than this share of the longest, a link's length comes from rounding."""


@brief("lower", "upper", "alone", "rs_ag")
@dataclass(frozen=True)
class SharedRates:
    """Rates of groups of ranks.

    Parameters
    ----------
    lower, upper : Fraction
        algbw of each group while all run: what is attained, and what is proved to be the most; bytes/s.
    alone : tuple of AloneRate
        Each by itself while the others idle, the least first; empty: not looked for.
    bottleneck : tuple of int
        Links that set the rate.
    rs_ag : Fraction, optional
        Of an allreduce: what reduce-scatters and then allgathers of all groups reach; None: not known.
    """

    lower: Fraction
    upper: Fraction
    alone: tuple[AloneRate, ...]
    bottleneck: tuple[int, ...]
    rs_ag: Fraction | None = None

    @property
    def is_exact(self) -> bool:
        """Whether both sides meet."""
        return self.lower == self.upper


def shared_rates(result: BoundResult | SolveResult) -> SharedRates | None:
    """Return the rates of a result; None for one group or an unknown optimum."""
    if result.collective.blocks is None or result.bound is None:
        return None
    links = bottleneck(result.bound.certificate)
    if result.groups is not None:
        return SharedRates(result.groups.lower, result.groups.upper, result.alone, links, result.rs_ag)
    rate = getattr(result, "rate", None)
    if rate is not None:
        lower = result.bound.algbw if rate.exact is not None else Fraction(rate.algbw)
        return SharedRates(lower, result.bound.algbw, result.alone, tuple(rate.binding_links().tolist()))
    plan = getattr(result, "plan", None)
    return None if plan is None else plan_rates(plan, result.alone)


def plan_rates(plan: Plan, alone: tuple[AloneRate, ...]) -> SharedRates | None:
    """Return the rates of a verified plan; None for one group or without a bound."""
    if plan.collective.blocks is None or plan.optimal_algbw is None or plan.certificate is None:
        return None
    return SharedRates(plan.algbw, plan.optimal_algbw, alone, bottleneck(plan.certificate))


def bottleneck(certificate: Certificate) -> tuple[int, ...]:
    """Return the links with positive length in a certificate: together they set the rate."""
    lengths = getattr(certificate, "lengths", ())
    least = max(lengths, default=0) * _SHORT
    return tuple(np.flatnonzero([length > least for length in lengths]).tolist())
