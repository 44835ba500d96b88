"""The papers' machines, schedules and claims, for `simulated_curves`; what was measured is in `printed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from treadle.finder.construction import expression
from treadle.reproduction.expansion_tables import TABLE_3_5
from treadle.units import format_size

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
class CurveSetting:
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


UNSLICED = "alpha-beta, unsliced"
"""End of the labels of ratios by the alpha-beta model with whole messages."""
Sizes = int | tuple[int, int]
"""A size, or a range over which the paper gives a mean."""


@dataclass(frozen=True)
class Claim:
    """Ratios of `other`'s time to `ours`' that a table or a figure's text gives.

    Parameters
    ----------
    exhibit : str
        Whose figures they are.
    source : str
        Its name on pages.
    setting, panel, ours : str
    other : str
        A curve, or several with ``or`` between them: the fastest at each size.
    sizes : tuple
    """

    exhibit: str
    source: str
    setting: str
    panel: str
    ours: str
    other: str
    sizes: tuple[Sizes, ...]

    def label(self, sizes: Sizes) -> str:
        """Label of the printed figure."""
        return f"{self._name}, {format_sizes(sizes)}"

    def label_of_full_steps(self, sizes: Sizes) -> str:
        """Label of the ratio by the alpha-beta model, where no message is sliced."""
        return f"{self.label(sizes)}, {UNSLICED}"

    @property
    def label_of_limit(self) -> str:
        """Label of the ratio as the size grows, by the costs of the schedules."""
        return f"{self._name}, limit"

    @property
    def _name(self) -> str:
        return f"{self.setting}, {self.panel}: {self.ours} / {self.other}"


def format_sizes(sizes: Sizes) -> str:
    """Format sizes as people write them."""
    return "-".join(map(format_size, sizes)) + " mean" if isinstance(sizes, tuple) else format_size(sizes)


@dataclass(frozen=True)
class Measured:
    """Times of a curve in seconds by size, and its asymptotic algbw by the cost of the schedule.

    `whole_steps_s`: times by the alpha-beta model with unsliced messages; empty where steps do not exist.
    """

    asymptotic: Fraction
    seconds: Mapping[int, float]
    slices: Mapping[int, int]
    whole_steps_s: Mapping[int, float] = field(default_factory=dict)

    def algbw(self, size: int) -> float:
        """Return the algorithm bandwidth, bytes/s."""
        return size / self.seconds[size]


Results = Mapping[tuple[str, str, str], Measured]
"""Claims by setting, panel and label."""


def _box_panels(fabric: str) -> tuple[Panel, ...]:
    """Return the three collectives on boxes around switches."""
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
    """Return NCCL-like baselines and ForestColl's trees by what switches can do; a box lacks InfiniBand."""
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


BEST_TOPOLOGIES = {n: expression(construction) for n, construction in TABLE_3_5.items()}

LINK = 79 * 10**9 // 8 // 4
"""Bytes/s: a quarter of the B = 79 Gbit/s that was fitted on the testbed (A.1.2)."""


def testbed_panel(n: int, collective: str, title: str) -> Panel:
    """Return figures 3.6 and A.1: graphs of degree 4."""
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
    """Return figure A.2: eight nodes of degree 3."""
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
    """Return the panel of figure 3.11."""
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
    CurveSetting("a100", "2 DGX A100 boxes, 8+8 GPUs", _box_panels("dgx_a100_flat(2)")),
    CurveSetting("mi250-16", "2 MI250 boxes, 16+16 GPUs", _box_panels("mi250(2)")),
    CurveSetting("mi250-8", "2 MI250 boxes, 8+8 GPUs", _box_panels("mi250(2, 8)")),
    CurveSetting(
        "h100-16",
        "16 DGX H100 boxes, 16x8 GPUs",
        tuple(_h100(16, kind, kind) for kind in (AG, RS, AR)),
        sizes=SIZES[::2],
    ),
    CurveSetting(
        "h100-boxes",
        "1 to 16 DGX H100 boxes, allgather",
        tuple(_h100(boxes, AG, f"{boxes}x8") for boxes in (1, 2, 4, 8, 16)),
        sizes=SIZES[::2],
    ),
    CurveSetting(
        "testbed-12",
        "12 nodes of degree 4",
        tuple(testbed_panel(12, kind, kind) for kind in (AG, RS, AR)),
        alpha_ns=TESTBED_ALPHA_NS,
        overhead_ns=TESTBED_OVERHEAD_NS,
    ),
    CurveSetting(
        "testbed",
        "5 to 12 nodes of degree 4",
        tuple(testbed_panel(n, kind, f"{kind}, N={n}") for kind in (AR, RS, AG) for n in BEST_TOPOLOGIES),
        alpha_ns=TESTBED_ALPHA_NS,
        overhead_ns=TESTBED_OVERHEAD_NS,
        sizes=(2**10, MIB, GIB),
    ),
    CurveSetting(
        "cubes",
        "hypercube and twisted hypercube, 8 nodes",
        (_cubes(AR),),
        TESTBED_ALPHA_NS,
        TESTBED_OVERHEAD_NS,
    ),
    CurveSetting(
        "tori",
        "tori with 25 Gbit/s links and 100 Gbit/s hosts, allreduce",
        tuple(_torus(dims) for dims in ("3, 3, 2", "3, 3, 3", "3, 3, 3, 2")),
        cap=12_500_000_000,
    ),
)


