"""The tables and figures of the ForestColl preprint and of the all-to-all paper."""

from __future__ import annotations

from dataclasses import replace

from treadle.reproduction.dissertation_exhibits import DISSERTATION, SIMULATOR
from treadle.reproduction.exhibit import Exhibit, FigureBasis

_CURVES = "treadle.reproduction.simulated_curves"
_EXCHANGES = "treadle.reproduction.exchange_figures"
_BY_NAME = {one.name: one for one in DISSERTATION}


def _same(name: str, other: str) -> Exhibit:
    """A table or figure of the preprint that the dissertation has too."""
    first = _BY_NAME[other]
    source = f"{_source(name)} (dissertation, {other.replace('-', ' ')})"
    return replace(first, name=name, source=source, same_as=other)


def _source(name: str) -> str:
    paper, _, place = name.partition("-")
    title = {"preprint": "ForestColl preprint", "alltoall": "all-to-all paper"}[paper]
    return f"{title}, {place.replace('-', ' ')}"


def _none(name: str, what: str, reason: str) -> Exhibit:
    return Exhibit(name, _source(name), what, FigureBasis.NO_FIGURES, reason=reason)


def _preprint_table(number: int, what: str, quick_s: float, full_s: float, left_out: str) -> Exhibit:
    name = f"preprint-table-{number}"
    function = f"{_CURVES}:preprint_table_{number}"
    return Exhibit(
        name,
        _source(name),
        what,
        FigureBasis.SIMULATED,
        function,
        SIMULATOR,
        "",
        quick_s,
        full_s,
        left_out,
    )


def _drawn(table: Exhibit, number: int) -> Exhibit:
    """The figure that draws a table."""
    source = f"ForestColl preprint, figure {number}, which draws table {table.name[-1]}"
    return replace(table, name=f"preprint-figure-{number}", source=source, same_as=table.name)


_FORESTS = _preprint_table(2, "MI250: ratios at four sizes", 2, 11, "1 to 128 MB, and 16+16 GPUs")
_A100 = _preprint_table(3, "DGX A100: ratios at four sizes", 0.5, 1, "1 to 128 MB")

PREPRINT = (
    _none("preprint-table-1", "related work", "words; docs/explanation/related-work.md says what runs here"),
    _none("preprint-figure-1", "relations between collectives", "an illustration"),
    _same("preprint-figure-2", "figure-4.5"),
    _none("preprint-figure-3", "the auxiliary network", "an illustration"),
    _none("preprint-figure-4", "switch node removal", "an illustration"),
    _none("preprint-figure-5", "a tree mapped back", "an illustration"),
    _none("preprint-figure-6", "the network for fixed k", "an illustration"),
    _same("preprint-figure-7", "figure-4.9"),
    _FORESTS,
    _drawn(_FORESTS, 8),
    _none("preprint-figure-9", "trees on two DGX A100", "an illustration; figure-4.2 counts its crossings"),
    _A100,
    _drawn(_A100, 10),
    _same("preprint-figure-11", "figure-4.14"),
    _same("preprint-figure-12", "figure-B.1"),
    _none("preprint-figure-13", "stages of construction", "an illustration"),
)


def _exchange(
    number: int,
    what: str,
    command: str = "",
    *,
    quick_s: float,
    full_s: float = 0,
    left_out: str = "",
    model: str = "",
) -> Exhibit:
    name = f"alltoall-figure-{number}"
    function = f"{_EXCHANGES}:figure_{number}"
    return Exhibit(
        name, _source(name), what, FigureBasis.COMPUTED, function, model, command, quick_s, full_s, left_out
    )


ALLTOALL = (
    _none("alltoall-table-1", "fabrics of machines", "a comparison in words"),
    _none("alltoall-figure-1", "link- and path-based schedules", "an illustration"),
    _exchange(
        2,
        "the bottleneck of hosts in the flow",
        "treadle bound 'with_host_bottleneck(torus(3,3,3), bandwidth=\"4B/s\")' alltoall",
        quick_s=0.1,
    ),
    _exchange(
        3,
        "throughput of steps: the theoretical bounds",
        "treadle compare 'hypercube(3)' alltoall",
        quick_s=0.5,
        model="bounds and loads (the paper's curves are measured)",
    ),
    _exchange(
        4,
        "throughput of routes: bounds and schemes",
        "treadle compare torus:3,3,3 alltoall",
        quick_s=1,
        model="loads of links (the paper's curves are measured)",
    ),
    _exchange(
        5,
        "punctured tori",
        quick_s=1.5,
        full_s=4,
        left_out="six of ten instances",
        model="loads of links (the paper's curves are measured)",
    ),
    Exhibit(
        "alltoall-figure-6",
        _source("alltoall-figure-6"),
        "a 3D FFT",
        FigureBasis.SIMULATED,
        f"{_EXCHANGES}:figure_6",
        "FFT model (all-to-all: link loads of verified routes; FFT and packing: assumed, five passes over "
        "the slab at the named memory bandwidth)",
        "python examples/fft3d.py",
        quick_s=3,
    ),
    _exchange(
        7,
        "time to generate schedules",
        "treadle bound generalized_kautz:4,1000 alltoall",
        quick_s=1,
        full_s=28,
        left_out="256 to 1000 nodes, and the published programs beyond 16",
        model="CPU seconds (this machine)",
    ),
    _exchange(
        8,
        "schemes on generalized Kautz graphs",
        "treadle compare generalized_kautz:4,27 alltoall",
        quick_s=3,
        full_s=26,
        left_out="50 to 81 nodes; integer programs have 1 s instead of 10",
    ),
    _exchange(
        9,
        "schemes with links disabled",
        quick_s=2,
        full_s=170,
        left_out="32 and 64 links, and programs over paths",
    ),
    _exchange(
        10,
        "topologies beside the lower bound",
        "treadle bound generalized_kautz:4,400 alltoall",
        quick_s=2,
        full_s=180,
        left_out="more than 100 nodes",
    ),
)
