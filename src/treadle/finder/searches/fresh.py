"""Search for graphs of a size and degree, besides those of the libraries.

Abelian Cayley digraphs (beginning with the table's), other Cayley digraphs, line graphs of smaller ones,
neighbours of graphs of a few nodes more or less and multicirculants are searched in turn. A limit in sets
tried makes the result depend on the seed alone; a limit in seconds ends each search where it stands, and
`Effort.tried` says where. By default, multicirculants of the sizes beyond the libraries are searched, for
about three seconds: counted as work, so that every machine finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from treadle.context import context, under
from treadle.errors import ScheduleError
from treadle.finder.search import FabricCandidate, Finder, pareto
from treadle.finder.searches.abelian_search import (
    MAX_ABELIAN_DEGREE,
    MAX_ABELIAN_ORDER,
    AbelianSet,
    search_abelian,
)
from treadle.finder.searches.abelian_table import shipped_abelian_table
from treadle.finder.searches.candidates import Entry, Searched, is_over
from treadle.finder.searches.cayley_library import check_entry as check_cayley
from treadle.finder.searches.cayley_search import MAX_ORDER, MAX_SEARCH_DEGREE, search_cayley
from treadle.finder.searches.line_graph_library import check_entry as check_line_graph
from treadle.finder.searches.line_graph_search import MAX_BASE_ORDER, search_line_graphs
from treadle.finder.searches.line_graph_value import MAX_LINE_DEGREE, MAX_POWER
from treadle.finder.searches.link_swaps import MAX_SWAP_DEGREE
from treadle.finder.searches.multicirculant_search import (
    MAX_TURNED_DEGREE,
    MAX_TURNED_NODES,
    search_multicirculants,
)
from treadle.finder.searches.neighbour_search import (
    MAX_NEIGHBOUR_NODES,
    NeighbourEntry,
    neighbour_trials,
    search_neighbours,
)
from treadle.finder.searches.neighbour_table import candidate_of_neighbour, check_neighbour
from treadle.finder.tables import candidate_of_cayley, candidate_of_line_graph, shipped_tables

_ENDLESS = 10**9
"""Sets tried where only time limits a search."""

_FIRST_WORK = 10**7
"""Work of the first round of the search of abelian digraphs, in words of bit sets."""

_MOST_DOUBLINGS = 10
"""Rounds after the first that have twice the work of the one before."""

_NEIGHBOUR_WORK = 10**8
"""Work of the first round of neighbours, about half a second."""

_TURNED_WORK = 10**9
"""Work of the first round of multicirculants, about half a second."""

LARGEST_IN_LIBRARIES = 64
"""Nodes up to which the library of Cayley digraphs has every size."""

_WORK_OF_A_SECOND = 2 * 10**9
"""Half nanoseconds."""

_WORK_OF_A_SET = 100
"""Words of bit sets, about, that a set takes."""

_Kind = Callable[[int], "Effort"]
"""kind(trials): a search of one graph family."""


@dataclass(frozen=True)
class SearchLimit:
    """Limit of the search for better graphs; one of the three.

    Parameters
    ----------
    seconds : float, optional
        For all kinds of graphs together.
    sets : int, optional
        Generator sets of each kind, rounded up to whole blocks; of neighbours as many graphs.
    usual_s : int, optional
        Search only multicirculants, of sizes beyond the libraries, for about this time: counted as work, so
        that the result does not depend on the machine.

    Raises
    ------
    ScheduleError
        If several or none is given, or it is not positive.
    """

    seconds: float | None = None
    sets: int | None = None
    usual_s: int | None = None

    def __post_init__(self) -> None:
        given = [one for one in (self.seconds, self.sets, self.usual_s) if one is not None]
        if len(given) != 1:
            raise ScheduleError("search: expected either a time or a number of sets")
        if not 0 < given[0] <= _ENDLESS:
            raise ScheduleError(f"search: expected a time or a number of sets up to {_ENDLESS}")


USUAL_SEARCH = SearchLimit(usual_s=3)


@dataclass(frozen=True)
class Effort:
    """A kind of graphs that was searched.

    Parameters
    ----------
    kind : str
        ``abelian Cayley digraphs``, ``Cayley digraphs``, ``line graphs of Cayley digraphs``, ``neighbours``,
        ``multicirculants``.
    tried : int
        Generator sets, or of neighbours and multicirculants graphs.
    found : tuple of FabricCandidate
        Pareto front of the tried graphs, each rebuilt and measured again.
    unit : str
        What is counted.
    usual_s : int
        Seconds of the default search; 0 for a search that the user chose.
    """

    kind: str
    tried: int
    found: tuple[FabricCandidate, ...]
    unit: str = "generator set"
    usual_s: int = 0


def search_now(
    nodes: int,
    degree: int,
    limit: SearchLimit,
    *,
    bidirectional: bool = False,
    seed: int = 0,
    known: Sequence[FabricCandidate] = (),
) -> tuple[Effort, ...]:
    """Look for graphs of `nodes` and `degree`; none where no kind has graphs of that size.

    Parameters
    ----------
    nodes, degree : int
    limit : SearchLimit
    bidirectional : bool
        Only with bidirectional links, which line graphs do not have.
    seed : int
    known : sequence of FabricCandidate
        Graphs of this size, which multicirculants have to beat.

    Notes
    -----
    Half of the time that is left goes to each kind but the last: what is left over by a search that met its
    lower bounds goes to the next.
    """
    turned = nodes <= MAX_TURNED_NODES and 2 <= degree <= MAX_TURNED_DEGREE
    if limit.usual_s is not None:
        if not turned or nodes <= LARGEST_IN_LIBRARIES:
            return ()
        found = search_multicirculants(
            nodes,
            degree,
            known,
            work=limit.usual_s * _WORK_OF_A_SECOND,
            seed=seed,
            bidirectional=bidirectional,
        )
        return (_effort("multicirculants", (found,), [], limit.usual_s),) if found.tried else ()
    kinds: list[_Kind] = []
    if 2 <= nodes <= MAX_ABELIAN_ORDER and degree <= MAX_ABELIAN_DEGREE:
        kinds.append(partial(_abelian, nodes, degree, seed, bidirectional))
    if 2 <= nodes <= MAX_ORDER and degree <= MAX_SEARCH_DEGREE:
        kinds.append(partial(_cayley, nodes, degree, seed, bidirectional))
    if not bidirectional:
        kinds += [partial(_line_graphs, nodes, degree, power, seed) for power in _powers(nodes, degree)]
    if nodes <= MAX_NEIGHBOUR_NODES and 2 <= degree <= MAX_SWAP_DEGREE:
        kinds.append(partial(_neighbours, nodes, degree, seed, bidirectional))
    if turned:
        kinds.append(partial(_multicirculants, nodes, degree, seed, bidirectional, known))
    end = None if limit.seconds is None else monotonic() + limit.seconds
    efforts = []
    for place, kind in enumerate(kinds):
        context().report("graphs", place, len(kinds))
        left = None if end is None else max(0.0, end - monotonic())
        share = None if left is None else left if place == len(kinds) - 1 else left / 2
        with under(replace(context(), deadline=None if share is None else monotonic() + share)):
            efforts.append(kind(limit.sets or _ENDLESS))
    return tuple(efforts)


def _checked(check: Callable[[Entry], None], entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Check what was found, however late it is."""
    checked = tuple(entries)
    with under(context().unlimited):
        for entry in checked:
            check(entry)
    return checked