AT = (MIB, 16 * MIB, 128 * MIB, GIB)
"""Sizes of the preprint's tables."""
MEAN = (MIB, GIB)
LARGE, SMALL = (128 * MIB, GIB), (2**10, 64 * MIB)
FC, ONE_TREE = "ForestColl", "ForestColl, 1 tree a root"
RING, DBT, BLINK = "ring", "double binary tree", "Blink+switch"
EITHER = f"{RING} or {DBT}"
BEST, PHASES = "OurBestTopo, BFB", "double binary tree, in phases"
WHOLE_RHD, SLICED_RHD = "RH&D, hypercube, whole messages", "RH&D, hypercube, sliced"

_TABLE_2 = ("preprint-table-2", "preprint, table 2")
_TABLE_3 = ("preprint-table-3", "preprint, table 3")
_FIGURE_10 = ("figure-4.10", "fig. 4.10, text")
_FIGURE_11 = ("figure-4.11", "fig. 4.11, text")
_FIGURE_12 = ("figure-4.12", "fig. 4.12(a), text")
_FIGURE_3_6 = ("figure-3.6", "3.8.3, text")
_FIGURE_A_2 = ("figure-A.2", "A.1.1")

CLAIMS = (
    *(Claim(*_TABLE_3, "a100", kind, FC, RING, AT) for kind in (AG, RS, AR)),
    Claim(*_TABLE_3, "a100", AR, FC, DBT, AT),
    *(
        Claim(*_TABLE_2, boxes, kind, FC, other, AT)
        for boxes in ("mi250-16", "mi250-8")
        for kind, others in ((AG, (RING,)), (RS, (RING,)), (AR, (BLINK, DBT, RING)))
        for other in others
    ),
    *(Claim(*_FIGURE_10, "mi250-16", kind, FC, RING, (MEAN,)) for kind in (AG, RS)),
    Claim(*_FIGURE_10, "mi250-16", AR, FC, BLINK, (GIB, MEAN)),
    Claim(*_FIGURE_10, "mi250-16", AR, FC, EITHER, (MEAN,)),
    *(Claim(*_FIGURE_10, "mi250-8", kind, FC, RING, (GIB, MEAN)) for kind in (AG, RS)),
    Claim(*_FIGURE_10, "mi250-8", AR, FC, BLINK, (GIB, MEAN)),
    Claim(*_FIGURE_10, "mi250-8", AR, FC, EITHER, (GIB, MEAN)),
    *(Claim(*_FIGURE_11, "a100", kind, FC, RING, (GIB, MEAN)) for kind in (AG, RS)),
    Claim(*_FIGURE_11, "a100", AR, FC, EITHER, (GIB, MEAN)),
    *(Claim(*_FIGURE_12, "h100-16", kind, FC, RING, (GIB,)) for kind in (AG, RS, AR)),
    Claim(*_FIGURE_12, "h100-16", AR, FC, DBT, (GIB,)),
    Claim("figure-4.12", "fig. 4.12(b), text", "h100-boxes", "1x8", FC, RING, (GIB,)),
    Claim(*_FIGURE_3_6, "testbed-12", AR, BEST, "ShiftedRing", (2**10, MIB, GIB)),
    Claim(*_FIGURE_3_6, "testbed-12", AR, "ShiftedBFBRing", "ShiftedRing", (2**10, MIB)),
    Claim(*_FIGURE_3_6, "testbed-12", AR, BEST, DBT, (2**10, MIB, GIB)),
    Claim(*_FIGURE_3_6, "testbed-12", AR, BEST, PHASES, (2**10, MIB, GIB)),
    Claim(*_FIGURE_A_2, "cubes", AR, "BFB, twisted", "BFB, hypercube", (2**10,)),
    *(
        Claim(*_FIGURE_A_2, "cubes", AR, "BFB, hypercube", other, (GIB,))
        for other in (WHOLE_RHD, SLICED_RHD, "ring, hypercube")
    ),
    *(
        Claim(
            "figure-3.11", "3.8.5, fig. 3.11", "tori", dims, "BFB", f"traditional torus{how}", (LARGE, SMALL)
        )
        for dims in ("3 x 3 x 2", "3 x 3 x 3", "3 x 3 x 3 x 2")
        for how in ("", ", whole messages")
    ),
)
