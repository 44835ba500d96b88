"""The tables and figures of the ForestColl preprint and of the all-to-all paper."""

from __future__ import annotations

from dataclasses import replace

from treadle.reproduction.dissertation_figures import DISSERTATION, SIMULATOR
from treadle.reproduction.paper_figure import PaperFigure, computed, no_figures, simulated

_CURVES = "treadle.reproduction.simulated_curves"
_EXCHANGES = "treadle.reproduction.exchange_figures"
_BY_NAME = {one.name: one for one in DISSERTATION}


def _same(name: str, other: str) -> PaperFigure:
    """Return a table or figure of the preprint that the dissertation has too."""
    first = _BY_NAME[other]
    found = replace(first, name=name, same_as=other)
    return replace(found, place=f"{found.source} ({first.source})")


def _preprint_table(number: int, what: str, quick_s: float, full: tuple[float, str]) -> PaperFigure:
    return simulated(
        f"preprint-table-{number}",
        what,
        f"{_CURVES}:preprint_table_{number}",
        model=SIMULATOR,
        quick_s=quick_s,
        full=full,
    )


def _drawn(table: PaperFigure, number: int) -> PaperFigure:
    """Return the figure that draws a table."""
    found = replace(table, name=f"preprint-figure-{number}", same_as=table.name)
    return replace(found, place=f"{found.source}, which draws table {table.name[-1]}")


_FORESTS = _preprint_table(2, "MI250: ratios at four sizes", 2, (11, "1 to 128 MB, and 16+16 GPUs"))
_A100 = _preprint_table(3, "DGX A100: ratios at four sizes", 0.5, (1, "1 to 128 MB"))

PREPRINT = (
    no_figures(
        "preprint-table-1",
        "related work",
        reason="words; docs/how-it-works/related-systems.md says what runs here",
    ),
    no_figures("preprint-figure-1", "relations between collectives", reason="an illustration"),
    _same("preprint-figure-2", "figure-4.5"),
    no_figures("preprint-figure-3", "the auxiliary network", reason="an illustration"),
    no_figures("preprint-figure-4", "switch node removal", reason="an illustration"),
    no_figures("preprint-figure-5", "a tree mapped back", reason="an illustration"),
    no_figures("preprint-figure-6", "the network for fixed k", reason="an illustration"),
    _same("preprint-figure-7", "figure-4.9"),
    _FORESTS,
    _drawn(_FORESTS, 8),
    no_figures(
        "preprint-figure-9",
        "trees on two DGX A100",
        reason="an illustration; figure-4.2 counts its crossings",
    ),
    _A100,
    _drawn(_A100, 10),
    _same("preprint-figure-11", "figure-4.14"),
    _same("preprint-figure-12", "figure-B.1"),
    no_figures("preprint-figure-13", "stages of construction", reason="an illustration"),
)


ALLTOALL = (
    no_figures("alltoall-table-1", "fabrics of machines", reason="a comparison in words"),
    no_figures("alltoall-figure-1", "link- and path-based schedules", reason="an illustration"),
    computed(
        "alltoall-figure-2",
        "the bottleneck of hosts in the flow",
        f"{_EXCHANGES}:figure_2",
        "treadle bound 'with_host_bottleneck(torus(3,3,3), bandwidth=\"4B/s\")' alltoall",
    ),
    computed(
        "alltoall-figure-3",
        "throughput of steps: the theoretical bounds",
        f"{_EXCHANGES}:figure_3",
        "treadle compare 'hypercube(3)' alltoall",
        quick_s=0.5,
        model="bounds and loads (the paper's curves are measured)",
    ),
    computed(
        "alltoall-figure-4",
        "throughput of routes: bounds and schemes",
        f"{_EXCHANGES}:figure_4",
        "treadle compare torus:3,3,3 alltoall",
        quick_s=1,
        model="loads of links (the paper's curves are measured)",
    ),
    computed(
        "alltoall-figure-5",
        "punctured tori",
        f"{_EXCHANGES}:figure_5",
        quick_s=1.5,
        full=(4, "six of ten instances"),
        model="loads of links (the paper's curves are measured)",
    ),
    simulated(
        "alltoall-figure-6",
        "a 3D FFT",
        f"{_EXCHANGES}:figure_6",
        "python examples/fft3d.py",
        model="FFT model (all-to-all: link loads of verified routes; FFT and packing: assumed, five passes "
        "over the slab at the named memory bandwidth)",
        quick_s=3,
    ),
    computed(
        "alltoall-figure-7",
        "time to generate schedules",
        f"{_EXCHANGES}:figure_7",
        "treadle bound generalized_kautz:4,1000 alltoall",
        quick_s=1,
        full=(28, "256 to 1000 nodes, and the published programs beyond 16"),
        model="CPU seconds (this machine)",
    ),
    computed(
        "alltoall-figure-8",
        "schemes on generalized Kautz graphs",
        f"{_EXCHANGES}:figure_8",
        "treadle compare generalized_kautz:4,27 alltoall",
        quick_s=3,
        full=(26, "50 to 81 nodes; integer programs have 1 s instead of 10"),
    ),
    computed(
        "alltoall-figure-9",
        "schemes with links disabled",
        f"{_EXCHANGES}:figure_9",
        quick_s=2,
        full=(170, "32 and 64 links, and programs over paths"),
    ),
    computed(
        "alltoall-figure-10",
        "topologies beside the lower bound",
        f"{_EXCHANGES}:figure_10",
        "treadle bound generalized_kautz:4,400 alltoall",
        quick_s=2,
        full=(180, "more than 100 nodes"),
    ),
)
