"""The fabrics among which a design chooses: known ones, those just found, and the frontier of them all."""

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
from treadle.topologies import is_regular, parse
from treadle.topologies.expressions import parse_imported
from treadle.topologies.topology import Topology

_SURELY_MEASURED = 2048
"""Nodes up to which candidates are measured too whose predictions are upper bounds: some seconds."""

_RANDOM_WORK = 2 * 10**7
"""Nodes squared times (degree + 16) up to which random graphs are measured: 0.2 seconds each."""


_NEIGHBOUR_WORK = 3 * 10**8
"""Work of the neighbour search for a size missing in the table: about half a second."""

_NEIGHBOUR_TASKS = 3


def known_bases(nodes: int, degree: int, extra: Sequence[FabricCandidate] = ()) -> Bases:
    """Return the known bases and `extra` ones of this size; what the tables lack of it is measured."""
    tables, place = shipped_tables(), (nodes, degree)
    figures = dict(tables.figures)
    for family, graph in _usual_graphs(nodes, degree):
        known = figures.get(family, {})
        if place not in known:
            figures[family] = {**known, place: measure_graph(parse(graph))}
    library = {**tables.library, place: [*tables.library.get(place, ()), *extra]}
    return replace(tables, figures=figures, library=library).bases


def quick_neighbours(nodes: int, degree: int, *, bidirectional: bool) -> tuple[FabricCandidate, ...]:
    """Search neighbours of known graphs where the table ends: the same few dozen, of which the best."""
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


def _usual_graphs(nodes: int, degree: int) -> Iterator[tuple[str, str]]:
    """Yield families with a graph of this size that is quick to measure, and its expression."""
    if 1 < degree < nodes and is_quick_breadth_first(nodes, degree):
        yield "generalized_kautz", f"generalized_kautz({degree}, {nodes})"
    if nodes**2 * (degree + 16) > _RANDOM_WORK or not 3 <= degree < nodes - 1:
        return
    if nodes * degree % 2 == 0:
        yield "jellyfish", f"jellyfish({nodes}, {degree})"
    if nodes % (degree + 1) == 0:
        yield "xpander", f"xpander({degree}, {nodes // (degree + 1)})"


def frontier_options(finder: Finder, nodes: int, degree: int) -> tuple[Option, ...]:
    """Return the frontier, measured; nothing where no fabric is known."""
    candidates = finder.frontier(nodes, degree)
    if nodes <= _SURELY_MEASURED:
        candidates = [*candidates, *finder.hopeful(nodes, degree)]
    return measured_options(candidates)


def improving(efforts: Sequence[Effort], known: Sequence[Option]) -> tuple[Effort, ...]:
    """Drop found graphs that a fabric of the frontier without them equals, in steps and bandwidth time."""

    def is_better(found: FabricCandidate) -> bool:
        costs = (one.candidate.cost for one in known)
        return not any(steps <= found.steps and t_b <= found.t_b_both for steps, t_b in costs)

    return tuple(replace(effort, found=tuple(filter(is_better, effort.found))) for effort in efforts)


def check_pairs(nodes: int, degree: int) -> None:
    """Raise InfeasibleError if no fabric has bidirectional links only: each uses a port at two nodes."""
    if nodes * degree % 2:
        raise InfeasibleError(
            f"design: {nodes} nodes of degree {degree} have {nodes * degree} ports, an odd number, and "
            f"bidirectional links use two each, so no such fabric is possible; drop --bidirectional or "
            f"make one of the numbers even"
        )
    if degree == 1 and nodes > 2:
        raise InfeasibleError(
            f"design: bidirectional links of degree 1 connect nodes in pairs, so no fabric of {nodes} nodes "
            f"is possible; drop --bidirectional or take a higher degree"
        )


def named_option(text: str, nodes: int, degree: int) -> Option:
    """Return a fabric by its expression or notation, with the costs of its construction's schedule.

    A TreadleError is raised if it is not a regular fabric of this size and degree, or is a file whose
    fabric has no expression and hence no known construction.
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
    return min(measured_options([candidate]), key=lambda one: one.candidate.cost[::-1])


def _is_named(topology: Topology) -> bool:
    """Whether the name is an expression of this very fabric, as of one that was exported."""
    try:
        named = parse_imported(topology.name)
    except TreadleError:
        return False
    return named.format == "catalogue" and named.topology == topology
