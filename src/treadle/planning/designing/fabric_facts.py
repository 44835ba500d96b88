"""What the command line's JSON says about a direct-connect fabric."""

from __future__ import annotations

from treadle.planning.designing.fabric_values import DistanceFacts, FabricFacts, SizeBounds
from treadle.planning.summary import exact_text
from treadle.synthesis.steps.bfb import BfbValue


def fabric_summary(facts: FabricFacts) -> dict[str, object]:
    """What ``topology show --json`` says beyond nodes and links; null: undecided within the limits.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> facts = planning.describe_fabric(treadle.parse("torus:3,3"))
    >>> told = planning.fabric_summary(facts)
    >>> told["diameter"], told["vertex_transitive"]
    (2, True)
    """
    values: dict[str, object] = {}
    if facts.degrees is not None:
        least, most = facts.degrees
        values |= {"regular": least == most, "bidirectional": facts.is_bidirectional}
        values |= {"degree": least} if least == most else {"degree_min": least, "degree_max": most}
    if facts.diameter is not None:
        values["diameter"] = facts.diameter
    if facts.distances is not None:
        values |= _distance_summary(facts.distances)
    if facts.bounds is not None:
        values |= _bounds_summary(facts.bounds)
    for key, value in (
        ("moore_optimal", facts.is_moore_optimal),
        ("moore_optimal_bidirectional", facts.is_moore_optimal_bidirectional),
        ("allgather_breadth_first", _value_summary(facts.allgather)),
        ("reduce_scatter_breadth_first", _value_summary(facts.reduce_scatter)),
    ):
        if value is not None:
            values[key] = value
    if facts.is_direct:
        values |= {
            "vertex_transitive": facts.is_vertex_transitive,
            "reverse_symmetric": facts.is_reverse_symmetric,
        }
    if facts.is_distance_regular is not None:
        values["distance_regular"] = facts.is_distance_regular
    if facts.intersection_array is not None:
        array = facts.intersection_array
        values["intersection_array"] = {"b": list(array.b), "c": list(array.c)}
    return {**values, "omitted": list(facts.omissions)}


def _distance_summary(distances: DistanceFacts) -> dict[str, object]:
    values: dict[str, object] = {"pairs_by_distance": list(distances.pairs)}
    if distances.mean is not None:
        values |= {
            "mean_distance": float(distances.mean),
            "mean_distance_exact": exact_text(distances.mean),
        }
    if distances.pair_rate is not None:
        values |= {
            "alltoall_pair_rate_bound_bytes_per_s": float(distances.pair_rate),
            "alltoall_pair_rate_bound_exact": exact_text(distances.pair_rate),
        }
    return values


def _bounds_summary(bounds: SizeBounds) -> dict[str, object]:
    values: dict[str, object] = {
        "moore_steps": bounds.steps,
        "least_mean_distance_exact": exact_text(bounds.mean_distance),
        "t_b_bound_exact": exact_text(bounds.t_b),
    }
    if bounds.steps_bidirectional is not None:
        values["moore_steps_bidirectional"] = bounds.steps_bidirectional
    if bounds.pair_rate is not None:
        values |= {
            "alltoall_pair_rate_limit_bytes_per_s": float(bounds.pair_rate),
            "alltoall_pair_rate_limit_exact": exact_text(bounds.pair_rate),
        }
    return values


def _value_summary(value: BfbValue | None) -> dict[str, object] | None:
    if value is None:
        return None
    rate = 1 / value.seconds_per_byte
    values: dict[str, object] = {
        "steps": value.diameter,
        "algbw_bytes_per_s": float(rate),
        "algbw_exact": exact_text(rate),
    }
    if value.node_bandwidth is not None:
        values |= {"t_b_exact": exact_text(value.t_b), "bw_optimal": value.is_bw_optimal}
    return values
