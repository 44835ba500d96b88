"""The papers' settings, schedules and published ratios for `simulated_curves.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

MIB, GIB = 2**20, 2**30
SIZES = tuple(2**power for power in range(10, 31))
TREES = "double-binary-tree-steps"
AG, RS, AR = "allgather", "reduce-scatter", "allreduce"


@dataclass(frozen=True)
class Curve:
    """A schedule on a fabric; `slices` 0: the best number for each size; `trees` 0: ForestColl chooses.

    `exact`: the optimum as the papers have it, whatever sizes runtimes give to such a plan.
    """

    label: str
    fabric: str
    algorithm: str
    trees: int = 0
    multicast: bool = False
    slices: int = 0
    exact: bool = False


@dataclass(frozen=True)
class Panel:
    """One collective."""

    title: str
    collective: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Setting:
    """A machine of the papers.

    `overhead_ns` is added to every time; `cap` is bytes/s into and out of every host, 0: none.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    alpha_ns: int = 10_000
    overhead_ns: int = 0
    cap: int = 0
    sizes: tuple[int, ...] = SIZES


@dataclass(frozen=True)
class Claim:
    """Published ratios of `other`'s time to `ours`'; a size is a range where the text gives a mean."""

    source: str
    setting: str
    panel: str
    ours: str
    other: str
    published: Mapping[int | tuple[int, int], str]


@dataclass(frozen=True)
class Measured:
    """A curve's times in seconds by size, and its asymptotic algbw by the cost of the schedule."""

    asymptotic: Fraction
    seconds: Mapping[int, float]
    slices: Mapping[int, int]

    def algbw(self, size: int) -> float:
        """Bytes/s."""
        return size / self.seconds[size]


Results = Mapping[tuple[str, str, str], Measured]
"""By setting, panel and label."""


def _box_panels(fabric: str) -> tuple[Panel, ...]:
    """The three collectives on boxes around switches."""
    common = (
        Curve("ForestColl", fabric, "forestcoll", exact=fabric != "mi250(2)"),
        Curve("ForestColl, 1 tree a root", fabric, "forestcoll", trees=1),
        Curve("ring", fabric, "ring"),
        Curve("MultiTree", fabric, "multitree"),
    )
    single = (
        Curve("double binary tree", fabric, "double-binary-tree"),
        Curve("Blink+switch", fabric, "blink"),
    )
    return (Panel(AG, AG, common), Panel(RS, RS, common), Panel(AR, AR, common + single))


def _h100(boxes: int, collective: str, title: str) -> Panel:
    """NCCL-like baselines, and ForestColl's trees with what switches can do; one box has no InfiniBand."""
    plain, nvls, sharp = (
        f"dgx_h100({boxes}{able})" for able in ("", ", nvls=True", ", nvls=True, sharp=True")
    )
    curves = [
        Curve("ForestColl", plain, "forestcoll"),
        Curve("ForestColl, NVLS", nvls, "forestcoll", multicast=True),
    ]
    if boxes > 1:
        curves.append(Curve("ForestColl, NVLS + SHARP", sharp, "forestcoll", multicast=True))
    curves.append(Curve("ring", plain, "ring"))
    if collective == AR:
        curves.append(Curve("double binary tree", plain, "double-binary-tree"))
    return Panel(title, collective, tuple(curves))


BEST_TOPOLOGIES = {
    5: "complete(5)",
    6: "degree_expansion(complete(3), 2)",
    7: "circulant(7, 2, 3)",
    8: "complete_bipartite(4, 4)",
    9: "hamming(2, 3)",
    10: "degree_expansion(bi_ring(2, 5), 2)",
    11: "circulant(11, 2, 3)",
    12: "circulant(12, 2, 3)",
}
"""Table 3.5."""

LINK = 79 * 10**9 // 8 // 4
"""Bytes/s: a quarter of the B = 79 Gbit/s that was fitted on the testbed (A.1.2)."""


