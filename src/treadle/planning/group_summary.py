"""Several groups at once as JSON objects: what each reaches alone, and all together."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.schedules.collective import Collective

if TYPE_CHECKING:
    from treadle.planning.solving.group_rates import CutOffGroupError
    from treadle.planning.together.shared_rates import SharedRates


def rate_values(key: str, algbw: Fraction) -> dict[str, object]:
    """A throughput under keys that begin with `key`."""
    return {
        f"{key}_bytes_per_s": float(algbw),
        f"{key}_exact": f"{algbw.numerator}/{algbw.denominator}",
    }


def membership_values(collective: Collective) -> dict[str, object]:
    """How many groups, of how many ranks; nothing for a collective over all."""
    if collective.blocks is None:
        return {}
    values: dict[str, object] = {"groups": len(collective.blocks), "group_size": collective.group_size}
    return {**values, "ranks_forward": True} if collective.ranks_forward else values


def rates_of_groups(rates: SharedRates | None) -> dict[str, object]:
    """Rates of each group, all at once (a bracket where that is one) and alone; the shared bottleneck."""
    if rates is None:
        return {}
    alone = rates.alone
    values = rate_values("together", rates.lower)
    if not rates.is_exact:
        gap = float(1 - rates.lower / rates.upper)
        values |= {**rate_values("together_upper", rates.upper), "gap": gap}
    if rates.rs_ag is not None:
        values |= rate_values("rs_ag", rates.rs_ag)
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
    return {**values, "binding_links": list(rates.bottleneck)}


def cut_off_values(error: CutOffGroupError) -> dict[str, object]:
    """A group that is cut off: nothing moves; what does where all compute nodes forward."""
    values: dict[str, object] = {
        **rate_values("optimal_algbw", Fraction(0)),
        **rate_values("optimal_busbw", Fraction(0)),
        **rate_values("together", Fraction(0)),
        **rate_values("alone", Fraction(0)),
        "witness": {"kind": "cut", "nodes": list(error.cut)},
        "cut_off_group": error.group,
    }
    if error.forwarding is not None:
        values |= rate_values("forwarding", error.forwarding.algbw)
    return values
