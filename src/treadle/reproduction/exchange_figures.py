"""All-to-all: figures 2 to 10 of the all-to-all paper, times over the optimum or the lower bound.

Times are 1/F, the load of the fullest link in units of demand; an optimum is certified from both sides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from time import process_time

from treadle import planning
from treadle.reproduction.paper_figure import Rows
from treadle.schedules.alltoall.route_cost import route_time
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, optimal_rate
from treadle.synthesis.alltoall.baselines.equal_weight import EqualSplit
from treadle.synthesis.alltoall.baselines.single_path_ilp import ilp_disjoint, ilp_shortest
from treadle.synthesis.alltoall.baselines.sssp import single_source_shortest_paths
from treadle.synthesis.alltoall.rate.fleischer import fleischer_rate
from treadle.synthesis.alltoall.rate.mcf_programs import link_mcf, master_mcf
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.path_mcf import path_mcf
from treadle.topologies import Topology, parse, torus, with_host_bottleneck
from treadle.topologies.moore import all_to_all_limit

GAP = 1e-4
LINK = 3_125_000_000
"""Bytes/s of a 25 Gbit/s link."""
HOST = 12_500_000_000
FIGURE_8 = (16, 27, 36, 50, 64, 81)
FIGURE_9 = (0, 16, 32, 64)
FIGURE_10 = (16, 36, 64, 100, 144, 256, 400, 625, 1000)
BOUND_RATIO = (5, 12, 20, 21, 48, 80, 85, 100, 200, 320, 341, 500, 700, 1000, 1280)
ILP_SECONDS = 10.0
_QUICK_NODES = 100
_MOST_DISJOINT = 81 * 80 * 8
"""Paths beyond which the linear program over link-disjoint ones is left out."""


def everyone(fabric: Topology) -> Collective:
    """Return the all-to-all of all ranks."""
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


def scheme_times(fabric: Topology, best: RateResult, ilp_s: float | None) -> dict[str, float]:
    """Return the time of every path-based scheme over the optimum; those that are left out are absent.

    Parameters
    ----------
    fabric : Topology
    best : RateResult
        Its optimum.
    ilp_s : float, optional
        Seconds for each integer program; None leaves out these, and the linear programs over paths.
    """
    demand = everyone(fabric)
    times = {
        "SSSP": float(route_time(fabric, demand, single_source_shortest_paths(fabric, demand))),
        "EwSP": float((EqualSplit(fabric, demand).loads() / fabric.bandwidths).max()),
    }
    if ilp_s is not None:
        times["ILP-shortest"] = float(ilp_shortest(fabric, demand, time_limit_s=ilp_s).time)
        times["ILP-disjoint"] = float(ilp_disjoint(fabric, demand, time_limit_s=ilp_s).time)
        times["pMCF, shortest"] = 1 / path_mcf(fabric, demand, bounded_paths(fabric, demand)).rate
        candidates = disjoint_paths(fabric, demand)
        if candidates.n_paths <= _MOST_DISJOINT:
            times["pMCF, disjoint"] = 1 / path_mcf(fabric, demand, candidates).rate
    times["MCF-extP"] = 1 / extract_paths(fabric, demand, best.flow.by_source).rate(fabric)
    # the optimum is at most `upper`, so no ratio is below 1 because F is not known better
    return {name: time * float(best.upper) for name, time in times.items()}


def _schemes(cases: Mapping[str, str], ilp_s: float | None) -> Rows:
    largest: dict[str, float] = {}
    for place, expression in cases.items():
        fabric = parse(expression)
        best = optimal_rate(fabric, everyone(fabric), gap=GAP)
        yield f"{place}: 1/F", 1 / best.rate, "units of demand"
        for name, ratio in scheme_times(fabric, best, ilp_s).items():
            yield f"{place}: {name}", ratio, "x optimum"
            largest[name] = max(ratio, largest.get(name, 0))
    for name, ratio in largest.items():
        yield f"largest: {name}", ratio, "x optimum"


def figure_8(full: bool) -> Rows:
    """Yield the schemes on generalized Kautz graphs of degree 4."""
    sizes = FIGURE_8 if full else FIGURE_8[:3]
    cases = {f"N={n}": f"generalized_kautz(4, {n})" for n in sizes}
    yield from _schemes(cases, ILP_SECONDS if full else 1.0)


def figure_9(full: bool) -> Rows:
    """Yield the schemes on 81 nodes of degree 8, cables failed at random."""
    whole = "generalized_kautz(8, 81)"
    cases = {
        f"{links} links disabled": f"punctured({whole}, links={links}, seed=1)" if links else whole
        for links in (FIGURE_9 if full else FIGURE_9[:2])
    }
    yield from _schemes(cases, ILP_SECONDS if full else None)


def over_bound(expression: str) -> float:
    """Return 1/F of a fabric of degree 4 over the bound of theorem 1."""
    fabric = parse(expression)
    best = optimal_rate(fabric, everyone(fabric), gap=GAP)
    return float(all_to_all_limit(fabric.n_nodes, 4)) / best.rate


def figure_10(full: bool) -> Rows:
    """Yield topologies of degree 4 over the lower bound; Xpander of the nearest multiple of 5, seed 0."""
    most = max(FIGURE_10) if full else _QUICK_NODES
    for n in BOUND_RATIO:
        if full or n <= most:
            yield f"left, GenKautz N={n}", over_bound(f"generalized_kautz(4, {n})"), "x bound"
    for n in FIGURE_10:
        if n <= most:
            yield from _kinds(n)


def _kinds(n: int) -> Rows:
    """Yield the right half at one size, with how much faster generalized Kautz graphs are."""
    sides = next((a, n // a) for a in range(math.isqrt(n), 0, -1) if n % a == 0)
    kinds = {
        "GenKautz": f"generalized_kautz(4, {n})",
        "Xpander": f"xpander(4, {round(n / 5)})",
        "Jellyfish": f"jellyfish({n}, 4)",
        "2D torus": f"torus({sides[0]}, {sides[1]})",
    }
    found = {kind: over_bound(expression) for kind, expression in kinds.items()}
    for kind, ratio in found.items():
        yield f"right, {kind} N={n}", ratio, "x bound"
    for kind in ("Xpander", "Jellyfish", "2D torus"):
        yield f"{kind} / GenKautz N={n}", found[kind] / found["GenKautz"], "times"


def _exact_rate(fabric: Topology) -> Fraction:
    """Return f b of a symmetric fabric, bytes/s, by the exact flow."""
    found = planning.bound(fabric, CollectiveKind.ALLTOALL).rate
    assert found is not None, "an all-to-all has a rate"
    assert found.exact is not None, "these fabrics are symmetric"
    return found.exact


def upper_bound(fabric: Topology) -> Fraction:
    """Return (N - 1) f b: the most that a node can send, bytes/s, by the exact flow."""
    return (len(fabric.compute_nodes) - 1) * _exact_rate(fabric)


def figure_2(_full: bool) -> Rows:
    """Yield the flow value with and without the hosts' bottleneck (5.2)."""
    for title, fabric in zip(("without", "with"), _tori(), strict=True):
        yield f"f {title} the bottleneck", _exact_rate(fabric) / LINK, "b"


