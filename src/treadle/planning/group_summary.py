"""Several groups at once as JSON objects: what each reaches alone, and all together."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.schedules.collective import Collective
from treadle.schedules.witness import Witness

if TYPE_CHECKING:
    from treadle.planning.solving.bounds import BoundResult
    from treadle.planning.solving.group_rates import CutOffGroupError
    from treadle.planning.solving.solve import SolveResult


def rate_values(key: str, algbw: Fraction) -> dict[str, object]:
    """A throughput under keys that begin with `key`."""
    return {
        f"{key}_bytes_per_s": float(algbw),
        f"{key}_exact": f"{algbw.numerator}/{algbw.denominator}",
    }


def membership_values(collective: Collective) -> dict[str, object]:
    """How many groups, of how many ranks; nothing for a collective over all."""
    if collective.groups is None:
        return {}
    values: dict[str, object] = {"groups": len(collective.groups), "group_size": collective.group_size}
    return {**values, "ranks_forward": True} if collective.ranks_forward else values


def rates_of_groups(result: BoundResult | SolveResult) -> dict[str, object]:
    """Rates of each group, all at once (a bracket where that is one) and alone; the shared bottleneck."""
    if result.groups is None or result.bound is None:
        return {}
    together, upper, alone = result.groups.lower, result.groups.upper, result.alone
    values = rate_values("together", together)
    if together != upper:
        values |= {**rate_values("together_upper", upper), "gap": float(1 - together / upper)}
    if alone:
        values |= rate_values("alone", alone[0].algbw)
        values["alone_rates"] = [
            {
                **rate_values("algbw", one.algbw),
                "groups": len(one.groups),
                "first_group": one.groups[0],
                **({} if one.is_exact else {"bound_only": True}),
            }
            for one in alone
        ]
    return {**values, "binding_links": list(bottleneck(result.bound.witness))}


def cut_off_values(error: CutOffGroupError) -> dict[str, object]:
    """A group that is cut off: nothing moves; what does where all compute nodes forward."""
    values: dict[str, object] = {
        **rate_values("optimal_algbw", Fraction(0)),
        **rate_values("optimal_busbw", Fraction(0)),
        **rate_values("together", Fraction(0)),
        **rate_values("alone", Fraction(0)),
        "witness": {"kind": "cut", "nodes": list(error.cut)},
        "cut_off_group": error.group,
        "seconds": {} if error.forwarding is None else dict(error.forwarding.seconds),
    }
    if error.forwarding is not None:
        values |= rate_values("forwarding", error.forwarding.algbw)
    return values


def bottleneck(witness: Witness) -> tuple[int, ...]:
    """Links that have a length in the witness of groups: together they set the rate."""
    lengths = getattr(witness, "lengths", ())
    return tuple(np.flatnonzero([length > 0 for length in lengths]).tolist())
