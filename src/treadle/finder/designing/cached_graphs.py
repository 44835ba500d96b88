"""Graphs found by searches, cached for the next design of that size and measured again when read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from treadle.errors import TreadleError
from treadle.finder.construction import bfb_base, expression
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.store import key_of, read_value, store_value
from treadle.finder.search import FabricCandidate
from treadle.topologies.naming import MAX_NAME
from treadle.topologies.properties import is_symmetric
from treadle.topologies.registry import catalogue

_MOST_KEPT = 16
_MAX_FILE_BYTES = 2**16


def cached_graphs(
    nodes: int, degree: int, directory: Path | None, *, bidirectional: bool
) -> tuple[tuple[FabricCandidate, ...], list[int]]:
    """Return the cached graphs of a size, measured again, and the seeds of its finished default searches.

    Without a directory there are none; seeds also are none where a graph was lost, so that it is found again.
    """
    if directory is None:
        return (), []
    value = read_value(_path(nodes, degree, directory, bidirectional=bidirectional), _MAX_FILE_BYTES)
    texts, seeds = value.get("graphs"), value.get("usual_seeds")
    if (value.get("nodes"), value.get("degree")) != (nodes, degree):
        return (), []
    if not isinstance(texts, list) or len(texts) > _MOST_KEPT:
        return (), []
    found = [one for text in texts if (one := _measured(text, nodes, degree, bidirectional)) is not None]
    if len(found) < len(texts) or not isinstance(seeds, list):
        seeds = []
    return tuple(found), [seed for seed in seeds if type(seed) is int][:_MOST_KEPT]


def _measured(text: object, nodes: int, degree: int, bidirectional: bool) -> FabricCandidate | None:
    """Return the candidate of a cached expression; None if that is damaged or foreign."""
    if not isinstance(text, str) or not _is_graph(text):
        return None
    try:
        option = named_option(text, nodes, degree)
    except (TreadleError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None
    two_way = is_symmetric(option.topology)
    if bidirectional and not two_way:
        return None
    found = option.candidate
    gather = replace(found.gather, is_bidirectional=two_way)
    reduce = gather if found.reduce is found.gather else replace(found.reduce, is_bidirectional=two_way)
    made = bfb_base(text, "neighbour") if text.startswith("with_") else found.construction
    return replace(found, construction=made, gather=gather, reduce=reduce)


def _is_graph(text: str) -> bool:
    """Whether it is one call of the catalogue: never a path, whatever a file says."""
    return len(text) <= MAX_NAME and text.endswith(")") and text.partition("(")[0] in catalogue()


def cache_graphs(
    nodes: int,
    degree: int,
    graphs: Iterable[FabricCandidate],
    directory: Path | None,
    *,
    bidirectional: bool,
    usual_seeds: Iterable[int] = (),
) -> None:
    """Cache graphs, and the seeds of finished default searches, in place of earlier ones of this size."""
    texts = [expression(graph.construction) for graph in graphs][:_MOST_KEPT]
    seeds = list(usual_seeds)[-_MOST_KEPT:]
    if directory is None or not (texts or seeds):
        return
    short = [text for text in texts if len(text) <= MAX_NAME]
    value = {"nodes": nodes, "degree": degree, "graphs": short, "usual_seeds": seeds}
    store_value(_path(nodes, degree, directory, bidirectional=bidirectional), value)


def _path(nodes: int, degree: int, directory: Path, *, bidirectional: bool) -> Path:
    links = "two-way" if bidirectional else "any"
    key = key_of({"graphs": f"{nodes} nodes", "degree": str(degree), "links": links})
    return directory / f"{key}.graphs"
