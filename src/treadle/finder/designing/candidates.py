"""The fabrics among which a design is chosen: those known, those just found, and the frontier of them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from treadle.errors import InfeasibleError, TopologyError, TreadleError
from treadle.finder.construction import construction_of
from treadle.finder.measure import Option, is_quick_breadth_first, measure_graph, measured_options
from treadle.finder.predict import Performance
from treadle.finder.search import Bases, FabricCandidate, Finder
from treadle.finder.searches.fresh import Effort
from treadle.finder.searches.neighbour_search import neighbour_trials, search_neighbours
from treadle.finder.searches.neighbour_table import (
    candidate_of_neighbour,
    shipped_neighbours,
)
from treadle.finder.tables import shipped_tables
from treadle.topologies import generalized_kautz, is_regular, parse
from treadle.topologies.expressions import parse_imported
from treadle.topologies.topology import Topology

_SURELY_MEASURED = 2048
"""Nodes up to which candidates that only may be good are measured too: at most a few seconds."""

_RANDOM_WORK = 2 * 10**7
"""Nodes squared times degree up to which random graphs without figures are measured: .2 seconds each."""


_NEIGHBOUR_WORK = 3 * 10**8
"""Of the neighbours of a size that the table does not have: about half a second."""

_NEIGHBOUR_TASKS = 3


def known_bases(nodes: int, degree: int, extra: Sequence[FabricCandidate] = ()) -> Bases:
    """The known bases, and those just found or kept.

    A generalized Kautz graph of the target's size is computed if no table has it.
    """
    tables = shipped_tables()
    place = nodes, degree
    kautz = tables.figures["generalized_kautz"]
    if place not in kautz and 1 < degree < nodes and is_quick_breadth_first(nodes, degree):
        more = {place: measure_graph(generalized_kautz(degree, nodes))}
        tables = replace(tables, figures={**tables.figures, "generalized_kautz": {**kautz, **more}})
    for family, graph in _random_graphs(nodes, degree):
        known = tables.figures.get(family, {})
        if place not in known:
            tables = replace(
                tables, figures={**tables.figures, family: {**known, place: measure_graph(parse(graph))}}
            )
    if extra:
        tables = replace(tables, library={**tables.library, place: [*tables.library.get(place, ()), *extra]})
    return tables.bases


def quick_neighbours(nodes: int, degree: int, *, bidirectional: bool) -> tuple[FabricCandidate, ...]:
    """Neighbours of known graphs where the table ends: the best of a few dozen, always the same ones."""
    if shipped_neighbours().covers(nodes, degree):
        return ()
    finder = Finder(shipped_tables(neighbours=False).bases, bidirectional=bidirectional)
    found = search_neighbours(
        *(nodes, degree, finder, finder.frontier(nodes, degree)),
        trials=neighbour_trials(nodes, degree, _NEIGHBOUR_WORK),
        two_way=bidirectional,
        most_tasks=_NEIGHBOUR_TASKS,
    )
    return tuple(map(candidate_of_neighbour, found.entries))


def _random_graphs(nodes: int, degree: int) -> Iterator[tuple[str, str]]:
    """Families of random bidirectional graphs that have one of this size, and its expression."""
    if nodes**2 * (degree + 16) > _RANDOM_WORK or not 3 <= degree < nodes - 1:
        return
    if nodes * degree % 2 == 0:
        yield "jellyfish", f"jellyfish({nodes}, {degree})"
    if nodes % (degree + 1) == 0:
        yield "xpander", f"xpander({degree}, {nodes // (degree + 1)})"


def frontier_options(finder: Finder, nodes: int, degree: int) -> tuple[Option, ...]:
    """The frontier; empty where no fabric is known."""
    candidates = finder.frontier(nodes, degree)
    if nodes <= _SURELY_MEASURED:
        candidates = [*candidates, *finder.hopeful(nodes, degree)]
    return measured_options(candidates)


def improving(efforts: Sequence[Effort], known: Sequence[Option]) -> tuple[Effort, ...]:
    """What was found but for graphs that a known fabric is as good as, in steps and in bandwidth time.

    Parameters
    ----------
    efforts : sequence of Effort
    known : sequence of Option
        The frontier without them.
    """
    return tuple(
        replace(
            effort,
            found=tuple(
                found
                for found in effort.found
                if not any(
                    one.candidate.steps <= found.steps and one.candidate.t_b_both <= found.t_b_both
                    for one in known
                )
            ),
        )
        for effort in efforts
    )


def check_pairs(nodes: int, degree: int) -> None:
    """InfeasibleError where no fabric has all its links in opposite pairs: each takes a port at two nodes."""
    if nodes * degree % 2:
        raise InfeasibleError(
            f"design: {nodes} nodes of degree {degree} have {nodes * degree} ports, an odd number, and links "
            f"in opposite pairs take two at a time, so no such fabric is possible; drop --bidirectional or "
            f"make one of the numbers even"
        )
    if degree == 1 and nodes > 2:
        raise InfeasibleError(
            f"design: links in opposite pairs of degree 1 join nodes by twos, so no fabric of {nodes} nodes "
            f"is possible; drop --bidirectional or take a higher degree"
        )


def named_option(text: str, nodes: int, degree: int) -> Option:
    """A fabric by its expression or notation, with the figures of the schedule that its construction has.

    Raises
    ------
    TreadleError
        If it names no fabric, or one of another size or degree, or one that is not regular; or if it is a
        file of a fabric that is not known by an expression, which says how the fabric is constructed.
    """
    imported = parse_imported(text)
    topology = imported.topology
    if imported.format != "catalogue" and not _is_named(topology):
        raise TopologyError(
            f"design: {Path(text).name[:80]} is a file, and the finder takes fabrics that an expression or a "
            f"notation constructs ('treadle topology list'); 'treadle solve' plans for the fabric of a file"
        )
    if not is_regular(topology) or (topology.n_nodes, topology.n_links) != (nodes, nodes * degree):
        raise TopologyError(
            f"design: {text[:80]} has {topology.n_nodes} nodes and {topology.n_links} links; expected a "
            f"regular fabric of {nodes} nodes of degree {degree} without switches"
        )
    # figures to be replaced by those of the schedule
    unknown = Performance(nodes, degree, steps=nodes, t_b=Fraction(nodes), is_exact=False)
    candidate = FabricCandidate(construction_of(topology.name), unknown, unknown)
    return min(measured_options([candidate]), key=lambda one: (one.candidate.t_b_both, one.candidate.steps))


def _is_named(topology: Topology) -> bool:
    """Whether the name is an expression of this very fabric, as of one that was exported."""
    try:
        named = parse_imported(topology.name)
    except TreadleError:
        return False
    return named.format == "catalogue" and named.topology == topology