def figure_3(_full: bool) -> Rows:
    """Yield the theoretical throughput of steps on the paper's fabrics: its dashed lines."""
    yield from _throughputs(_tori()[1])
    free, bound = (upper_bound(one) for one in _tori())
    yield "3D torus: f without the bottleneck, more than with it", 100 * (free / bound - 1), "%"
    for name, expression in _SMALL.items():
        found = planning.solve(expression, CollectiveKind.ALLTOALL, algorithm="tsmcf")
        yield f"{name}: time of our steps / optimum", _over_optimum(found)


def _tori() -> tuple[Topology, Topology]:
    plain = torus(3, 3, 3, bandwidth=LINK)
    return plain, with_host_bottleneck(plain, bandwidth=HOST)


_SMALL = {
    "complete bipartite": "complete_bipartite(4, 4)",
    "hypercube": "hypercube(3)",
    "twisted hypercube": "twisted_hypercube(3)",
}


def _throughputs(cluster: Topology) -> Rows:
    for name, expression in _SMALL.items():
        fabric = parse(expression.replace(")", f', bandwidth="{LINK}B/s")'))
        yield f"{name}: upper bound", upper_bound(fabric) / 10**9, "GB/s"
    yield "3D torus: upper bound", upper_bound(cluster) / 10**9, "GB/s"


_ROUTED = ("mcf-extp", "ilp-disjoint", "sssp", "ewsp", "native")


def figure_4(_full: bool) -> Rows:
    """Yield the routes on the paper's fabrics: verified plans, time over the optimum."""
    yield from _throughputs(_tori()[0])
    for name, expression in (*_SMALL.items(), ("3D torus", "torus(3, 3, 3)")):
        for algorithm in (*_ROUTED, *(("dor",) if name == "3D torus" else ())):
            found = planning.solve(expression, CollectiveKind.ALLTOALL, algorithm=algorithm)
            yield f"{name}: {algorithm}", _over_optimum(found), "x optimum"


def _over_optimum(found: planning.SolveResult) -> Fraction:
    assert found.optimal_algbw is not None, "it was found beside"
    return found.optimal_algbw / found.algbw


