"""The frontier of a size: what the library has, what a search finds now, and what earlier ones kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treadle.context import context
from treadle.finder.designing.candidates import (
    frontier_options,
    improving,
    known_bases,
    named_option,
    quick_neighbours,
)
from treadle.finder.designing.design_options import DesignOptions
from treadle.finder.designing.kept_graphs import keep_graphs, kept_graphs
from treadle.finder.measure import Option
from treadle.finder.search import Finder
from treadle.finder.searches.fresh import Effort, search_now


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
    efforts: tuple[Effort, ...] = ()
    if asked.search is not None:
        with context().stage("graphs"):
            efforts = search_now(nodes, degree, asked.search, bidirectional=two_way, seed=asked.seed)
    with context().stage("search"):
        quick = quick_neighbours(nodes, degree, bidirectional=two_way) if asked.topology is None else ()
        finder = Finder(known_bases(nodes, degree, quick), bidirectional=two_way)
        if asked.topology is not None:
            return FabricsOfSize((named_option(asked.topology, nodes, degree),), finder, efforts)
        options = frontier_options(finder, nodes, degree)
        efforts = improving(efforts, options)
        found = [one for effort in efforts for one in effort.found]
        kept = kept_graphs(nodes, degree, directory, bidirectional=two_way)
        if not found and not kept:
            return FabricsOfSize(options, finder, efforts)
        finder = Finder(known_bases(nodes, degree, (*quick, *found, *kept)), bidirectional=two_way)
        options = frontier_options(finder, nodes, degree)
        known = {one.construction for one in found}
        earlier = [one for one in kept if one.construction not in known]
        best = [one.candidate for one in options]
        if found:
            own = {one.construction for one in (*found, *earlier)}
            frontier = [one for one in best if one.construction in own]
            keep_graphs(nodes, degree, frontier, directory, bidirectional=two_way)
        old = {one.construction for one in earlier}
        shown = tuple(one.expression for one in options if one.candidate.construction in old)
        return FabricsOfSize(options, finder, efforts, shown)