def _powers(nodes: int, degree: int) -> tuple[int, ...]:
    """Return n for which L^n of a searchable base has this number of nodes."""
    return tuple(
        power
        for power in range(1, MAX_POWER + 1)
        if 2 <= degree <= MAX_LINE_DEGREE
        and nodes % degree**power == 0
        and 2 <= nodes // degree**power <= MAX_BASE_ORDER
    )


def _rounds(search: Callable[[int, int, int], Searched[Entry]], trials: int) -> Iterator[Searched[Entry]]:
    """Search in rounds until time or trials are used up, or a round finds nothing to try.

    `search` takes the number of the round, which makes its seed, the work as a multiple of the first round's,
    and the trials that are left.
    """
    tried = place = 0
    while place == 0 or (tried < trials and not is_over()):
        found = search(place, 1 << min(place, _MOST_DOUBLINGS), trials - tried)
        if not found.tried:
            return
        yield found
        tried, place = tried + found.tried, place + 1


def _abelian(nodes: int, degree: int, seed: int, bidirectional: bool, trials: int) -> Effort:
    known = shipped_abelian_table().sets(nodes, degree, two_way=bidirectional)
    first = min(_FIRST_WORK, trials * _WORK_OF_A_SET)
    best, tried = known, 0

    def search(place: int, factor: int, _: int) -> Searched[AbelianSet]:
        options = {"work": first * factor, "seed": seed + place}
        return search_abelian(nodes, degree, **options, two_way=bidirectional, starts=best)

    for found in _rounds(search, trials):
        best, tried = found.entries, tried + found.tried
    entries = _checked(check_cayley, (one.entry for one in best if one not in known))
    return Effort("abelian Cayley digraphs", tried, tuple(map(candidate_of_cayley, entries)))


