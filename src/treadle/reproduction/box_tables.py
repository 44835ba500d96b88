"""Boxes of GPUs: tables and figures of chapter 4 and appendix B, by the public API."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle import planning
from treadle.reproduction.paper_figure import Rows, yes_or_no
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import link_loads
from treadle.topologies import Topology, TopologyBuilder, parse

GIGA = 10**9
ALLGATHER = "allgather"


def gigabytes(rate: Fraction) -> Fraction:
    """Convert bytes/s to GB/s."""
    return rate / GIGA


def table_4_1(_full: bool) -> Rows:
    """Yield fixed numbers of trees on two MI250 boxes, and what the optimum takes."""
    for k in range(1, 6):
        found = planning.solve("mi250(2)", ALLGATHER, trees=k)
        yield f"k = {k}", gigabytes(found.algbw), "GB/s"
    exact = planning.solve("mi250(2)", ALLGATHER, exact=True)
    yield "optimum", gigabytes(exact.algbw), "GB/s"
    yield "trees per root of the optimum", exact.trees_per_root


def figure_4_1(_full: bool) -> Rows:
    """Yield the bandwidth of a GPU within its box and out of it (4.1's text)."""
    for title, fabric, ranks in (("DGX A100", "dgx_a100_flat(2)", 8), ("MI250", "mi250(2)", 16)):
        topology = parse(fabric)
        box = set(topology.compute_nodes[:ranks].tolist())
        gpu = min(box)
        prefix = topology.node_names[gpu].partition(".")[0]
        inner = outer = 0
        for link in np.flatnonzero(topology.tails == gpu).tolist():
            head, rate = int(topology.heads[link]), int(topology.bandwidths[link])
            is_inside = head in box or topology.node_names[head].startswith(prefix)
            inner, outer = inner + rate * is_inside, outer + rate * (not is_inside)
        yield f"{title}, within the box", Fraction(inner, GIGA), "GB/s a GPU"
        yield f"{title}, out of the box", Fraction(outer, GIGA), "GB/s a GPU"


def figure_4_2(_full: bool) -> Rows:
    """Count how often a GPU's shard crosses InfiniBand on its way to all others."""
    crossings = {}
    for title, algorithm in (("ring", "ring"), ("ForestColl", "forestcoll")):
        trees = 1 if algorithm == "forestcoll" else None
        found = planning.solve("dgx_a100_flat(2)", ALLGATHER, algorithm=algorithm, trees=trees)
        schedule = found.plan.entries[-1].schedule
        assert isinstance(schedule, ForestSchedule), "up to 256 ranks trees are written out"
        graph = found.plan.topology
        switch = next(node for node in graph.switches.tolist() if graph.node_names[node].startswith("ib"))
        crossing = int(link_loads(graph, schedule)[graph.heads == switch].sum())
        crossings[title] = Fraction(crossing, schedule.total_units)
        yield f"{title}, crossings of InfiniBand per shard", crossings[title]
    yield "ring / ForestColl", crossings["ring"] / crossings["ForestColl"], "times"


def two_boxes() -> Topology:
    """Return figures 4.5 and B.1(a): two boxes of four around a switch each, and one switch for all."""
    builder = TopologyBuilder("figure_4_5")
    both = builder.switch("w0")
    for box in (1, 2):
        switch = builder.switch(f"w{box}")
        for place in range(1, 5):
            gpu = builder.compute(f"c{box}.{place}")
            builder.duplex(gpu, switch, 10 * GIGA)
            builder.duplex(gpu, both, GIGA)
    return builder.build()


def two_boxes_of_rings() -> Topology:
    """Return figure B.1(d): each switch is a ring of what it joined, half of a port each way."""
    builder = TopologyBuilder("figure_B_1_d")
    gpus = [[builder.compute(f"c{box}.{place}") for place in range(1, 5)] for box in (1, 2)]
    for ring, rate in ((gpus[0], 10 * GIGA), (gpus[1], 10 * GIGA), (gpus[0] + gpus[1], GIGA)):
        for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            builder.duplex(one, other, rate // 2)
    return builder.build()


def figure_4_5(_full: bool) -> Rows:
    """Yield the example of two boxes: the bottleneck cut and what it allows."""
    topology = two_boxes()
    found = planning.bound(topology, ALLGATHER)
    yield "rate per root, in bandwidths b between the boxes", found.algbw / 8 / GIGA, "b"
    solved = planning.solve(topology, ALLGATHER)
    yield "optimal, by the verifier", yes_or_no(bool(solved.is_optimal))
    yield "trees per root", solved.trees_per_root


def figure_4_8(_full: bool) -> Rows:
    """Yield the switches that multicast: the optimum stays, traffic falls (4.5.6)."""
    plain, able = (planning.solve(f"dgx_h100(2{how})", ALLGATHER, multicast=bool(how)) for how in _NVLS)
    yield "allgather with multicast / without", able.algbw / plain.algbw, "times"
    yield "allgather traffic, bytes over links per byte gathered, without", _per_byte(plain)
    yield "the same with multicast", _per_byte(able)


_NVLS = ("", ", nvls=True, sharp=True")


def _per_byte(found: planning.SolveResult) -> Fraction:
    """Return the units over all links, per unit that a rank ends with."""
    schedule = found.plan.entries[-1].schedule
    assert isinstance(schedule, ForestSchedule), "up to 256 ranks trees are written out"
    return Fraction(int(link_loads(found.plan.topology, schedule).sum()), schedule.total_units)


def figure_4_9(_full: bool) -> Rows:
    """Yield two MI250 boxes in both settings: the optimum and its trees."""
    yield "16+16, optimum", gigabytes(planning.bound("mi250(2)", ALLGATHER).algbw), "GB/s"
    found = planning.solve("mi250(2, 8)", ALLGATHER, exact=True)
    yield "8+8, optimum", gigabytes(found.algbw), "GB/s"
    yield "8+8, trees per root", found.trees_per_root
    topology = parse("mi250(2)")
    into_ib = [topology.node_names[int(head)].startswith("ib") for head in topology.heads]
    yield "out of a box", Fraction(int(topology.bandwidths[into_ib].sum()), 2 * GIGA), "GB/s"


def figure_b_1(_full: bool) -> Rows:
    """Yield the cost of replacing switches by rings in advance."""
    best, unwound = (planning.bound(made(), ALLGATHER).algbw for made in (two_boxes, two_boxes_of_rings))
    yield "(a) optimum with switches", gigabytes(best), "GB/s for b = 1 GB/s"
    yield "(d) optimum with rings in their place", gigabytes(unwound), "GB/s for b = 1 GB/s"
    yield "(a) / (d)", best / unwound, "times"


def blink_variants(title: str, fabric: str) -> Rows:
    """Yield single-root allreduces and ForestColl's reduce-scatter and allgather, GB/s in the limit.

    "Blink+Switch": a maximum packing of out-trees from one root over ForestColl's switch removal, turned
    round to reduce; both share the links. "Undirected": each tree reduces one way and broadcasts the other
    over the same links, which is what Blink's paper packs; its optimum is the allreduce's own.
    """
    ours = planning.solve(fabric, "allreduce", algorithm="rs-ag", exact=True).algbw
    single = planning.solve(fabric, "allreduce", algorithm="blink").algbw
    undirected = planning.bound(fabric, "allreduce").algbw
    yield f"{title}, limit: ForestColl, reduce-scatter + allgather", gigabytes(ours), "GB/s"
    yield f"{title}, limit: Blink+Switch, two directed packings", gigabytes(single), "GB/s"
    yield f"{title}, limit: single root, undirected packing", gigabytes(undirected), "GB/s"