def testbed_panel(n: int, collective: str, title: str) -> Panel:
    """Figures 3.6 and A.1: graphs of degree 4."""
    best = f'with_links({BEST_TOPOLOGIES[n]}, bandwidth="{LINK}B/s")'
    shifted = f'shifted_ring({n}, bandwidth="{LINK}B/s")'
    curves = [
        Curve("OurBestTopo, BFB", best, "bfb"),
        Curve("ShiftedBFBRing", shifted, "shifted-bfb-ring"),
        Curve("ShiftedRing", shifted, "ring-steps"),
    ]
    if collective == AR:
        trees = f'double_binary_tree({n}, bandwidth="{LINK}B/s")'
        curves += [
            Curve("double binary tree", trees, TREES),
            Curve("double binary tree, in phases", trees, TREES),
        ]
    return Panel(title, collective, tuple(curves))


def _cubes(collective: str) -> Panel:
    """Figure A.2: eight nodes of degree 3."""
    curves = []
    for name, fabric in (("hypercube", "hypercube(3"), ("twisted", "twisted_hypercube(3")):
        fabric += ', bandwidth="25Gbit/s")'
        curves += [
            Curve(f"BFB, {name}", fabric, "bfb"),
            Curve(f"RH&D, {name}, whole messages", fabric, "recursive-doubling", slices=1),
            Curve(f"RH&D, {name}, sliced", fabric, "recursive-doubling"),
            Curve(f"ring, {name}", fabric, "ring"),
        ]
    return Panel(collective, collective, tuple(curves))


def _torus(dims: str) -> Panel:
    """Figure 3.11."""
    fabric = f'torus({dims}, bandwidth="25Gbit/s")'
    curves = (
        Curve("BFB", fabric, "bfb"),
        Curve("traditional torus", fabric, "traditional-torus"),
        Curve("BFB, whole messages", fabric, "bfb", slices=1),
        Curve("traditional torus, whole messages", fabric, "traditional-torus", slices=1),
        Curve("RH&D, whole messages", fabric, "recursive-doubling", slices=1),
    )
    return Panel(dims.replace(", ", " x "), AR, curves)


TESTBED_ALPHA_NS, TESTBED_OVERHEAD_NS = 13_330, 21_600
"""Fitted in A.1.2."""

SETTINGS = (
    Setting("a100", "2 DGX A100 boxes, 8+8 GPUs", _box_panels("dgx_a100_flat(2)")),
    Setting("mi250-16", "2 MI250 boxes, 16+16 GPUs", _box_panels("mi250(2)")),
    Setting("mi250-8", "2 MI250 boxes, 8+8 GPUs", _box_panels("mi250(2, 8)")),
    Setting(
        "h100-16",
        "16 DGX H100 boxes, 16x8 GPUs",
        tuple(_h100(16, kind, kind) for kind in (AG, RS, AR)),
        sizes=SIZES[::2],
    ),
    Setting(
        "h100-boxes",
        "1 to 16 DGX H100 boxes, allgather",
        tuple(_h100(boxes, AG, f"{boxes}x8") for boxes in (1, 2, 4, 8, 16)),
        sizes=SIZES[::2],
    ),
    Setting(
        "testbed-12",
        "12 nodes of degree 4",
        tuple(testbed_panel(12, kind, kind) for kind in (AG, RS, AR)),
        alpha_ns=TESTBED_ALPHA_NS,
        overhead_ns=TESTBED_OVERHEAD_NS,
    ),
    Setting(
        "testbed",
        "5 to 12 nodes of degree 4",
        tuple(testbed_panel(n, kind, f"{kind}, N={n}") for kind in (AR, RS, AG) for n in BEST_TOPOLOGIES),
        alpha_ns=TESTBED_ALPHA_NS,
        overhead_ns=TESTBED_OVERHEAD_NS,
        sizes=(2**10, MIB, GIB),
    ),
    Setting(
        "cubes",
        "hypercube and twisted hypercube, 8 nodes",
        (_cubes(AR),),
        TESTBED_ALPHA_NS,
        TESTBED_OVERHEAD_NS,
    ),
    Setting(
        "tori",
        "tori with 25 Gbit/s links and 100 Gbit/s hosts, allreduce",
        tuple(_torus(dims) for dims in ("3, 3, 2", "3, 3, 3", "3, 3, 3, 2")),
        cap=12_500_000_000,
    ),
)


def _per_size(texts: str) -> dict[int | tuple[int, int], str]:
    """Published ratios at the sizes of the preprint's tables 2 and 3."""
    return dict(zip((MIB, 16 * MIB, 128 * MIB, GIB), texts.split(), strict=True))


