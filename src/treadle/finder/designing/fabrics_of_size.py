"""The frontier of a size: graphs of the library, of a search now, and of earlier searches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.context import context
from treadle.finder.designing.cached_graphs import cache_graphs, cached_graphs
from treadle.finder.designing.candidates import (
    frontier_options,
    improving,
    known_bases,
    named_option,
    quick_neighbours,
)
from treadle.finder.designing.design_options import DesignOptions
from treadle.finder.measure import Option
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.searches.fresh import USUAL_SEARCH, Effort, search_now


@dataclass(frozen=True)
class FabricsOfSize:
    """Fabrics of a size.

    Parameters
    ----------
    options : tuple of Option
        The frontier, by rising steps; empty if none is known.
    finder : Finder
        Of this and of other sizes.
    efforts : tuple of Effort
        The searches of now, with the graphs that beat the library.
    kept : tuple of str
        Expressions of the frontier's graphs that an earlier search found.
    """

    options: tuple[Option, ...]
    finder: Finder
    efforts: tuple[Effort, ...]
    kept: tuple[str, ...] = ()


def fabrics_of_size(
    nodes: int,
    degree: int,
    asked: DesignOptions,
    directory: Path | None,
) -> FabricsOfSize:
    """Return the fabrics of a size that no other known one beats, or the one given by name.

    Graphs that were found are cached in `directory`, if there is one.
    """
    two_way, is_usual = asked.bidirectional, asked.search == USUAL_SEARCH
    is_named = asked.topology is not None
    with context().stage("search"):
        quick: tuple[FabricCandidate, ...] = ()
        kept, seeds = quick, list[int]()
        if not is_named:
            quick = quick_neighbours(nodes, degree, bidirectional=two_way)
            kept, seeds = cached_graphs(nodes, degree, directory, bidirectional=two_way)
        finder = Finder(known_bases(nodes, degree, quick), bidirectional=two_way)
        options = () if is_named else frontier_options(finder, nodes, degree)
    efforts: tuple[Effort, ...] = ()
    if asked.search is not None and not (is_usual and (is_named or asked.seed in seeds)):
        with context().stage("graphs"):
            known = [*(one.candidate for one in options), *kept]
            efforts = search_now(
                nodes, degree, asked.search, bidirectional=two_way, seed=asked.seed, known=known
            )
    with context().stage("search"):
        if asked.topology is not None:
            return FabricsOfSize((named_option(asked.topology, nodes, degree),), finder, efforts)
        efforts = improving(efforts, options)
        found = [one for effort in efforts for one in effort.found]
        if found or kept:
            finder = Finder(known_bases(nodes, degree, (*quick, *found, *kept)), bidirectional=two_way)
            options = frontier_options(finder, nodes, degree)
        new = {one.construction for one in found}
        earlier = {one.construction for one in kept} - new
        if found or (is_usual and efforts):
            own = [one.candidate for one in options if one.candidate.construction in new | earlier]
            done = [*seeds, asked.seed] if is_usual else seeds
            cache_graphs(nodes, degree, own, directory, bidirectional=two_way, usual_seeds=done)
        shown = tuple(one.expression for one in options if one.candidate.construction in earlier)
        return FabricsOfSize(options, finder, efforts, shown)
