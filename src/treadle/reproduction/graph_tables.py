"""Direct-connect graphs by themselves: tables A.2 and A.3, figures 3.10 and A.6 to A.9."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle import planning
from treadle.planning import FactLimits
from treadle.reproduction.expansion_tables import allgather_of, bfb, exact
from treadle.reproduction.paper_figure import Rows, yes_or_no
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.step_cost import bandwidth_time, node_bandwidth
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import bfb_value
from treadle.topologies import bandwidth_optimum, moore_steps, parse

TABLE_A2 = {
    6: "Octahedron J(4,2)",
    9: "Paley graph P9",
    10: "K5,5-I",
    14: "Distance-3 graph of Heawood graph",
    15: "Line graph of Petersen graph",
    16: "4-cube",
    21: "Line graph of Heawood graph",
    26: "Incidence graph of PG(2,3)",
    32: "AG(2,4) minus a parallel class",
    35: "Odd graph O4",
    45: "Line graph of Tutte's 8-cage",
    70: "Doubled odd graph D(O4)",
    80: "Incidence graph of GQ(3,3)",
    189: "Line graph of Tutte's 12-cage",
    728: "Incidence graph of GH(3,3)",
}
"""Graphs by size; distance_regular(4, N) makes them."""
_DEGREES = (2, 4, 8, 16)


def table_a_2(_full: bool) -> Rows:
    """Yield the steps of the distance-regular graphs of degree 4, and both Moore bounds."""
    for n, name in TABLE_A2.items():
        value = bfb_value(parse(f"distance_regular(4, {n})"))
        yield f"{name}, N={n}: T_L", value.diameter, "alpha"
        yield f"{name}, N={n}: T_L*", moore_steps(n, 4), "alpha"
        yield f"{name}, N={n}: T_L**", moore_steps(n, 4, bidirectional=True), "alpha"
        yield f"{name}, N={n}: bandwidth-optimal", yes_or_no(value.is_bw_optimal)


TABLE_A3 = {
    "K5": "complete(5)",
    "K4,4": "complete_bipartite(4, 4)",
    "H(2,3)": "hamming(2, 3)",
    "K(4,1)": "kautz(4, 1)",
    "Pi(4,21)": "generalized_kautz(4, 21)",
    "C(12,{2,3})": "circulant(12, 2, 3)",
    "directed circulant, d=4": "directed_circulant(6, 1, 2, 3, 4)",
    "BiRing(4,8)": "bi_ring(4, 8)",
    "UniRing(2,8)": "uni_ring(2, 8)",
    "Diamond": "diamond()",
    "DBJ(2,3)": "de_bruijn(2, 3)",
    "DBJMod(2,3)": "modified_de_bruijn(2, 3)",
    "DBJMod(2,4)": "modified_de_bruijn(2, 4)",
    "DBJMod(3,2)": "modified_de_bruijn(3, 2)",
    "DBJMod(4,2)": "modified_de_bruijn(4, 2)",
    "DistReg(4,15)": "distance_regular(4, 15)",
}
_SHIPPED = ("Diamond", "DBJMod")
"""Families whose schedules are not breadth-first."""


def table_a_3(_full: bool) -> Rows:
    """Yield the properties of one graph of each family."""
    for name, expression in TABLE_A3.items():
        topology = parse(expression)
        base = exact(expression) if name.startswith(_SHIPPED) else bfb(expression)
        _, found = allgather_of(base)
        pairs = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
        yield f"{name}: degree", found.degree
        yield f"{name}: size", topology.n_nodes
        symmetric = planning.describe_fabric(topology).is_reverse_symmetric
        answer = "not decided" if symmetric is None else yes_or_no(symmetric)
        yield f"{name}: reverse-symmetric", answer
        yield f"{name}: bandwidth-optimal", yes_or_no(found.is_bandwidth_optimal)
        yield f"{name}: T_L", found.steps, "alpha"
        yield f"{name}: Moore-optimal", yes_or_no(found.is_moore_optimal)
        yield f"{name}: self-loop", yes_or_no(any(tail == head for tail, head in pairs))
        yield f"{name}: multi-edge", yes_or_no(len(set(pairs)) < len(pairs))


def figure_3_10(full: bool) -> Rows:
    """Yield T_L and T_B of breadth-first broadcasts on cubes and square tori, and their lower bounds."""
    for n in (2, 3, 4, 5, 6, *((10,) if full else ())):
        yield from _beside_optimum(f"hypercube({n})")
    for side in (2, 3, 4, 5, 6, *((50,) if full else ())):
        yield from _beside_optimum(f"torus({side}, {side})")


def _beside_optimum(expression: str) -> Rows:
    facts = planning.describe_fabric(expression, limits=FactLimits.lifted())
    assert facts.allgather is not None, "connected and small enough"
    assert facts.distances is not None, "connected and small enough"
    yield f"{expression}: T_L / diameter", Fraction(facts.allgather.diameter, facts.distances.diameter)
    yield f"{expression}: T_B / T_B*", facts.allgather.t_b / bandwidth_optimum(facts.n_ranks)


def figure_a_6(_full: bool) -> Rows:
    """Yield the breadth-first broadcast on rings of odd and even size."""
    for n in (5, 6, 9, 16):
        found = planning.solve(f"bi_ring(2, {n})", CollectiveKind.ALLGATHER, algorithm="bfb")
        schedule = found.plan.entries[-1].schedule
        assert isinstance(schedule, StepSchedule), "breadth-first broadcast has steps"
        topology = found.plan.topology
        cost = bandwidth_time(topology, schedule) * node_bandwidth(topology)
        yield f"N={n}: T_L", schedule.n_steps, "alpha"
        yield f"N={n}: bandwidth-optimal", yes_or_no(cost == bandwidth_optimum(n))


def figure_a_7(full: bool) -> Rows:
    """Yield the worst gaps of generalized Kautz graphs to both optima, up to 2000 nodes."""
    most = 2000 if full else 240
    for d in _DEGREES:
        sizes = range(d + 1, most + 1)
        values = {n: bfb_value(parse(f"generalized_kautz({d}, {n})")) for n in sizes}
        ratios = {n: value.t_b / bandwidth_optimum(n) for n, value in values.items()}
        worst = max(ratios, key=lambda n: (ratios[n], -n))
        late = max(value.diameter - moore_steps(n, d) for n, value in values.items())
        yield f"d = {d}: largest T_B/T_B*", ratios[worst], "", f"at N = {worst}, of N <= {most}"
        yield f"d = {d}: largest T_L - T_L*", late, "alpha"
        mean = sum(ratios.values(), Fraction(0)) / len(ratios)
        yield f"d = {d}: mean T_B/T_B*", float(mean)


def figure_a_8(_full: bool) -> Rows:
    """Find a graph with the properties that the paper states of the Diamond topology."""
    yield from _base("Diamond", "diamond()")


def figure_a_9(_full: bool) -> Rows:
    """Yield a modified de Bruijn graph."""
    yield from _base("DBJMod(2,3)", "modified_de_bruijn(2, 3)")
    topology = parse("modified_de_bruijn(2, 3)")
    yield "DBJMod(2,3): self-loops", int(np.count_nonzero(topology.tails == topology.heads))
    pairs = set(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    yield "DBJMod(2,3): 2-cycles", sum((head, tail) in pairs for tail, head in pairs if tail < head)


def _base(name: str, expression: str) -> Rows:
    topology, found = allgather_of(exact(expression))
    yield f"{name}: N", topology.n_nodes
    yield f"{name}: d", found.degree
    yield f"{name}: T_L", found.steps, "alpha"
    yield f"{name}: bandwidth-optimal", yes_or_no(found.is_bandwidth_optimal)