def _cayley(nodes: int, degree: int, seed: int, bidirectional: bool, trials: int) -> Effort:
    found = search_cayley(nodes, degree, trials=trials, seed=seed, bidirectional=bidirectional)
    entries = _checked(check_cayley, found.entries)
    return Effort("Cayley digraphs", found.tried, tuple(map(candidate_of_cayley, entries)))


def _line_graphs(nodes: int, degree: int, power: int, seed: int, trials: int) -> Effort:
    found = search_line_graphs(nodes, degree, trials=trials, seed=seed, power=power)
    entries = _checked(check_line_graph, found.entries)
    name = f"line graphs{'' if power == 1 else f', {power}-fold,'} of Cayley digraphs"
    return Effort(name, found.tried, tuple(map(candidate_of_line_graph, entries)))


def _neighbours(nodes: int, degree: int, seed: int, two_way: bool, trials: int) -> Effort:
    finder = Finder(shipped_tables().bases, bidirectional=two_way)
    known = finder.frontier(nodes, degree)
    first = neighbour_trials(nodes, degree, _NEIGHBOUR_WORK)

    def search(place: int, factor: int, left: int) -> Searched[NeighbourEntry]:
        share = min(first * factor, left)
        return search_neighbours(
            *(nodes, degree, finder, known), trials=share, seed=seed + place, two_way=two_way
        )

    return _effort("neighbours", _rounds(search, trials), known)


def _multicirculants(
    nodes: int, degree: int, seed: int, two_way: bool, known: Sequence[FabricCandidate], trials: int
) -> Effort:
    best = list(known)

    def search(place: int, factor: int, _: int) -> Searched[NeighbourEntry]:
        work = min(_TURNED_WORK * factor, trials * nodes**2 * (degree + 16))
        return search_multicirculants(
            nodes, degree, best, work=work, seed=seed + place, bidirectional=two_way
        )

    return _effort("multicirculants", _rounds(search, trials), best)


def _effort(
    kind: str,
    rounds: Iterable[Searched[NeighbourEntry]],
    known: list[FabricCandidate],
    usual_s: int = 0,
) -> Effort:
    """Return what rounds of a search find; each next one has to beat what is added to `known`."""
    tried, found = 0, list[FabricCandidate]()
    for searched in rounds:
        entries = _checked(check_neighbour, searched.entries)
        candidates = [candidate_of_neighbour(entry, kind.removesuffix("s")) for entry in entries]
        known += candidates
        found += candidates
        tried += searched.tried
    return Effort(kind, tried, tuple(pareto(found)), "graph", usual_s)
