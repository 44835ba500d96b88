"""Graphs that a search found, kept on disk for the next design of that size and valued anew when read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from treadle.errors import TreadleError
from treadle.finder.construction import Base, ScheduleMethod, expression, join_name
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.store import key_of, store_value
from treadle.finder.search import FabricCandidate
from treadle.topologies.naming import MAX_NAME
from treadle.topologies.properties import is_symmetric
from treadle.topologies.registry import catalogue

_MOST_KEPT = 16
_MAX_FILE_BYTES = 2**16


def cached_graphs(
    nodes: int, degree: int, directory: Path | None, *, bidirectional: bool
) -> tuple[FabricCandidate, ...]:
    """What earlier searches kept for a size; only what is of that size, with its figures computed anew.

    Parameters
    ----------
    nodes, degree : int
    directory : Path, optional
        None: there is nothing.
    bidirectional : bool
        Only with links in opposite pairs.
    """
    if directory is None:
        return ()
    value = _value(_path(nodes, degree, directory, bidirectional=bidirectional), nodes, degree)
    texts = value.get("graphs")
    found: list[FabricCandidate] = []
    if not isinstance(texts, list) or len(texts) > _MOST_KEPT:
        return ()
    for text in texts:
        if not isinstance(text, str) or not _is_graph(text):
            continue
        try:
            option = named_option(text, nodes, degree)
        except (TreadleError, ValueError, ArithmeticError, RecursionError, MemoryError):
            continue  # damaged or foreign
        two_way = is_symmetric(option.topology)
        if not bidirectional or two_way:
            figures = option.candidate
            gather = replace(figures.gather, is_bidirectional=two_way)
            same = figures.reduce is figures.gather
            reduce = gather if same else replace(figures.reduce, is_bidirectional=two_way)
            made = figures.construction
            if text.startswith("with_"):
                made = Base(text, join_name(text), ScheduleMethod.BFB, "neighbour")
            found.append(replace(figures, construction=made, gather=gather, reduce=reduce))
    return tuple(found)


def cache_graphs(
    nodes: int,
    degree: int,
    graphs: Iterable[FabricCandidate],
    directory: Path | None,
    *,
    bidirectional: bool,
    usual_seeds: Iterable[int] = (),
) -> None:
    """Keep graphs for the next design of this size; what was kept before makes room.

    The seeds of finished default searches are stored too: these need not run again.
    """
    texts = [expression(one.construction) for one in graphs][:_MOST_KEPT]
    seeds = list(usual_seeds)[-_MOST_KEPT:]
    if directory is None or not (texts or seeds):
        return
    path = _path(nodes, degree, directory, bidirectional=bidirectional)
    value = {
        "nodes": nodes,
        "degree": degree,
        "graphs": [text for text in texts if len(text) <= MAX_NAME],
        "usual_seeds": seeds,
    }
    store_value(path, value)


def usual_seeds(
    nodes: int,
    degree: int,
    directory: Path | None,
    kept: Sequence[FabricCandidate],
    *,
    bidirectional: bool,
) -> list[int]:
    """Return the seeds of the default searches of a size that have finished; none where a graph was lost."""
    if directory is None:
        return []
    value = _value(_path(nodes, degree, directory, bidirectional=bidirectional), nodes, degree)
    graphs, seeds = value.get("graphs"), value.get("usual_seeds")
    if not isinstance(graphs, list) or len(graphs) != len(kept) or not isinstance(seeds, list):
        return []
    return [seed for seed in seeds if type(seed) is int][:_MOST_KEPT]


def _path(nodes: int, degree: int, directory: Path, *, bidirectional: bool) -> Path:
    links = "two-way" if bidirectional else "any"
    question: Mapping[str, str] = {"graphs": f"{nodes} nodes", "degree": str(degree), "links": links}
    return directory / f"{key_of(question)}.graphs"


def _value(path: Path, nodes: int, degree: int) -> dict[str, object]:
    """Return the values of a file about this size; none of any other file."""
    try:
        if not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
            return {}
        value = json.loads(path.read_bytes())
        if not isinstance(value, dict) or (value["nodes"], value["degree"]) != (nodes, degree):
            return {}
        os.utime(path)
        return value
    except (OSError, ValueError, LookupError, RecursionError):
        return {}


def _is_graph(text: str) -> bool:
    """Whether it is one call of the catalogue: never a path, whatever a file says."""
    return len(text) <= MAX_NAME and text.endswith(")") and text.partition("(")[0] in catalogue()