def figure_5(full: bool) -> Rows:
    """Yield the link loads on ten tori without three links or three nodes: the optimum's below SSSP's."""
    for title, cut in (("links", "links=3"), ("nodes", "nodes=3")):
        saved: list[float] = []
        for seed in range(10 if full else 4):
            fabric = parse(f"punctured(torus(3, 3, 3), {cut}, seed={seed})")
            best = optimal_rate(fabric, everyone(fabric), gap=GAP)
            routes = single_source_shortest_paths(fabric, everyone(fabric))
            saved.append(100 * (1 - 1 / (best.rate * float(route_time(fabric, everyone(fabric), routes)))))
        yield f"without 3 {title}: fullest link below SSSP's, mean", _mean(saved), "%"
        yield f"without 3 {title}: least", min(saved), "%"
        yield f"without 3 {title}: most", max(saved), "%"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


FFT_GRID = 1296
"""Points of the largest grid along each side."""
FFT_RANKS = 27
_MEMORY_GBPS = (50, 100, 200)
"""Memory bandwidths of a server assumed for the FFT: the paper does not state it."""
_PASSES = 5
"""Passes over a slab: FFTs along three axes, packing and unpacking; each reads and writes all of it."""


def figure_6(_full: bool) -> Rows:
    """Yield a 3D FFT by slabs on the 27-node torus, whole and without three links: SSSP and MCF compared.

    Only the ratio of the all-to-alls is computed; what a server computes is assumed.
    """
    buffer = Fraction(FFT_GRID**3 * 16, FFT_RANKS)
    yield "buffer of a process, 1296^3 points of 16 bytes", buffer / 10**9, "GB"
    torus_text = f'torus(3, 3, 3, bandwidth="{LINK}B/s")'
    cases = {
        "3D torus": [torus_text],
        "without 3 links": [f"punctured({torus_text}, links=3, seed={seed})" for seed in range(4)],
    }
    for place, expressions in cases.items():
        ours_s, theirs_s = zip(*(_transpose_times_s(one, buffer) for one in expressions), strict=True)
        yield f"{place}: all-to-all, MCF-extP, mean", _mean(ours_s), "s"
        yield f"{place}: all-to-all, SSSP, mean", _mean(theirs_s), "s"
        pairs = list(zip(ours_s, theirs_s, strict=True))
        yield f"{place}: speedup of the all-to-all, most", 100 * max(b / a - 1 for a, b in pairs), "%"
        for rate in _MEMORY_GBPS:
            compute_s = float(_PASSES * 2 * buffer / (rate * 10**9))
            most = max((compute_s + b) / (compute_s + a) - 1 for a, b in pairs)
            yield f"{place}: speedup of the FFT, memory at {rate} GB/s, most", 100 * most, "%"


def _transpose_times_s(expression: str, buffer: Fraction) -> tuple[float, float]:
    """Return the seconds of the all-to-all by our routes and by SSSP, without latency."""
    found = (
        planning.solve(expression, CollectiveKind.ALLTOALL, algorithm=name) for name in ("mcf-extp", "sssp")
    )
    ours_s, theirs_s = (float(buffer / one.algbw) for one in found)
    return ours_s, theirs_s


OTHERS: dict[str, tuple[int, Callable[[Topology], object]]] = {
    "link MCF": (16, lambda fabric: link_mcf(fabric, everyone(fabric))),
    "master LP": (64, lambda fabric: master_mcf(fabric, everyone(fabric))),
    "FPTAS 5%": (256, lambda fabric: fleischer_rate(fabric, everyone(fabric), epsilon=0.05)),
    "ILP-disjoint": (64, lambda fabric: ilp_disjoint(fabric, everyone(fabric), time_limit_s=60.0)),
}
"""The published programs as implemented here, and the largest N at which each is tried."""


def figure_7(full: bool) -> Rows:
    """Yield CPU seconds to a certified rate and to weighted routes, generalized Kautz graphs of degree 4."""
    for n in (16, 27, 64, 128, 256, 512, 1000) if full else (16, 27, 64, 128):
        fabric = parse(f"generalized_kautz(4, {n})")
        start = process_time()
        best = optimal_rate(fabric, everyone(fabric), gap=1e-3)
        middle = process_time()
        extract_paths(fabric, everyone(fabric), best.flow.by_source)
        yield f"N={n}: rate", middle - start, "CPU s", f"gap {best.gap:.1e}"
        yield f"N={n}: rate and routes", process_time() - start, "CPU s"
        for name, (most, call) in OTHERS.items():
            if n <= (most if full else 16):
                start = process_time()
                call(fabric)
                yield f"N={n}: {name}", process_time() - start, "CPU s"