LARGE, SMALL = (128 * MIB, GIB), (2**10, 64 * MIB)
TABLE_2, TABLE_3 = "preprint, table 2", "preprint, table 3"
FC, ONE_TREE = "ForestColl", "ForestColl, 1 tree a root"
RING, DBT, BLINK = "ring", "double binary tree", "Blink+switch"
BEST, FIG_4, FIG_3 = "OurBestTopo, BFB", "fig. 4.12(a), text", "3.8.3, text"
PHASES = "double binary tree, in phases"
CLAIMS = (
    Claim(TABLE_3, "a100", AG, FC, RING, _per_size("4.1 2.5 1.3 1.3")),
    Claim(TABLE_3, "a100", RS, FC, RING, _per_size("2.9 1.9 1.2 1.3")),
    Claim(TABLE_3, "a100", AR, FC, RING, _per_size("3.3 2.0 1.4 1.3")),
    Claim(TABLE_3, "a100", AR, FC, DBT, _per_size("1.3 1.2 1.5 1.3")),
    Claim(TABLE_2, "mi250-16", AG, FC, RING, _per_size("3.1 2.0 1.4 1.1")),
    Claim(TABLE_2, "mi250-16", RS, FC, RING, _per_size("3.3 1.9 1.3 1.1")),
    Claim(TABLE_2, "mi250-16", AR, FC, BLINK, _per_size("1.0 1.3 1.3 1.2")),
    Claim(TABLE_2, "mi250-16", AR, FC, DBT, _per_size("1.1 1.3 1.2 1.0")),
    Claim(TABLE_2, "mi250-16", AR, FC, RING, _per_size("3.4 2.3 1.4 1.1")),
    Claim(TABLE_2, "mi250-8", AG, FC, RING, _per_size("5.3 2.2 2.5 2.7")),
    Claim(TABLE_2, "mi250-8", RS, FC, RING, _per_size("5.5 2.0 2.2 2.4")),
    Claim(TABLE_2, "mi250-8", AR, FC, BLINK, _per_size("1.4 1.3 1.4 1.4")),
    Claim(TABLE_2, "mi250-8", AR, FC, DBT, _per_size("1.2 1.5 1.6 1.7")),
    Claim(TABLE_2, "mi250-8", AR, FC, RING, _per_size("6.1 2.4 2.6 2.7")),
    Claim(FIG_4, "h100-16", AG, FC, RING, {GIB: "1.32"}),
    Claim(FIG_4, "h100-16", RS, FC, RING, {GIB: "1.14"}),
    Claim(FIG_4, "h100-16", AR, FC, RING, {GIB: "1.25"}),
    Claim(FIG_4, "h100-16", AR, FC, DBT, {GIB: "1.25"}),
    Claim("fig. 4.12(b), text", "h100-boxes", "1x8", FC, RING, {GIB: "similar"}),
    Claim(FIG_3, "testbed-12", AR, BEST, "ShiftedRing", {2**10: "4.0", MIB: "2.0", GIB: "1.0"}),
    Claim(FIG_3, "testbed-12", AR, "ShiftedBFBRing", "ShiftedRing", {2**10: "1.7", MIB: "1.5"}),
    Claim(FIG_3, "testbed-12", AR, BEST, DBT, {2**10: "1.25", MIB: "1.8", GIB: "2.0"}),
    Claim(FIG_3, "testbed-12", AR, BEST, PHASES, {2**10: "1.25", MIB: "1.8", GIB: "2.0"}),
    Claim("A.1.1", "cubes", AR, "BFB, twisted", "BFB, hypercube", {2**10: "1.25"}),
    Claim("A.1.1", "cubes", AR, "BFB, hypercube", "RH&D, hypercube, whole messages", {GIB: "2.5"}),
    Claim("A.1.1", "cubes", AR, "BFB, hypercube", "RH&D, hypercube, sliced", {GIB: "2.5"}),
    Claim("A.1.1", "cubes", AR, "BFB, hypercube", "ring, hypercube", {GIB: "above 1"}),
    *(
        Claim("3.8.5, fig. 3.11", "tori", dims, "BFB", f"traditional torus{how}", {LARGE: text, SMALL: "3.1"})
        for dims, text in (("3 x 3 x 2", "1.29"), ("3 x 3 x 3", "1.0"), ("3 x 3 x 3 x 2", "1.42"))
        for how in ("", ", whole messages")
    ),
)
