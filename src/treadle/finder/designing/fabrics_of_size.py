"""The frontier of a size: what the library has, what a search finds now, and what earlier ones kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.context import context
from treadle.finder.designing.cached_graphs import cache_graphs, cached_graphs, usual_seeds
from treadle.finder.designing.candidates import (
    frontier_options,
    improving,
    known_bases,
    named_option,
    quick_neighbours,
)
from treadle.finder.designing.design_options import DesignOptions
from treadle.finder.measure import Option
from treadle.finder.search import Finder
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
        What was searched now, with what was found that beats the library.
    kept : tuple of str
        Expressions of those of the frontier that an earlier search kept.
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
    """The fabrics of a size that no other known one beats, or the one asked for by name.

    Parameters
    ----------
    nodes, degree : int
    asked : DesignOptions
    directory : Path, optional
        Where graphs that were found are kept; None: neither look nor keep.
    """
    two_way = asked.bidirectional
    with context().stage("search"):
        quick = quick_neighbours(nodes, degree, bidirectional=two_way) if asked.topology is None else ()
        finder = Finder(known_bases(nodes, degree, quick), bidirectional=two_way)
        options = () if asked.topology is not None else frontier_options(finder, nodes, degree)
        kept = (
            ()
            if asked.topology is not None
            else cached_graphs(nodes, degree, directory, bidirectional=two_way)
        )
    seeds = usual_seeds(nodes, degree, directory, kept, bidirectional=two_way)
    is_usual = asked.search == USUAL_SEARCH
    efforts: tuple[Effort, ...] = ()
    if asked.search is not None and not (is_usual and (asked.seed in seeds or asked.topology is not None)):
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
        earlier = [one for one in kept if one.construction not in {one.construction for one in found}]
        if found or (is_usual and efforts):
            own = {one.construction for one in (*found, *earlier)}
            frontier = [one.candidate for one in options if one.candidate.construction in own]
            done = [*seeds, asked.seed] if is_usual else seeds
            cache_graphs(nodes, degree, frontier, directory, bidirectional=two_way, usual_seeds=done)
        old = {one.construction for one in earlier}
        shown = tuple(one.expression for one in options if one.candidate.construction in old)
        return FabricsOfSize(options, finder, efforts, shown)
